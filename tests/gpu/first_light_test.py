"""first_light on the stand-in driver, from packing to the report: what passes, what fails, and what is gone on with."""
import json
import lzma
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77  # what ctest counts as skipped
HERE = pathlib.Path(__file__).parent
BINARIES = pathlib.Path(os.environ["KOLO"]).parent
# Enough for a test of each kind. All that reduces takes seconds to compile.
PLUGINS = ("ringAllGather.bulk", "ringAllGather.ll", "ringAllGather.ll128", "ringAllReduce.bulk", "ringAllReduce.ll",
           "allPairsAllGather.bulk", "allPairsAllGather.ll128", "directBroadcast.ll128",
           "quantisedTwoShotAllReduce.coded", "quantisedTwoShotAllReduce.coded-ll", "twoSlotRingAllReduce.ll")
PLUGINS_OF_NCCL = tuple(f"{name}.bulk" for name in (
    "ringAllReduce", "ringReduceScatter", "ringAllGather", "directBroadcast", "directReduce", "directGather", "directScatter",
    "directAllToAll"))
CLIENT = BINARIES / "kolo_gpu_nccl"  # is built where NCCL is installed
FAKE = """#!/bin/sh
case "$*" in
  *list_tests*) printf 'All/DeviceAlgorithms.\\n  Good\\n  Bad\\n  Hangs\\n  Ugly\\n' ;;
  *.Good*) printf '[ RUN      ] All/DeviceAlgorithms.Good\\n[       OK ] All/DeviceAlgorithms.Good (1 ms)\\n'
           printf '[ RUN      ] All/DeviceAlgorithms.Bad\\nrank 0 is wrong\\n[  FAILED  ] All/DeviceAlgorithms.Bad (1 ms)\\n' ;;
  *.Hangs*) printf '[ RUN      ] All/DeviceAlgorithms.Hangs\\n'; sleep 60 ;;
  *.Ugly*) printf '[ RUN      ] All/DeviceAlgorithms.Ugly\\n'; kill -SEGV $$ ;;
esac
"""
FAKE_DEVICE = """#!/bin/sh
echo '{"name": "stand-in", "figure": "none"}'
"""


# Programs as NCCL has them for examples, for the stand-ins: one thread calls for RANKS ranks.
EXAMPLE = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <nccl.h>
#include <cstdio>
#include <cstdlib>
int main() {
  void *driver = dlopen(std::getenv("KOLO_CUDA_DRIVER"), RTLD_NOW);
  auto retain = reinterpret_cast<CUresult (*)(CUcontext *, CUdevice)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
  auto push = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(driver, "cuCtxPushCurrent_v2"));
  auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr *, size_t)>(dlsym(driver, "cuMemAlloc_v2"));
  auto copy = reinterpret_cast<CUresult (*)(CUdeviceptr, CUdeviceptr, size_t)>(dlsym(driver, "cuMemcpy"));
  auto make = reinterpret_cast<CUresult (*)(CUstream *, unsigned)>(dlsym(driver, "cuStreamCreate"));
  auto wait = reinterpret_cast<CUresult (*)(CUstream)>(dlsym(driver, "cuStreamSynchronize"));
  CUcontext context;
  retain(&context, 0), push(context);
  int devices[RANKS] = {};
  ncclComm_t comms[RANKS];
  CUdeviceptr memory[RANKS];
  CUstream streams[RANKS];
  bool isRight = ncclCommInitAll(comms, RANKS, devices) == ncclSuccess;
  float value = 0;
  for (int i = 0; i < RANKS; ++i) {
    allocate(&memory[i], sizeof(float)), make(&streams[i], 1);
    value = i + 1.0f;
    copy(memory[i], (CUdeviceptr)&value, sizeof(float));
  }
  ncclGroupStart();
  for (int i = 0; i < RANKS; ++i)
    ncclAllReduce((void *)memory[i], (void *)memory[i], 1, ncclFloat, ncclSum, comms[i], streams[i]);
  isRight &= ncclGroupEnd() == ncclSuccess;
  for (int i = 0; i < RANKS; ++i)
    wait(streams[i]), copy((CUdeviceptr)&value, memory[i], sizeof(float)), isRight &= value == SUM;
  std::puts(isRight ? "right" : "other sums");
  return !isRight;
}
"""


def first_light(*arguments, **environment):
    return subprocess.run([sys.executable, HERE / "first_light", *map(str, arguments)], text=True, capture_output=True,
                          timeout=250, check=False, env={**os.environ, **environment})


class Packed(unittest.TestCase):
    """Runs of the script with a folder of plugins for the stand-in driver."""
    PLUGINS = PLUGINS

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-first-light-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.pack = cls.folder / "pack"
        done = first_light("pack", cls.pack, "--kolo", os.environ["KOLO"], "--stand-in",
                           os.environ["KOLO_COMPILE_FOR_STANDIN"], "--only", *cls.PLUGINS)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.packed = done.stdout

    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def run_parts(self, *arguments, plugins=None, binaries=BINARIES, driver=os.environ["KOLO_TEST_STANDIN"], **environment):
        done = first_light("run", "--plugins", plugins or self.pack, "--out", self.out, "--work", self.out / "work",
                           "--binaries", binaries, "--driver", driver, "--nccl", os.environ["KOLO_TEST_NCCL"], *arguments,
                           **environment)
        path = self.out / "first_light.json"
        self.assertNotIn("Traceback", done.stderr)
        return done, json.loads(path.read_text()) if path.exists() else None

    def states(self, report):
        return {name: part["state"] for name, part in report["parts"].items()}

    def copy_of_pack(self):
        plugins = self.out / "plugins"
        shutil.copytree(self.pack, plugins)
        return plugins


class FirstLight(Packed):
    def test_packs_what_there_is(self):
        self.assertIn("10 plugins in", self.packed)  # none of twoSlotRingAllReduce.ll, which cannot be
        done = first_light("pack", self.pack, "--kolo", os.environ["KOLO"], "--architecture", "sm_100")
        self.assertIn("is for sm_90 and the driver stand-in; choose another folder", done.stderr)
        self.assertLess(sum(path.stat().st_size for path in self.pack.rglob("*") if path.is_file()), 16 << 20)

    def test_runs_all_parts_and_goes_on_with_those_that_are_not_done(self):
        done, report = self.run_parts("--minutes", "0.03")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("out of time", self.states(report).values())
        done, report = self.run_parts()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)  # one part is for GPUs alone, and one needs a checkout of NCCL
        states = self.states(report)
        self.assertEqual(states.pop("large"), "not possible", done.stdout)
        for name in ("examples", "ddp", "sanitizer", "profile"):  # what they need is not here
            self.assertEqual(states.pop(name), "not possible", done.stdout)
        if not CLIENT.exists():
            self.assertEqual(states.pop("nccl"), "not possible", done.stdout)
        self.assertEqual(set(states.values()), {"passed"}, done.stdout)
        self.check_report(report)
        done, again = self.run_parts("--part", "limits")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotEqual(again["parts"].pop("limits"), report["parts"].pop("limits"))
        for part in (*report["parts"].values(), *again["parts"].values()):
            for figure in part.get("figures", []):
                figure.pop("fraction", None)
        self.assertEqual(again["parts"], report["parts"])

    def check_report(self, report):
        self.assertEqual(report["driver"], "stand-in")
        self.assertEqual(report["device"]["architecture"], "sm_90")
        self.assertGreater(report["copyBandwidthGBps"], 0)
        parts = report["parts"]
        for name in ("algorithms", "tables", "coded", "coded-packets", "streams", "processes", "ll", "ll128"):
            self.assertGreater(parts[name]["counts"]["passed"], 0, name)
            self.assertEqual(parts[name]["counts"]["failed"], 0, name)
        self.assertIn("directBroadcast.bulk", parts["nccl"]["missing"] if CLIENT.exists() else PLUGINS_OF_NCCL)
        for name in ("limits", "collectives", "small", "rivals", "lanes"):
            for figure in parts[name]["figures"]:
                self.assertTrue("refused" in figure or figure["lowUs"] <= figure["us"] <= figure["highUs"], figure)
        self.assertEqual({figure["figure"] for figure in parts["limits"]["figures"]}, {"copy", "launch"})
        self.assertEqual({figure["figure"] for figure in parts["rivals"]["figures"]}, {"copies", "kernel"})
        self.assertEqual({figure["ranks"] for figure in parts["collectives"]["figures"]}, {2, 4, 8})
        self.assertEqual({figure["way"] for figure in parts["small"]["figures"]}, {"device", "queued", "graph", "host"})
        self.assertEqual({figure["protocol"] for figure in parts["small"]["figures"]}, {"bulk", "ll128"})
        self.assertIn("oneShotAllReduce.ll", parts["small"]["missing"])
        self.assertTrue(any("refused" in figure for figure in parts["lanes"]["figures"]))  # more than fit

    def test_a_damaged_plugin_fails_its_test_alone(self):
        plugins = self.copy_of_pack()
        path = plugins / "ringAllReduce.bulk.so.xz"
        path.write_bytes(lzma.compress(lzma.decompress(path.read_bytes())[:-100]))
        done, report = self.run_parts("--part", "algorithms", "--part", "device", "--part", "limits", plugins=plugins)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.states(report), {"device": "passed", "limits": "passed", "algorithms": "failed"})
        self.assertIn("1 of 3 tests; the first: All/DeviceAlgorithms", report["parts"]["algorithms"]["why"])
        self.assertIn("ringAllReduce.bulk.so", report["parts"]["algorithms"]["why"])
        self.assertEqual(report["parts"]["algorithms"]["counts"], {"passed": 2, "failed": 1, "skipped": 0})

    def test_a_wrong_result_is_told_and_not_measured(self):
        plugins = self.copy_of_pack()
        source = self.out / "plain.cu"
        source.write_text((HERE / "plain.cu").read_text().replace("rank = 1;", "rank = 2;"))
        subprocess.run([os.environ.get("CXX", "c++"), "-x", "c++", "-shared", "-fPIC", source, "-o", plugins / "plain.image"],
                       check=True)
        done, report = self.run_parts("--part", "device", "--part", "rivals", plugins=plugins)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(report["parts"]["rivals"]["why"], r"^kernel: element 0 of the output of rank 0 is \S+ and not")
        measured = {figure["collective"] for figure in report["parts"]["rivals"]["figures"]
                    if figure["figure"] == "kernel" and "us" in figure}
        self.assertEqual(measured, {"all_gather", "broadcast", "all_to_all"})

    def test_after_a_test_that_fails_hangs_or_crashes_the_others_run(self):
        binaries = self.out / "bin"
        binaries.mkdir()
        for name, text in (("kolo_gpu_packed_tests", FAKE), ("kolo_gpu_figures", FAKE_DEVICE)):
            (binaries / name).write_text(text)
            (binaries / name).chmod(stat.S_IRWXU)
        done, report = self.run_parts("--part", "device", "--part", "algorithms", "--part", "small", "--silence", "1",
                                      binaries=binaries)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        tests = {name.split(".")[1]: said for name, said in report["parts"]["algorithms"]["tests"].items()}
        self.assertEqual(tests, {"Good": "passed", "Bad": "failed: rank 0 is wrong",
                                 "Hangs": "failed: [no sign of life for 1.0 s]",
                                 "Ugly": "failed: [the process ended with -11]"})

    def test_says_in_one_line_why_nothing_can_run(self):
        plugins = self.copy_of_pack()
        (plugins / "pack.json").write_text((plugins / "pack.json").read_text().replace('"stand-in"', '"cuda"'))
        done, report = self.run_parts(plugins=plugins, driver="/nowhere/libcuda.so.1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        states = self.states(report)
        self.assertEqual(set(states.values()), {"not possible"}, done.stdout)
        for name in states:
            self.assertIn("the CUDA driver cannot be loaded: /nowhere/libcuda.so.1", report["parts"][name]["why"])

    def test_reports_the_commit_that_was_packed(self):
        plugins = self.copy_of_pack()
        manifest = json.loads((plugins / "pack.json").read_text())
        self.assertIn("commit", manifest)
        (plugins / "pack.json").write_text(json.dumps({**manifest, "commit": "of another checkout"}))
        _, report = self.run_parts("--part", "device", plugins=plugins)
        self.assertEqual(report["commit"], "of another checkout")

    def test_the_stand_in_is_never_taken_for_a_gpu(self):
        plugins, other = self.copy_of_pack(), self.out / "libcuda.so.1"
        (plugins / "pack.json").write_text((plugins / "pack.json").read_text().replace('"stand-in"', '"cuda"'))
        shutil.copy(os.environ["KOLO_TEST_STANDIN"], other)
        done, report = self.run_parts("--part", "device", "--part", "limits", plugins=plugins, driver=other)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertEqual(report["parts"]["limits"]["why"], "the device is 'stand-in 0', and --driver is cuda")

    def test_refuses_plugins_and_reports_of_another_driver(self):
        done, _ = self.run_parts(driver="/nowhere/libcuda.so.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("they are for stand-in, and --driver is cuda", done.stderr)
        (self.out / "first_light.json").write_text('{"driver": "cuda", "parts": {}}')
        done, _ = self.run_parts()
        self.assertIn("its report is of cuda; choose another folder", done.stderr)


@unittest.skipUnless(CLIENT.exists(), "no NCCL is installed, so its client is not built")
class Nccl(Packed):
    """The parts for the door for NCCL programs."""
    PLUGINS = PLUGINS_OF_NCCL

    def run_nccl(self, part="nccl", code=0, **options):
        done, report = self.run_parts("--part", "device", "--part", part, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return report["parts"][part]

    def test_every_collective_is_carried_in_every_way(self):
        part = self.run_nccl()
        self.assertEqual((part["missing"], part["version"], part["counts"]),
                         ([], "2.28.9", {"passed": 10, "failed": 0, "skipped": 0}))
        for name, each in part["runs"].items():
            ranks_here = 1 if "processes" in name else int(name[0])
            calls = 82 if name.startswith("4") else 80  # two ranks do not split their communicator
            self.assertEqual((each["counted"]["carried"], each["counted"]["forwarded"]), (calls * ranks_here, 2 * ranks_here), name)
            said = " ".join(each["checks"])
            for what in ("all-reduce of 3000", "all-reduce in place", "maximum", "average", "reduce of", "reduce-scatter in place",
                         "all-gather in place", "broadcast in place", "all-to-all", "gather of", "scatter of", "floats", "in a group",
                         "in a graph, launch 2", "in windows"):
                self.assertIn(what, said, name)
            self.assertEqual("split" in said, name.startswith("4"), name)
            self.assertEqual({result.split(":")[0] for result in each["checks"].values()}, {"passed", "skipped"})

    def test_an_nccl_that_refuses_several_ranks_of_a_process_on_one_device(self):
        part = self.run_nccl(KOLO_STANDIN_ALONE="1")
        self.assertEqual(part["counts"], {"passed": 4, "failed": 0, "skipped": 6})
        self.assertRegex(part["skipped"][0], r"NCCL 2.28.9 refuses several ranks of one process on one device: .* returns 5")
        self.assertEqual({name for name, each in part["runs"].items() if each["result"] == "passed"},
                         {f"{ranks} ranks, processes, {way}" for ranks in (2, 4) for way in ("preloaded", "drop-in")})

    def fake_client(self, *lines, code=0):
        """A folder of programs whose client says this."""
        binaries = self.out / "bin"
        shutil.copytree(BINARIES, binaries, copy_function=os.symlink, ignore=lambda _, names: set(names) - {"kolo_gpu_figures"})
        os.symlink(BINARIES.parent / "lib", self.out / "lib")
        (binaries / "kolo_gpu_nccl").write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n")
        (binaries / "kolo_gpu_nccl").chmod(stat.S_IRWXU)
        return binaries

    def test_what_fails_is_told(self):
        expected = '{"expected": {"carried": 2, "forwarded": 0}}'
        for lines, code, why in (
                ((expected,), 0, "the door counted nothing: it was not loaded"),
                ((expected, "kolo nccl: 2 calls: 0 carried (0 bytes), 2 forwarded (2 no program)"), 0,
                 "{'carried': 0, 'forwarded': 2} were counted, not {'carried': 2, 'forwarded': 0}: 2 no program"),
                (('{"check": "broadcast", "wrong": "rank 1 has 3 at 0, not 4"}', '{"check": "broadcast"}', expected), 1,
                 "broadcast: rank 1 has 3 at 0, not 4"),
                (("cuInit: error 100 of the driver",), 1, "the program ended with 1: cuInit: error 100 of the driver"),
                (('{"version": 23003}', '{"refused": "no"}'), 3, "NCCL 2.30.3 refuses several ranks of one process on one device: no")):
            with self.subTest(why):
                self.setUp()
                part = self.run_nccl(code=1, binaries=self.fake_client(*lines, code=code))
                self.assertEqual(part["counts"], {"passed": 0, "failed": 10, "skipped": 0})
                self.assertEqual(part["why"], f"10 of 10; the first: 2 ranks, processes, preloaded: {why}")

    def test_what_is_missing_is_told(self):
        done, report = self.run_parts("--part", "device", "--part", "nccl", "--nccl", "/nowhere/libnccl.so.2")
        self.assertEqual((done.returncode, report["parts"]["nccl"]["why"]), (3, "--nccl /nowhere/libnccl.so.2: it is not there"))
        plugins = self.copy_of_pack()
        for packed in plugins.glob("*.xz"):
            packed.unlink()
        self.assertIn("not packed: directAllToAll.bulk, ", self.run_nccl(code=3, plugins=plugins)["why"])

    def test_examples_of_nccl(self):
        self.assertEqual(self.run_nccl("examples", 3, KOLO_NCCL_EXAMPLES="")["why"],
                         "KOLO_NCCL_EXAMPLES is not set, and there is no --examples")
        folder = self.out / "examples"
        self.assertIn("there is no main.cc", self.run_nccl("examples", 3, KOLO_NCCL_EXAMPLES=str(folder))["why"])
        for name, ranks, total in (("01_several", 2, 3), ("02_alone", 1, 1), ("06_device_api", 0, 0)):
            (folder / name).mkdir(parents=True)
            (folder / name / "main.cc").write_text(EXAMPLE.replace("RANKS", str(ranks)).replace("SUM", str(total)))
        part = self.run_nccl("examples", KOLO_NCCL_EXAMPLES=str(folder))
        self.assertEqual(part["counts"], {"passed": 1, "failed": 0, "skipped": 1})
        self.assertEqual({way: counted["carried"] for way, counted in part["runs"]["01_several"]["counted"].items()},
                         {"preloaded": 2, "drop-in": 2})
        self.assertEqual(part["skipped"], ["skipped: right, but one device has one rank: all is forwarded (1 one rank)"])
        for name, text, why in (("03_wrong", EXAMPLE.replace("RANKS", "2").replace("SUM", "4"), "preloaded: it ended with 1: right|other sums"),
                                ("03_wrong", "int main() { return nothing; }", "preloaded: it does not compile: .*nothing")):
            (folder / "03_wrong").mkdir(exist_ok=True)
            (folder / "03_wrong/main.cc").write_text(text)
            part = self.run_nccl("examples", 1, KOLO_NCCL_EXAMPLES=str(folder))
            self.assertRegex(part["why"], f"1 of 3; the first: 03_wrong: {why}")


class Gpu(unittest.TestCase):
    """The parts for NCCL on a device, with what is built here. Only where it is asked for."""

    def test_the_door_carries_calls_on_a_device(self):
        said = subprocess.run([BINARIES / "kolo_gpu_figures", "device"], text=True, capture_output=True, check=False)
        if said.returncode != 0 or not CLIENT.exists():
            self.skipTest(said.stderr.strip() or "no NCCL is installed, so its client is not built")
        with tempfile.TemporaryDirectory(prefix="kolo-first-light-") as name:
            folder = pathlib.Path(name)
            done = first_light("pack", folder / "pack", "--kolo", os.environ["KOLO"], "--architecture",
                               json.loads(said.stdout)["architecture"], "--only", *PLUGINS_OF_NCCL)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = first_light("run", "--plugins", folder / "pack", "--out", folder / "out", "--work", folder / "work",
                               "--binaries", BINARIES, "--part", "device", "--part", "nccl", "--part", "examples")
            print(done.stdout)
            report = json.loads((folder / "out/first_light.json").read_text())
            self.assertEqual(report["parts"]["nccl"]["state"], "passed", done.stdout)
            self.assertIn(report["parts"]["examples"]["state"], ("passed", "not possible"), done.stdout)


class Build(unittest.TestCase):
    """The programs that `pack` builds run elsewhere in the file system. Only where it is asked for."""

    def test_packs_programs_that_run_from_another_folder(self):
        with tempfile.TemporaryDirectory(prefix="kolo-first-light-") as name:
            folder = pathlib.Path(name)
            done = first_light("pack", folder / "pack", "--kolo", os.environ["KOLO"], "--stand-in",
                               os.environ["KOLO_COMPILE_FOR_STANDIN"], "--only", "ringAllGather.bulk", "--programs", "--work",
                               folder / "build")
            self.assertEqual(done.returncode, 0, done.stderr)
            shutil.rmtree(folder / "build")
            (folder / "pack").rename(folder / "moved")
            parts = ("device", "start", "limits", *(("nccl",) if CLIENT.exists() else ()))
            done = first_light("run", "--plugins", folder / "moved", "--out", folder / "out", "--work", folder / "work",
                               "--driver", "stand-in", "--nccl", os.environ["KOLO_TEST_NCCL"], *(word for part in parts for word in ("--part", part)))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, argv=[sys.argv[0], *(sys.argv[1:] or ["FirstLight"])], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)
