"""Calls that the door carries: a program that knows NCCL and CUDA alone runs over stand-ins for both."""

import json
import os
import pathlib
import re
import tempfile
import unittest

from support import ALGORITHMS, BUILD, CLIENT, PLUGINS, compile_plugins, run


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

    def test_averages_of_f16_are_forwarded(self):
        for how, ranks_here in (("processes", 1), ("threads", 2)):
            done = self.expect_right(how, "2", "averages")
            self.assertIn(f"{3 * ranks_here} calls: {2 * ranks_here} carried ({60 * ranks_here} bytes), {ranks_here} forwarded "
                          f"({ranks_here} no code for these devices)", done.stderr)
            self.assertEqual(set(re.findall(r"^forwarded (\d+)$", done.stdout, re.M)), {str(ranks_here)}, done.stdout)

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
            asked = {int(number) for number in re.findall(r"^addresses asked for: (\d+)$", done.stdout, re.M)}
            self.assertEqual(min(asked) > 0, how != "one", done.stdout) # one thread knows the addresses of its ranks
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
