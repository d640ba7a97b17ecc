"""kolo run and kolo bench with --device, on the stand-in driver; what they say without any."""
import csv
import io
import os
import socket
import subprocess
import tempfile
import unittest

KOLO, COMPILE, STANDIN = (os.environ[name] for name in ("KOLO", "KOLO_COMPILE_FOR_STANDIN", "KOLO_TEST_STANDIN"))


def call(*arguments, **environment):
    return subprocess.run([str(argument) for argument in arguments], env={**os.environ, **environment}, text=True,
                          capture_output=True, timeout=120, check=False)


def on_stand_in(*arguments):
    return call(KOLO, *arguments, KOLO_CUDA_DRIVER=STANDIN, KOLO_STANDIN_THREADS="2")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launched(hosts, *arguments, **environment):
    """What each rank says and returns; `hosts`: by rank."""
    world = {**os.environ, "KOLO_CUDA_DRIVER": STANDIN, "KOLO_STANDIN_THREADS": "2", "WORLD_SIZE": str(len(hosts)),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "KOLO_TIMEOUT_MS": "30000", **environment}
    ranks = [subprocess.Popen([KOLO, *arguments, "--device", "cuda", "--ranks-as", "launched"], text=True,
                              env={**world, "RANK": str(rank), "KOLO_HOSTID": host, "LOCAL_RANK": str(hosts[:rank].count(host))},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank, host in enumerate(hosts)]
    said = [rank.communicate(timeout=120) for rank in ranks]
    return [(out, err, rank.returncode) for (out, err), rank in zip(said, ranks)]


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-device-")
        cls.addClassCleanup(cls.folder.cleanup)

    def compiled(self, name, mesh, protocol="bulk"):
        path = os.path.join(self.folder.name, f"{name}-{protocol}.so")
        if not os.path.exists(path):
            done = call(COMPILE, name, protocol, path, mesh)
            self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_run_checks_every_byte(self):
        for name, mesh in (("ringAllGather", "rank=4"), ("railAllGather", "node=2,gpu=2"), ("ringAllReduce", "rank=8")):
            for flags in ((), ("--in-place",), ("--lanes", "2")):
                plugin = self.compiled(name, mesh)
                done = on_stand_in("run", plugin, "--mesh", mesh, "--count", "1001", "--device", "cuda", *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("every byte is right", done.stdout)
                self.assertRegex(done.stdout, rf"{name} on {mesh}: \d ranks on cuda devices, f32.*, device memory, [28] lanes")

    def test_run_takes_counts_for_each_block(self):
        for name, mesh in (("ringAllGather", "rank=4"), ("directAllToAll", "rank=4"), ("ringReduceScatter", "rank=4")):
            for law in ("zipf:1.2:1", "onehot:2"):
                done = on_stand_in("run", self.compiled(name, mesh), "--mesh", mesh, "--count", "1001", "--device", "cuda",
                                   "--counts", law)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"counts {law}: ", done.stdout)
                self.assertIn("every byte is right", done.stdout)

    def test_bench_prints_what_it_prints_for_the_host(self):
        plugin = self.compiled("ringAllGather", "rank=4")
        done = on_stand_in("bench", plugin, "--mesh", "rank=4", "--device", "cuda", "-b", "64", "-e", "4K", "-n", "3", "-w", "1",
                           "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([int(row["bytes"]) for row in rows], [64, 128, 256, 512, 1024, 2048, 4096])
        self.assertTrue(all(float(row["medianUs"]) > 0 for row in rows))

    def test_ranks_of_a_launcher_run_on_devices_of_several_hosts(self):
        plugin = self.compiled("hierarchicalAllReduce", "node=2,gpu=2", "staged")
        for hosts in (["a", "a", "b", "b"], ["a"] * 4):
            for flags in ((), ("--memory", "ordinary"), ("--in-place",)):
                said = launched(hosts, "run", plugin, "--mesh", "node=2,gpu=2", "--count", "50001", *flags)
                self.assertEqual([(err, code) for _, err, code in said], [("", 0)] * 4)
                self.assertIn("4 launched ranks on cuda devices", said[0][0])
                self.assertIn("every byte is right", said[0][0])
                self.assertEqual([out for out, _, _ in said[1:]], [""] * 3, "rank 0 prints")
        said = launched(["a", "a", "b", "b"], "bench", plugin, "--mesh", "node=2,gpu=2", "-b", "64", "-e", "4K", "-f", "8",
                        "-n", "2", "-w", "1", "--csv", "-")
        rows = list(csv.DictReader(io.StringIO(said[0][0])))
        self.assertEqual([int(row["bytes"]) for row in rows], [64, 512, 4096])

    def test_all_ranks_of_several_hosts_refuse_what_cannot_run_there(self):
        plugin = self.compiled("hierarchicalAllReduce", "node=2,gpu=2")
        for hosts, flags in ((["a", "a", "b", "b"], "--network node --network-memory staged"),
                             (["a", "b", "a", "b"], "--network gpu --network-memory staged")):
            for out, err, code in launched(hosts, "run", plugin, "--mesh", "node=2,gpu=2", "--count", "10"):
                self.assertEqual((out, code, err.count("\n")), ("", 2, 1), err)
                self.assertIn(flags, err)
        for out, err, code in launched(["a", "b"], "run", plugin, "--mesh", "node=2,gpu=2", "--count", "10"):
            self.assertEqual((out, code), ("", 2))
            self.assertIn("has 4 ranks, but the launcher started 2", err)

    def test_what_cannot_be_is_refused(self):
        plugin = self.compiled("ringAllGather", "rank=4")
        run = ("run", plugin, "--mesh", "rank=4", "--count", "10", "--device", "cuda")
        for arguments, code, text in (
                ((*run, "--ranks-as", "threads"), 2, "--ranks-as"),
                ((*run, "--memory", "ordinary"), 2, "--memory"),
                ((*run, "--lanes", "64"), 2, "2 ranks of 64 lanes are 128 blocks"),
                ((*run, "--dtype", "f64"), 0, "every byte is right"),  # nothing is reduced
                (("run", "ringAllGather", "--mesh", "rank=4", "--device", "cuda"), 2, "loading the image for sm_90"),
                (("run", "ringAllGather", "--mesh", "rank=4", "--device", "tpu"), 2, "--device")):
            with self.subTest(arguments):
                done = on_stand_in(*arguments)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(text, done.stdout + done.stderr)

    def test_a_machine_without_a_driver_is_told_so(self):
        done = call(KOLO, "run", "ringAllGather", "--mesh", "rank=4", "--device", "cuda", KOLO_CUDA_DRIVER="/nowhere/libcuda.so.1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--device: KOLO_CUDA_DRIVER: the CUDA driver cannot be loaded: /nowhere/libcuda.so.1", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
