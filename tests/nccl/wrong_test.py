"""Mistakes of programs, ranks that end, and libraries that are none: one clear error on every rank, and no hang."""

import os
import pathlib
import re
import sys
import tempfile
import unittest

from support import CLIENT, DOOR, PLUGINS, STANDIN, build, compile_plugins, needed, run


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

    def test_ranks_that_go_on_without_a_lost_one(self):
        for how in ("processes", "threads"):
            done = run(CLIENT, how, "4", "shrink")
            self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
            self.assertRegex(done.stderr, r"kolo nccl: \d+ calls: \d+ carried \(\d+ bytes\), 0 forwarded")

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
            self.refused("others may write this file: chmod go-w it", KOLO_PLUGIN_PATH=path)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
