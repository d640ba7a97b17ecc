"""The door for NCCL programs. A program that knows NCCL and CUDA alone runs over stand-ins for both; NVIDIA's NCCL answers
what needs no GPU."""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["KOLO_BUILD"])
LIB = BUILD / "lib"
DOOR = os.environ.get("KOLO_TEST_DOOR", str(LIB / "libkolo_nccl.so"))
CLIENT = os.environ.get("KOLO_TEST_CLIENT", str(BUILD / "bin/kolo_nccl_client"))
STANDIN = os.environ.get("KOLO_TEST_NCCL", str(BUILD / "tests/nccl/standin/libnccl.so.2"))
ALGORITHMS = ("ringAllReduce", "ringAllGather", "ringReduceScatter", "directBroadcast", "directReduce", "directGather",
              "directScatter", "directAllToAll")
PLUGINS = tempfile.TemporaryDirectory(prefix="kolo-nccl-")


def compile_plugins(*names):
    """For the stand-in driver, once."""
    meshes = [f"rank={ranks}" for ranks in range(2, 9)]
    for name in names:
        path = os.path.join(PLUGINS.name, name + ".kolo.so")
        if not os.path.exists(path):
            subprocess.run([BUILD / "bin/kolo_compile_for_standin", name, "bulk", path, *meshes], check=True)


def run(*command, timeout=60, **environment):
    """With the door preloaded, unless `LD_PRELOAD` says otherwise. A value of None removes a variable."""
    env = {"LD_PRELOAD": DOOR, "KOLO_PLUGIN_PATH": PLUGINS.name, "KOLO_STATS": "1", "KOLO_TIMEOUT_MS": "20000",
           "KOLO_CUDA_DRIVER": str(LIB / "libkolo_test_standin.so"), "KOLO_STANDIN_THREADS": "2",
           "KOLO_STANDIN_RESIDENT": "256", **environment}
    env = {**os.environ, **env}
    return subprocess.run(command, env={name: value for name, value in env.items() if value is not None}, text=True,
                          capture_output=True, timeout=timeout, check=False)


class Carried(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compile_plugins(*ALGORITHMS)

    def check(self, done, ranks_here):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("wrong", done.stdout)
        # Of every rank: no data, and an operation of the program; then a send and a receive, which are not counted.
        self.assertRegex(done.stderr, rf"kolo nccl: \d+ calls: \d+ carried \(\d+ bytes\), {2 * ranks_here} forwarded "
                                      rf"\({ranks_here} no data, {ranks_here} operation of the program\)")
        self.assertEqual(set(re.findall(r"^forwarded (\d+)$", done.stdout, re.M)), {str(4 * ranks_here)})

    def test_one_thread_for_all_ranks(self):
        for ranks in (2, 3, 8):
            with self.subTest(ranks):
                self.check(run(CLIENT, "one", str(ranks)), ranks)
        self.check(run(CLIENT, "one", "4", "all"), 4)  # made by ncclCommInitAll

    def test_threads(self):
        for ranks in (2, 4, 7):
            with self.subTest(ranks):
                self.check(run(CLIENT, "threads", str(ranks)), ranks)

    def test_one_thread_makes_all_ranks_and_each_calls_in_its_own(self):
        for ranks in (2, 4):
            with self.subTest(ranks):
                self.check(run(CLIENT, "hands", str(ranks)), ranks)

    def test_a_process_that_ends_long_before_its_peers(self):
        self.expect_right("pairs", "4", "ends")

    def test_processes(self):
        for ranks in (2, 5, 8):
            with self.subTest(ranks):
                self.check(run(CLIENT, "processes", str(ranks)), 1)

    def test_two_ranks_in_each_process(self):
        for ranks in (4, 6):
            with self.subTest(ranks):
                self.check(run(CLIENT, "pairs", str(ranks)), 2)

    def test_one_rank_is_forwarded(self):
        done = run(CLIENT, "one", "1")
        self.assertRegex(done.stderr, r"0 carried \(0 bytes\), \d+ forwarded \(\d+ one rank\)")

    def test_in_a_graph(self):
        for how in ("processes", "threads"):
            self.expect_right(how, "3", "capture")

    def test_a_capture_that_begins_inside_of_a_group(self):
        for how in ("processes", "threads"):
            self.expect_right(how, "2", "capture in group")

    def test_a_communicator_ends_when_its_calls_are_done(self):
        for how in ("processes", "pairs", "threads", "hands", "one"):
            for case in ("finalize", "destroy"):
                with self.subTest(f"{how} {case}"):
                    self.expect_right(how, "4", case, KOLO_STANDIN_LATE_US="20000")

    def test_a_call_that_names_its_program_or_refuses_kolo(self):
        for how, ranks_here in (("processes", 1), ("threads", 2)):
            done = run(CLIENT, how, "2", "named")
            self.assertEqual(re.findall(r"^rank \d: (\d)", done.stdout, re.M), ["0", "0"], done.stderr)
            self.assertIn(f"{ranks_here} calls: {ranks_here} carried", done.stderr)
            done = run(CLIENT, how, "2", "refuse")
            self.assertEqual(re.findall(r"^rank \d: (\d)", done.stdout, re.M), ["0", "0"], done.stderr)
            self.assertIn(f"0 carried (0 bytes), {ranks_here} forwarded ({ranks_here} refused by the program)", done.stderr)
            done = run(CLIENT, how, "2", "unknown")
            self.assertEqual(len(re.findall(r"^rank \d: 4 kolo: .*'noSuchProgram'", done.stdout, re.M)), 2, done.stdout)

    def expect_right(self, *arguments, **environment):
        done = run(CLIENT, *arguments, **environment)
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        return done

    def test_all_ranks_forward_where_one_has_other_plugins(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(pathlib.Path(PLUGINS.name) / "ringAllReduce.kolo.so", os.path.join(folder, "one.kolo.so"))
            done = self.expect_right("processes", "3", "other plugins", KOLO_TEST_OTHER_PLUGINS=folder)
            self.assertRegex(done.stderr, r"^kolo nccl: 3 calls: 0 carried \(0 bytes\), 3 forwarded \(3 ranks have other plugins\)\n$")
            self.assertEqual(re.findall(r"^forwarded (\d+)$", done.stdout, re.M), ["3", "3", "3"])

    def test_ranks_on_several_hosts_are_forwarded_and_those_of_one_host_are_carried(self):
        for how, ranks_here in (("processes", 1), ("threads", 4), ("one", 4)):
            with self.subTest(how):
                done = self.expect_right(how, "4", "forwarded", KOLO_STANDIN_ELSEWHERE="4")
                self.assertRegex(done.stderr, rf"kolo nccl: {4 * ranks_here} calls: {ranks_here} carried \(\d+ bytes\), "
                                              rf"{3 * ranks_here} forwarded \({3 * ranks_here} ranks on several hosts\)")

    def test_a_rank_that_is_late(self):
        for how in ("processes", "threads"):
            done = self.expect_right(how, "3", "late")
            self.assertEqual(re.findall(r"^rank \d: (\d)", done.stdout, re.M), ["0", "0", "0"])

    def test_a_call_returns_before_its_peers_call(self):
        for how in ("processes", "threads"):
            self.expect_right(how, "3", "enqueued")

    def test_one_rank_has_its_input_in_memory_of_the_host(self):
        for how in ("processes", "threads"):
            done = self.expect_right(how, "3", "host")
            self.assertRegex(done.stderr, r"kolo nccl: [1-9]\d* calls: [1-9]\d* carried \(\d+ bytes\), 0 forwarded")

    def test_hosts_and_streams_that_are_late_by_up_to_a_second(self):
        for how in ("processes", "pairs", "threads", "one"):
            self.expect_right(how, "4", "delayed", KOLO_STANDIN_LATE_US="20000")

    def test_buffers_in_windows_are_used_in_place(self):
        for how in ("processes", "threads", "one"):
            done = self.expect_right(how, "3", "windows", KOLO_DEBUG="info")
            self.assertNotIn("calls copy the buffers", done.stderr)
            copies = set(re.findall(r"^copies (?:in|after the) windows: \d+$", done.stdout, re.M))
            if how == "processes": # threads would count those of each other
                self.assertEqual(copies, {"copies in windows: 0", "copies after the windows: 2"})
            if how == "one": # which knows the buffers of all ranks
                self.assertEqual(copies, {"copies in windows: 0", "copies after the windows: 0"})

    def test_only_what_a_table_allows_loses_bits(self):
        """No plugin loses bits on devices, so that what a table allows is forwarded, too: for another reason."""
        exact = os.path.join(PLUGINS.name, "ringAllReduce.kolo.so")
        with tempfile.TemporaryDirectory(prefix="kolo-nccl-lossy-") as folder:
            lossy, table = os.path.join(folder, "lossy.kolo.so"), os.path.join(folder, "table.json")
            for fields, reason in (({}, "no program"), ({"lossy": False}, "no program"), ({"lossy": True, "tag": "dp"}, "no program"),
                                   ({"lossy": True}, "no code for these devices")):
                what = ["quantisedTwoShotAllReduce", "--mesh", "rank=2"]
                if fields:
                    pathlib.Path(table).write_text(json.dumps({"entries": [
                        {"collective": "all_reduce", "ranks": 2, "memory": memory, "upToBytes": None, "algorithm": what[0],
                         **fields} for memory in ("windows", "ordinary")]}))
                    what = ["--table", table]
                done = run(BUILD / "bin/kolo", "compile", *what, "-o", lossy, LD_PRELOAD=None)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.expect_right("one", "2", "floats", KOLO_PLUGIN_PATH=lossy)
                self.assertRegex(done.stderr, rf"0 carried \(0 bytes\), 2 forwarded \(2 {reason}\)")
                if reason == "no program":
                    done = self.expect_right("one", "2", "floats", KOLO_PLUGIN_PATH=f"{lossy}:{exact}", KOLO_DEBUG="info")
                    self.assertIn("kolo nccl: 2 calls: 2 carried", done.stderr)
                    self.assertIn(f"carried by ringAllReduce of {exact}", done.stderr)

    def test_the_first_call_says_what_is_intercepted(self):
        done = run(CLIENT, "one", "2", "capture", KOLO_DEBUG="info")
        self.assertRegex(done.stderr, r"kolo nccl: intercepts collectives for .*ringAllGather.kolo.so.*; forwards all other "
                                      r"calls to .*libnccl.so.2, NCCL 2.28.9 \(the next library\)")
        self.assertIn("communicator of 2 ranks: carried where a plugin has a program", done.stderr)


class NonBlocking(unittest.TestCase):
    """Non-blocking communicators are the real library's. The door neither waits for them nor asks them anything."""
    @classmethod
    def setUpClass(cls):
        compile_plugins("ringAllReduce")

    def check(self, how, case, lines, waits, sums, statistics, **environment):
        done = run(CLIENT, how, "3", case, **environment)
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        # Of a communicator: made, called, split, the child called, finalized.
        line = rf"^waits {waits}, sums {sums}, too early 0, last error 'an answer of the stand-in'$"
        self.assertEqual(len(re.findall(line, done.stdout, re.M)), lines, done.stdout)
        self.assertRegex(done.stderr, statistics)

    FORWARDED = r"0 carried \(0 bytes\), [26] forwarded \([13] communicator that Kolo did not see made, [13] non-blocking"

    def test_a_program_sees_what_the_real_library_says(self):
        for how, lines in (("processes", 3), ("threads", 3), ("one", 1)):
            with self.subTest(how):
                self.check(how, "nonblocking", lines, 5, 0, self.FORWARDED)
                self.check(how, "blocking", lines, 0, 2, r"calls: [26] carried")

    def test_the_variable_goes_before_the_program(self):
        self.check("processes", "blocking", 3, 5, 0, self.FORWARDED, NCCL_COMM_BLOCKING="0")
        self.check("processes", "nonblocking", 3, 0, 2, r"calls: 2 carried", NCCL_COMM_BLOCKING="1")
        for nothing in ("", "2", "no"):
            self.check("processes", "blocking", 3, 0, 2, r"calls: 2 carried", NCCL_COMM_BLOCKING=nothing)

    def test_ranks_whose_configurations_differ(self):
        """All ranks forward, and none waits for another."""
        for case, waits, sums, statistics in (("nonblocking rank 0", "[05]", 0, self.FORWARDED),
                                              ("nonblocking child of rank 0", "[01]", 1, r"2 calls: 1 carried .*1 non-blocking")):
            self.check("processes", case, 3, waits, sums, statistics)

    def test_a_file_of_settings_that_only_the_real_library_reads(self):
        for how, lines in (("processes", 3), ("one", 1)):
            self.check(how, "blocking", lines, 5, 0, self.FORWARDED, KOLO_STANDIN_NONBLOCKING="1", KOLO_TIMEOUT_MS="600000")


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


class Commands(unittest.TestCase):
    """kolo preload and kolo doctor."""
    KOLO = BUILD / "bin/kolo"

    def test_preload_finds_programs_of_nccl(self):
        done = run(self.KOLO, "preload", "--print", "--", CLIENT, "one", "2", LD_PRELOAD=None)
        self.assertEqual((done.returncode, done.stdout), (0, f"LD_PRELOAD={LIB}/libkolo_nccl.so\n"), done.stderr)
        done = run(self.KOLO, "preload", "--print", "--nccl", "--", "python3", "train.py", LD_PRELOAD="/other.so")
        self.assertEqual(done.stdout, f"LD_PRELOAD={LIB}/libkolo_nccl.so:/other.so\n", done.stderr)

    def test_preload_runs_the_program(self):
        compile_plugins("ringAllReduce")
        done = run(self.KOLO, "preload", "--", CLIENT, "threads", "2", "capture", LD_PRELOAD=None)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("kolo nccl: 4 calls: 4 carried", done.stderr)

    def test_doctor_names_the_door(self):
        done = run(self.KOLO, "doctor", LD_PRELOAD=None, LD_LIBRARY_PATH=os.path.dirname(STANDIN), KOLO_PLUGIN_PATH=None)
        self.assertRegex(done.stdout, rf"(?m)^NCCL +{STANDIN}, door: {LIB}/libkolo_nccl.so$")


class Wrong(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compile_plugins("ringAllReduce", "ringAllGather")

    def expect(self, case, code, text, hows=("processes", "threads"), ranks=3, **environment):
        """Every rank that lives gets `code`, from its call or from ncclCommGetAsyncError, and its last error is `text`."""
        for how in hows:
            with self.subTest(f"{case} {how}"):
                done = run(CLIENT, how, "3", case, timeout=30, **environment)
                said = re.findall(r"^rank \d: (.*)$", done.stdout, re.M)
                self.assertEqual(len(said), ranks, done.stdout + done.stderr)
                for line in said:
                    self.assertRegex(line, rf"^{code} kolo: rank \d: .*{text}")
                self.assertEqual(len(re.findall(r"^kolo nccl: rank \d: ", done.stderr, re.M)), ranks, done.stderr)
        return done

    def test_counts_that_differ(self):
        self.expect("count", 4, "ranks disagree on count: rank [01] called with 10, rank 2 with 11")
        self.expect("count", 4, "ranks call differently: rank 0 .* of 10 .*, rank 2 .* of 11 ", hows=("hands",))

    def test_a_rank_that_never_calls(self):
        self.expect("missing", 6, "rank [01] waited 5000 ms for rank 2, which did not call", hows=("hands",), ranks=2,
                    KOLO_TIMEOUT_MS="5000")

    def test_operations_that_differ(self):
        self.expect("operation", 4, "ranks disagree on reduction: rank [01] called with sum, rank 2 with max")
        self.expect("operation", 4, "ranks call differently: rank 0 .*, sum, rank 2 .*, max", hows=("hands",))

    def test_a_rank_that_dies(self):
        self.expect("death", 6, "rank 2 has ended or left", hows=("processes",), ranks=2)

    def test_a_communicator_that_another_thread_aborts(self):
        done = run(CLIENT, "processes", "2", "waiting", timeout=200) # until thousands of calls need more memory
        self.assertRegex(done.stdout, r"rank 0: 6 kolo: rank 0: .*rank 0 aborted this communicator")

    def test_a_group_whose_communicator_another_thread_aborts(self):
        # Ranks that one thread has made wait in the call; others wait on their streams.
        self.expect("abort in group", 6, "rank 0 aborted this communicator", hows=("hands",))
        self.expect("abort in group", 6, "rank 0 aborted this communicator", ranks=2)

    def test_a_rank_that_dies_before_its_peers_end_their_communicators(self):
        for how in ("finalize", "finalize in group", "destroy"):
            self.expect(f"death, {how}", 6, "rank 2 has ended or left", hows=("processes",), ranks=2)

    def test_an_abort_while_a_stream_hangs_and_all_ranks_wait(self):
        for how in ("processes", "threads", "hands"):
            done = self.expect("abort a hanging stream", 6, "rank 1 aborted this communicator", hows=(how,))
            if how == "processes":  # its handle is that of no communicator any more
                self.assertIn("finalized 0\n", done.stdout)

    def test_a_rank_that_aborts(self):
        self.expect("abort", 6, "rank 2 aborted this communicator", hows=("processes", "threads", "hands"), ranks=2)

    def refused(self, text, code="[25]", **environment):
        done = run(CLIENT, "one", "2", "capture", **environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(text, done.stderr)
        self.assertRegex(done.stdout, rf"returns {code}: kolo: .*{re.escape(text)}")
        return done

    def test_plugins_that_cannot_be_loaded(self):
        self.refused("KOLO_PLUGIN_PATH: /nowhere.kolo.so", KOLO_PLUGIN_PATH="/nowhere.kolo.so")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "open.kolo.so")
            content = (pathlib.Path(PLUGINS.name) / "ringAllGather.kolo.so").read_bytes()
            pathlib.Path(path).write_bytes(content)
            os.chmod(path, 0o666)
            self.refused("everybody may write this file: chmod o-w it", KOLO_PLUGIN_PATH=path)
            os.chmod(path, 0o644)
            pathlib.Path(path).write_bytes(content.replace(b'"abi"', b'"abj"', 1))
            self.refused("open.kolo.so", KOLO_PLUGIN_PATH=path)

    def test_real_libraries_that_are_none(self):
        for path, text in (("/nowhere/libnccl.so.2", "KOLO_NCCL_LIB: the NCCL library cannot be loaded: /nowhere/libnccl.so.2"),
                           ("libm.so.6", "KOLO_NCCL_LIB: libm.so.6 is no NCCL library: it has no ncclGetVersion"),
                           (DOOR, f"KOLO_NCCL_LIB: {DOOR} is a library of Kolo: set KOLO_NCCL_LIB to that of NCCL")):
            with self.subTest(path):
                done = self.refused(text, KOLO_NCCL_LIB=path)
                self.assertEqual(done.stderr.count(text), 1, "one line")

    def test_the_drop_in_does_not_take_itself_for_nccl(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(DOOR, os.path.join(folder, "libnccl.so.2"))
            test = "import ctypes; n = ctypes.CDLL('libnccl.so.2'); v = ctypes.c_int(); print(n.ncclGetVersion(ctypes.byref(v)), v.value)"
            search = f"{folder}:{os.path.dirname(STANDIN)}"
            done = run(sys.executable, "-c", test, LD_PRELOAD=None, LD_LIBRARY_PATH=search)
            self.assertEqual(done.stdout, "0 22809\n", done.stderr)

    def test_names_that_the_real_library_lacks(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(DOOR, os.path.join(folder, "libnccl.so.2"))
            for binding in ("lazy", "now"):
                program = build(folder, "newer.c", os.path.dirname(STANDIN), binding)
                done = run(program, LD_PRELOAD=None, LD_LIBRARY_PATH=folder, KOLO_NCCL_LIB=needed("KOLO_NCCL_LIBRARY"))
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = done.stdout.splitlines()
                self.assertEqual(lines[0], "0")
                for line, name in zip(lines[1:], ("ncclCommSuspend", "ncclParamGetI32", "ncclAllReduceConfig"), strict=True):
                    self.assertRegex(line, rf"^5 kolo: .*libnccl.so.2, which is NCCL 2.28.9, has no {name}$")


def needed(variable):
    """A path that CMake has found, or a skip."""
    path = os.environ.get(variable, "")
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{variable}: not found here")
    return path


def build(folder, source, libraries, binding):
    program = os.path.join(folder, f"{source}.{binding}")
    include = [f"-I{path}" for path in os.environ.get("KOLO_NCCL_INCLUDE_DIR", "").split(";") if path]
    subprocess.run(["cc", "-o", program, pathlib.Path(__file__).with_name(source), *include, f"-L{libraries}", "-l:libnccl.so.2",
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs", f"-Wl,-z,{binding}"], check=True)
    return program


class Stock(unittest.TestCase):
    """NVIDIA's NCCL, alone and behind the door."""

    def test_answers_are_the_same(self):
        library = needed("KOLO_NCCL_LIBRARY")
        compile_plugins("ringAllGather")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(DOOR, os.path.join(folder, "libnccl.so.2"))
            stock = os.path.dirname(library)
            for binding in ("lazy", "now"):
                program = build(folder, "stock.c", stock, binding)
                alone = run(program, LD_PRELOAD=None, LD_LIBRARY_PATH=stock)
                self.assertEqual((alone.returncode, alone.stderr), (0, ""), alone.stdout)
                self.assertGreater(len(alone.stdout.splitlines()), 50)
                preloaded = run(program, LD_LIBRARY_PATH=stock, KOLO_STATS="0")
                self.assertEqual((preloaded.stdout, preloaded.stderr), (alone.stdout, ""))
                dropped_in = run(program, LD_PRELOAD=None, LD_LIBRARY_PATH=f"{folder}:{stock}", KOLO_STATS="0")
                self.assertEqual((dropped_in.stdout, dropped_in.stderr), (alone.stdout, ""))

    def test_every_name_is_there(self):
        def names(path):
            listed = subprocess.run(["nm", "-D", "--defined-only", path], text=True, capture_output=True, check=True).stdout
            return set(re.findall(r" [TW] (p?nccl[A-Z]\w*)$", listed, re.M))
        stock = names(needed("KOLO_NCCL_LIBRARY"))
        self.assertGreater(len(stock), 100)
        self.assertEqual(stock - names(DOOR), set())

    def test_the_tuner_has_every_structure_that_nccl_looks_for(self):
        def structures(path):
            return set(re.findall(rb"ncclTunerPlugin_v\d+", pathlib.Path(path).read_bytes()))
        wanted = structures(needed("KOLO_NCCL_LIBRARY"))
        self.assertGreaterEqual(len(wanted), 4)
        self.assertEqual(wanted - structures(DOOR), set())

    def test_the_environment_plugin_is_loaded(self):
        stock = needed("KOLO_NCCL_LIBRARY")
        wanted = set(re.findall(rb"ncclEnvPlugin_v\d+", pathlib.Path(stock).read_bytes()))
        self.assertGreaterEqual(len(wanted), 1)
        self.assertEqual(wanted - set(re.findall(rb"ncclEnvPlugin_v\d+", pathlib.Path(DOOR).read_bytes())), set())
        test = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).ncclGetUniqueId(ctypes.create_string_buffer(128)))"
        done = run(sys.executable, "-c", test, stock, LD_PRELOAD=None, NCCL_ENV_PLUGIN=DOOR, NCCL_DEBUG="INFO")
        self.assertRegex(done.stdout, r"ENV/Plugin: Using Kolo \(v1\)", done.stderr)
        self.assertIn(f"Successfully loaded external env plugin {DOOR}", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^0$")


def tuner_struct(*functions):
    """A layout of NCCL's, from its public headers."""
    fields = [("name", ctypes.c_char_p), *functions]
    return type("Tuner", (ctypes.Structure,), {"_fields_": fields})


P, I, Z, U = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
CALL = ctypes.CFUNCTYPE
BY_NUMBERS = CALL(I, Z, Z, P, ctypes.POINTER(P))  # nRanks, nNodes, logger, context
BY_ID = CALL(I, ctypes.POINTER(P), U, Z, Z, P, P, P)  # context, commId, nRanks, nNodes, logger, domains, constants
TABLE = ctypes.c_float * 3 * 7
TUNERS = {
    2: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, I, I, P, P, P)), ("end", CALL(I, P))),
    3: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, P, I, I, P)), ("end", CALL(I, P))),
    4: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P))),
    5: tuner_struct(("init", BY_ID), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P))),
    6: tuner_struct(("init", BY_ID), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P)), ("chunk", P)),
}
TREE, RING = 0, 1
LL, LL128, SIMPLE = 0, 1, 2
BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE = range(5)


class Tuner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-tuner-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.plugin = os.path.join(cls.folder.name, "tuned.kolo.so")
        table = os.path.join(cls.folder.name, "table.json")
        pathlib.Path(table).write_text(json.dumps({"kolo": "0.1.0", "entries": [
            {"collective": collective, "ranks": 4, "memory": "windows", "upToBytes": size, "algorithm": algorithm,
             "schedule": {"protocol": protocol}} for collective, size, algorithm, protocol in (
                 ("all_gather", None, "allPairsAllGather", "bulk"), ("reduce_scatter", None, "ringReduceScatter", "bulk"),
                 ("all_reduce", 1024, "ringAllReduce", "ll"), ("all_reduce", 4096, "ringAllReduce", "ll128"),
                 ("all_reduce", None, "ringAllReduce", "bulk"), ("broadcast", None, "binomialBroadcast", "bulk"))]}))
        done = run(BUILD / "bin/kolo", "compile", "--table", table, "-o", cls.plugin, LD_PRELOAD=None)
        assert done.returncode == 0, done.stderr

    def check(self, questions):
        """Questions are (version, function, size, ranks, nodes, unavailable, right). In a process that has opened the door as
        NCCL opens a tuner."""
        asked = [question[:-1] for question in questions]
        done = run(sys.executable, "-B", __file__, "ask-tuner", json.dumps(asked), LD_PRELOAD=None, KOLO_PLUGIN_PATH=self.plugin)
        self.assertEqual(done.returncode, 0, done.stderr)
        for question, answer in zip(questions, json.loads(done.stdout), strict=True):
            self.assertEqual(answer, question[-1], question)

    def test_what_the_selection_says_becomes_free_and_nothing_else_changes(self):
        self.check([(version, function, size, 4, 1, [], right) for version in TUNERS for function, size, right in (
            (ALL_REDUCE, 1024, [[RING, LL]]), (ALL_REDUCE, 1025, [[RING, LL128]]), (ALL_REDUCE, 1 << 30, [[RING, SIMPLE]]),
            (REDUCE_SCATTER, 8, [[RING, SIMPLE]]), (BROADCAST, 8, [[TREE, SIMPLE]]), (ALL_GATHER, 8, []), (REDUCE, 8, []),
            (5, 8, []), (-1, 8, []))])

    def test_what_is_unavailable_stays_so(self):
        self.check([(version, ALL_REDUCE, 1024, 4, 1, unavailable, right) for version in (3, 4, 5, 6) for unavailable, right in (
            ([[RING, LL]], []), ([[TREE, LL], [RING, SIMPLE]], [[RING, LL]]))])

    def test_other_ranks_are_left_alone(self):
        self.check([(6, ALL_REDUCE, 1024, 5, 1, [], []), (6, ALL_REDUCE, 1024, 4, 2, [], [[RING, LL]])])

    def test_a_plugin_that_cannot_be_loaded_is_an_error(self):
        done = run(sys.executable, "-B", __file__, "ask-tuner", json.dumps([[6, 0, 8, 4, 1, []]]), LD_PRELOAD=None,
                   KOLO_PLUGIN_PATH="/nowhere.kolo.so")
        self.assertIn("kolo nccl: tuner: KOLO_PLUGIN_PATH: /nowhere.kolo.so", done.stderr)
        self.assertIn("(5, b'Kolo')", done.stderr)


class Environment(unittest.TestCase):
    """The layouts of NCCL's env_v1.h and env_v2.h. NCCL's headers that are installed have none of them."""
    TEST = """if True:
        import ctypes, os, sys
        text, code, number = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint8
        for version, logger in (1, []), (2, [ctypes.c_void_p]):
            init = ctypes.CFUNCTYPE(code, number, number, number, text, *logger)
            fields = [("name", text), ("init", init), ("end", ctypes.CFUNCTYPE(code)), ("get", ctypes.CFUNCTYPE(text, text))]
            layout = type("Environment", (ctypes.Structure,), {"_fields_": fields})
            plugin = layout.in_dll(ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL), f"ncclEnvPlugin_v{version}")
            print(plugin.name, plugin.init(2, 30, 7, b"", *(None for _ in logger)),
                  [plugin.get(name) for name in (b"NCCL_ALGO", b"NCCL_NOT_SET", b"NCCL_TUNER_PLUGIN")], plugin.end())
    """

    def test_it_answers_as_the_environment_and_names_kolo_as_the_tuner(self):
        for variable, tuner in ((None, DOOR), ("none", "none"), ("libother.so", "libother.so")):
            done = run(sys.executable, "-c", self.TEST, DOOR, LD_PRELOAD=None, NCCL_ALGO="ring", NCCL_TUNER_PLUGIN=variable)
            self.assertEqual(done.stdout, 2 * f"b'Kolo' 0 [b'ring', None, b'{tuner}'] 0\n", done.stderr)


def ask_tuner(version, function, size, ranks, nodes, unavailable):
    """The places of NCCL's table that a tuner makes free, in the layout of this version."""
    tuner = TUNERS[version].in_dll(ctypes.CDLL(DOOR, mode=os.RTLD_NOW | os.RTLD_LOCAL), f"ncclTunerPlugin_v{version}")
    context, channels = P(), I(-5)
    if version < 5:
        code = tuner.init(ranks, nodes, None, ctypes.byref(context))
    else:
        code = tuner.init(ctypes.byref(context), 7, ranks, nodes, None, None, None)
    assert (code, tuner.name) == (0, b"Kolo"), (code, tuner.name)
    assert version < 6 or tuner.chunk is None
    table, before = TABLE(), TABLE()
    for costs in (table, before):
        for row in range(7):
            for column in range(3):
                costs[row][column] = -1.0 if [row, column] in unavailable else 10.0 * row + column + 1
    if version == 2:
        algorithm, protocol = I(-3), I(-3)
        code = tuner.get(context, function, size, 0, 0, 1, ctypes.addressof(algorithm), ctypes.addressof(protocol),
                         ctypes.addressof(channels))
        free = [] if algorithm.value == -3 and protocol.value == -3 else [[algorithm.value, protocol.value]]
    else:
        rest = [0] if version > 3 else []
        code = tuner.get(context, function, size, 1, ctypes.addressof(table), 7, 3, *rest, ctypes.addressof(channels))
        free = [[row, column] for row in range(7) for column in range(3) if table[row][column] != before[row][column]]
        assert all(table[row][column] == 0.0 for row, column in free)
    assert (code, channels.value, tuner.end(context)) == (0, -5, 0)
    return free


if __name__ == "__main__" and sys.argv[1:2] == ["ask-tuner"]:
    print(json.dumps([ask_tuner(*question) for question in json.loads(sys.argv[2])]))
elif __name__ == "__main__":
    unittest.main()
