"""The door for programs of RCCL."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import ALGORITHMS, BUILD, CLIENT, DOOR, LIB, compile_plugins, run


class Rccl(unittest.TestCase):
    """RCCL's table of functions, over stand-ins for RCCL and for HIP."""
    @classmethod
    def setUpClass(cls):
        compile_plugins(*ALGORITHMS)

    RCCL = BUILD / "tests/nccl/standin-rccl"

    def run_client(self, *arguments, **environment):
        return run(CLIENT, *arguments, **{"LD_PRELOAD": None, "LD_LIBRARY_PATH": str(BUILD / "tests/nccl/standin-rccl"),
                                          "ROCPROFILER_REGISTER_LIBRARY": DOOR, "KOLO_CUDA_DRIVER": "/nowhere",
                                          "KOLO_HIP_DRIVER": str(LIB / "libkolo_test_hip_standin.so"), **environment})

    def check(self, how, *case, environment=None):
        done = self.run_client(how, *case, **(environment or {}))
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        return done

    def test_calls_are_carried(self):
        for how, ranks_here in (("processes", 1), ("threads", 2), ("one", 2)):
            with self.subTest(how):
                done = self.check(how, "2")
                self.assertRegex(done.stderr, rf"kolo nccl: \d+ calls: [1-9]\d* carried \(\d+ bytes\), {2 * ranks_here} "
                                              rf"forwarded \({ranks_here} no data, {ranks_here} operation of the program\)")
                self.assertEqual(set(re.findall(r"^forwarded (\d+)$", done.stdout, re.M)), {str(4 * ranks_here)})
        self.check("processes", "4", "split")
        self.check("processes", "3", "capture")
        self.check("processes", "3", "windows")
        self.check("processes", "3", "groups, random", environment={"KOLO_NCCL_GROUP_MS": "20000", "KOLO_TEST_STEPS": "10"})

    def test_all_to_all_with_counts(self):
        """By both names; what is in a group with a collective goes to RCCL as one call."""
        for how, ranks, more, ranks_here in (("processes", "3", {}, 1), ("one", "2", {}, 2), ("threads", "3", {}, 3),
                                             ("processes", "2", {"KOLO_STANDIN_RCCL_BYTES": str(8 + 8 * 37)}, 1),
                                             ("processes", "2", {"LD_PRELOAD": DOOR}, 1)):
            for name in ("ncclAllToAllv", "ncclAlltoAllv"):
                with self.subTest(how=how, name=name, more=more):
                    done = self.check(how, ranks, "groups, vector", environment={
                        "KOLO_NCCL_GROUP_MS": "20000", "KOLO_TEST_STEPS": "8", "KOLO_TEST_ALLTOALLV": name, **more})
                    self.assertEqual(set(re.findall(r"^forwarded (\d+)$", done.stdout, re.M)), {str(2 * ranks_here)})
                    # carried: of eight calls six, and both all-reduces
                    self.assertRegex(done.stderr, rf"calls: {8 * ranks_here} carried \(\d+ bytes\), {2 * ranks_here} forwarded "
                                                  rf"\({2 * ranks_here} group with other calls\)")

    def test_all_to_all_with_counts_that_cannot_be_carried(self):
        """It goes to RCCL at once, and the statistics tell why."""
        for more, why in (({"KOLO_NCCL_GROUP_MS": "0"}, "KOLO_NCCL_GROUP_MS=0"), ({"NCCL_COMM_BLOCKING": "0"}, "non-blocking communicator")):
            with self.subTest(why):
                done = self.run_client("processes", "2", "groups, vector", **{
                    "KOLO_TEST_STEPS": "1", "KOLO_TEST_ALLTOALLV": "ncclAllToAllv", **more})
                self.assertEqual(re.findall(r"^forwarded (\d+)$", done.stdout, re.M), ["1", "1"], done.stderr)
                self.assertIn(f"1 calls: 0 carried (0 bytes), 1 forwarded (1 {why})", done.stderr)

    def test_ranks_of_several_hosts(self):
        with tempfile.TemporaryDirectory(prefix="kolo-rccl-hosts-") as folder:
            compile_plugins("ringAllReduce", folder=folder, protocol="staged", meshes=("rank=2", "rank=4"))
            self.check("processes", "4", "split", environment={"KOLO_TEST_HOSTS": "aabb", "KOLO_PLUGIN_PATH": folder})
            compile_plugins("directAllToAll", folder=folder, protocol="staged", meshes=("rank=4",))
            done = self.check("processes", "4", "groups, vector", environment={
                "KOLO_TEST_HOSTS": "aabb", "KOLO_PLUGIN_PATH": folder, "KOLO_NCCL_GROUP_MS": "20000", "KOLO_TEST_STEPS": "4",
                "KOLO_TEST_ALLTOALLV": "ncclAllToAllv"})
            self.assertRegex(done.stderr, r"5 calls: 4 carried \(\d+ bytes\), 1 forwarded \(1 group with other calls\)")

    def test_tables_of_all_sizes(self):
        for functions in (37, 38, 39, 42, 50): # from ROCm 6.3 on; ncclCommShrink is the 39th, ncclAlltoAll the 42nd
            with self.subTest(functions):
                ranks = "3" if functions > 38 else "2" # three ranks shrink their communicator, too
                done = self.check("processes", ranks, environment={"KOLO_STANDIN_RCCL_BYTES": str(8 + 8 * functions)})
                self.assertRegex(done.stderr, r"[1-9]\d* carried \(\d+ bytes\), 2 forwarded \(1 no data, 1 operation")

    def test_it_is_said(self):
        done = self.check("processes", "2", "capture", environment={"KOLO_DEBUG": "info"})
        self.assertRegex(done.stderr, r"intercepts .*; forwards all other calls to .*, RCCL 2.28.9 \(its table of functions\)")

    def test_preloaded_it_goes_by_the_names(self):
        for register in (None, DOOR):
            done = self.check("processes", "2", "capture", environment={
                "LD_PRELOAD": DOOR, "ROCPROFILER_REGISTER_LIBRARY": register, "KOLO_DEBUG": "info"})
            self.assertRegex(done.stderr, r"RCCL 2.28.9 \(the next library\)")
            self.assertRegex(done.stderr, r"calls: 2 carried")

    def test_other_tables_are_left_alone(self):
        for variable, value, text in (("KOLO_STANDIN_RCCL_VERSION", "30100", "version 30100 is not 2.x"),
                                      ("KOLO_STANDIN_RCCL_BYTES", "296", "the table has 296 bytes, not 304 or a multiple of 8 above"),
                                      ("KOLO_STANDIN_RCCL_BYTES", "305", "the table has 305 bytes, not 304 or a multiple of 8 above"),
                                      ("KOLO_STANDIN_RCCL_VERSION", "22606", "the table of version 22606 has 416 bytes, so its order is not known"),
                                      ("KOLO_STANDIN_RCCL_INSERTED", "1", "p?ncclCommShrink is in the place of ncclCommSplit")):
            with self.subTest(text):
                done = self.run_client("processes", "2", "capture", **{variable: value})
                self.assertRegex(done.stderr, rf"^kolo nccl: nothing of RCCL is intercepted: {text}\n$")
                self.assertEqual(re.findall(r"^forwarded (\d+)$", done.stdout, re.M), ["2", "2"])

    def test_older_tables_with_one_function_more(self):
        done = self.check("processes", "2", "capture", environment={"KOLO_STANDIN_RCCL_VERSION": "22606",
                                                                     "KOLO_STANDIN_RCCL_BYTES": "312"})
        self.assertIn("calls: 2 carried", done.stderr)

    def test_functions_that_the_table_lacks_are_called_by_name(self):
        test = ("import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); "
                "d = ctypes.CDLL(sys.argv[2]); print(d.ncclBcast(None, ctypes.c_size_t(0), 0, 0, None, None), "
                "d.ncclGroupStart(), d.ncclGroupSimulateEnd(None))")
        done = run(sys.executable, "-c", test, str(self.RCCL / "librccl.so.1"), DOOR, LD_PRELOAD=None,
                   ROCPROFILER_REGISTER_LIBRARY=DOOR, KOLO_DEBUG="info")
        self.assertEqual(done.stdout, "0 0 0\n", done.stderr)
        self.assertIn("RCCL 2.28.9 (its table of functions)", done.stderr)

    def test_preloaded_it_finds_the_rccl_that_a_library_loads_for_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            source, user = (os.path.join(folder, name) for name in ("user.c", "libuser.so"))
            pathlib.Path(source).write_text("int ncclGetVersion(int *);\nint versionOf(void) { int v = 0; return ncclGetVersion(&v) ? -1 : v; }\n")
            subprocess.run(["cc", "-shared", "-fPIC", source, "-o", user, str(self.RCCL / "librccl.so.1"), f"-Wl,-rpath,{self.RCCL}"],
                           check=True)
            test = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).versionOf())"
            for register in (None, DOOR):
                done = run(sys.executable, "-c", test, user, ROCPROFILER_REGISTER_LIBRARY=register, KOLO_DEBUG="info")
                self.assertEqual(done.stdout, "22809\n", done.stderr)
                self.assertRegex(done.stderr, r"to .*/librccl.so.1, RCCL 2.28.9 \(the RCCL that is loaded\)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
