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

HERE = pathlib.Path(__file__).parent
BINARIES = pathlib.Path(os.environ["KOLO"]).parent
# Enough for a test of each kind. All that reduces takes seconds to compile.
PLUGINS = ("ringAllGather.bulk", "ringAllGather.ll", "ringAllGather.ll128", "ringAllReduce.bulk", "ringAllReduce.ll",
           "allPairsAllGather.bulk", "allPairsAllGather.ll128", "directBroadcast.ll128", "slottedRingAllReduce.ll")
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


def first_light(*arguments):
    return subprocess.run([sys.executable, HERE / "first_light", *map(str, arguments)], text=True, capture_output=True,
                          timeout=250, check=False)


class FirstLight(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-first-light-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.pack = cls.folder / "pack"
        done = first_light("pack", cls.pack, "--kolo", os.environ["KOLO"], "--stand-in",
                           os.environ["KOLO_COMPILE_FOR_STANDIN"], "--only", *PLUGINS)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.packed = done.stdout

    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def run_parts(self, *arguments, plugins=None, binaries=BINARIES, driver=os.environ["KOLO_TEST_STANDIN"]):
        done = first_light("run", "--plugins", plugins or self.pack, "--out", self.out, "--work", self.out / "work",
                           "--binaries", binaries, "--driver", driver, *arguments)
        path = self.out / "first_light.json"
        self.assertNotIn("Traceback", done.stderr)
        return done, json.loads(path.read_text()) if path.exists() else None

    def states(self, report):
        return {name: part["state"] for name, part in report["parts"].items()}

    def copy_of_pack(self):
        plugins = self.out / "plugins"
        shutil.copytree(self.pack, plugins, ignore=shutil.ignore_patterns("deps"))
        return plugins

    def test_packs_what_there_is_and_what_the_build_needs(self):
        self.assertIn("8 plugins in", self.packed)  # none of slottedRingAllReduce.ll, which cannot be
        for name in ("include/fmt/format.h", "include/nlohmann/json.hpp", "googletest/src/gtest-all.cc", "cuda/cuda.h"):
            self.assertTrue((self.pack / "deps" / name).exists(), name)
        done = first_light("pack", self.pack, "--kolo", os.environ["KOLO"], "--architecture", "sm_100")
        self.assertIn("is for sm_90 and the driver stand-in; choose another folder", done.stderr)
        self.assertLess(sum(path.stat().st_size for path in self.pack.rglob("*") if path.is_file()), 16 << 20)

    def test_runs_all_parts_and_goes_on_with_those_that_are_not_done(self):
        done, report = self.run_parts("--minutes", "0.03")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("out of time", self.states(report).values())
        done, report = self.run_parts()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)  # one part is for GPUs alone
        states = self.states(report)
        self.assertEqual(states.pop("large"), "not possible", done.stdout)
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
        for name in ("algorithms", "streams", "processes", "ll", "ll128"):
            self.assertGreater(parts[name]["counts"]["passed"], 0, name)
            self.assertEqual(parts[name]["counts"]["failed"], 0, name)
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
        self.assertEqual(states.pop("build"), "passed")
        self.assertEqual(set(states.values()), {"not possible"}, done.stdout)
        for name in states:
            self.assertIn("the CUDA driver cannot be loaded: /nowhere/libcuda.so.1", report["parts"][name]["why"])

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


class Build(unittest.TestCase):
    """The build that a machine with a GPU makes: no LLVM, other projects from the pack. Only where it is asked for."""

    def test_builds_and_runs_without_the_compiler(self):
        with tempfile.TemporaryDirectory(prefix="kolo-first-light-") as name:
            folder = pathlib.Path(name)
            done = first_light("pack", folder / "pack", "--kolo", os.environ["KOLO"], "--stand-in",
                               os.environ["KOLO_COMPILE_FOR_STANDIN"], "--only", "ringAllGather.bulk")
            self.assertEqual(done.returncode, 0, done.stderr)
            parts = ("build", "device", "start", "limits")
            done = first_light("run", "--plugins", folder / "pack", "--out", folder / "out", "--work", folder / "work",
                               "--driver", "stand-in", *(word for part in parts for word in ("--part", part)))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["FirstLight"])]))
