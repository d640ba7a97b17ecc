"""Collectives, and faults, on several hosts: network namespaces of this machine. Skipped where they cannot be made."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts

KOLO = os.environ["KOLO"]
REASON = hosts.missing()


class Launch:
    """The ranks of `kolo run` on hosts, `per_host` on each."""

    def __init__(self, made, per_host, words, environment=None):
        self.hosts, size = made, made.number * per_host
        self.ranks = []
        for rank in range(size):
            variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": made.address(0),
                         "MASTER_PORT": "29511", "LC_ALL": "C", "KOLO_WAIT": "yield", **(environment or {})}
            self.ranks.append(made.start(rank // per_host, [KOLO, *words], env=variables, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def pid(self, rank):
        """Of the program that nsenter started, as this host numbers it."""
        nsenter = self.ranks[rank].pid
        try:
            with open(f"/proc/{nsenter}/task/{nsenter}/children", encoding="ascii") as file:
                children = file.read().split()
        except FileNotFoundError:
            children = []
        return int(children[0]) if children else None

    def kill(self, rank):
        """nsenter stops with its program, and ends after it."""
        if pid := self.pid(rank):
            os.kill(pid, signal.SIGKILL)
        self.ranks[rank].send_signal(signal.SIGCONT)

    def finish(self, seconds):
        """(exit status, standard output, standard error) of every rank."""
        end = time.monotonic() + seconds
        try:
            return [(*rank.communicate(timeout=max(end - time.monotonic(), 0.1)), rank.returncode)
                    for rank in self.ranks]
        finally:
            for rank, process in enumerate(self.ranks):
                self.kill(rank)
                process.kill()
                process.wait()


class SeveralHosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tests-of-hosts-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, algorithm, mesh="node=2,gpu=2", *more):
        plugin = os.path.join(self.folder, algorithm + ".so")
        subprocess.run([KOLO, "compile", algorithm, "--mesh", mesh, "--network", "node", *more, "-o", plugin], check=True,
                       stdout=subprocess.DEVNULL)
        return plugin

    def run_on(self, made, plugin, size, *more, mesh="node=2,gpu=2"):
        words = ["run", plugin, "--mesh", mesh, "--ranks-as", "launched", "--bytes", size, "--timeout-ms", "20000", *more]
        said = Launch(made, 2, words).finish(60)
        for out, err, code in said:
            self.assertEqual((code, err), (0, ""), out)
        self.assertIn("every byte is right", said[0][0])

    def test_collectives_give_the_right_bytes(self):
        with hosts.Hosts("kolo-a", 2) as made:
            for algorithm in ("slottedHierarchicalAllReduce", "railAllGather", "twoLevelAllToAll"):
                plugin = self.compile(algorithm)
                for size, memory in (("64", "windows"), ("3M", "windows"), ("3M", "ordinary")):
                    with self.subTest(algorithm=algorithm, size=size, memory=memory):
                        self.run_on(made, plugin, size, "--memory", memory)

    def test_small_packets_give_the_right_bytes(self):
        with hosts.Hosts("kolo-b", 2, rate="2gbit", mtu=1500) as made:
            self.run_on(made, self.compile("slottedHierarchicalAllReduce", "node=2,gpu=2", "--pipeline", "16"), "4M")

    def start_bench(self, made, plugin, timeout_ms=4000):
        """Ranks that exchange data for longer than any test waits."""
        words = ["bench", plugin, "--mesh", "node=2,gpu=2", "--ranks-as", "launched", "-b", "64K", "-e", "64K", "-n",
                 "1000000", "--timeout-ms", str(timeout_ms)]
        world = Launch(made, 2, words)
        time.sleep(1.5)
        self.assertEqual([rank.poll() for rank in world.ranks], [None] * 4)
        return world

    def test_a_killed_rank_is_named_on_every_host_within_a_second(self):
        with hosts.Hosts("kolo-c", 2) as made:
            plugin = self.compile("railAllGather")
            for victim in (0, 3):
                world = self.start_bench(made, plugin)
                world.kill(victim)
                start = time.monotonic()
                said = world.finish(20)
                self.assertLess(time.monotonic() - start, 5)  # a second, on a machine that is not loaded
                for rank, (_, err, code) in enumerate(said):
                    if rank != victim:
                        self.assertEqual(code, 3, err)
                        self.assertIn(f"rank {victim}", err)

    def test_a_stopped_rank_is_a_timeout(self):
        with hosts.Hosts("kolo-f", 2) as made:
            world = self.start_bench(made, self.compile("railAllGather"), timeout_ms=2000)
            os.kill(world.pid(3), signal.SIGSTOP)
            start = time.monotonic()
            while any(rank.poll() is None for rank in world.ranks[:3]) and time.monotonic() < start + 20:
                time.sleep(0.05)
            world.kill(3)
            for _, err, code in world.finish(20)[:3]:
                self.assertEqual(code, 3, err)
                self.assertRegex(err, "rank [0-3] waited .* timed out")

    def test_a_program_for_one_host_is_refused_by_all(self):
        plugin = os.path.join(self.folder, "plain.so")
        subprocess.run([KOLO, "compile", "railAllGather", "--mesh", "node=2,gpu=2", "-o", plugin], check=True,
                       stdout=subprocess.DEVNULL)
        with hosts.Hosts("kolo-g", 2) as made:
            words = ["run", plugin, "--mesh", "node=2,gpu=2", "--ranks-as", "launched", "--bytes", "64"]
            for _, err, code in Launch(made, 2, words).finish(60):
                self.assertEqual(code, 2, err)  # of a file that is not as it must be
                self.assertIn("compile it with --network node", err)


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    unittest.main(verbosity=2)
