"""The door where ranks are on several hosts, which this machine plays: processes with other texts in KOLO_HOSTID."""

import json
import os
import pathlib
import re
import tempfile
import unittest

from support import ALGORITHMS, BUILD, CLIENT, PLUGINS, compile_plugins, run


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-nccl-hosts-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.staged = pathlib.Path(cls.folder.name) / "staged"
        cls.staged.mkdir()
        compile_plugins(*ALGORITHMS, folder=cls.staged, protocol="staged", meshes=("rank=2", "rank=3", "rank=4"))
        cls.by_node = pathlib.Path(cls.folder.name) / "node.kolo.so"
        compile_plugins("hierarchicalAllReduce", path=cls.by_node, protocol="staged", meshes=("node=2,gpu=2",))

    def start(self, hosts, *case, how="processes", plugins=None, **environment):
        return run(CLIENT, how, str(len(hosts)), *case, KOLO_TEST_HOSTS=hosts, KOLO_PLUGIN_PATH=str(plugins or self.staged),
                   **environment)

    def expect_right(self, *arguments, **options):
        done = self.start(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        return done

    def test_all_collectives_are_carried(self):
        """With groups, split and shrunk communicators."""
        for hosts, how, ranks_here in (("aabb", "processes", 1), ("abab", "processes", 1), ("abc", "processes", 1),
                                       ("aabb", "pairs", 2)):
            with self.subTest(hosts=hosts, how=how):
                done = self.expect_right(hosts, how=how)
                self.assertRegex(done.stderr, rf"kolo nccl: \d+ calls: \d+ carried \(\d+ bytes\), {2 * ranks_here} forwarded "
                                              rf"\({ranks_here} no data, {ranks_here} operation of the program\)")
                self.assertEqual(set(re.findall(r"^forwarded (\d+)$", done.stdout, re.M)), {str(4 * ranks_here)})

    def test_where_data_arrives_is_said(self):
        for asked, said in (("host", "hosts"), ("auto", "hosts: this network reaches no memory of devices")):
            with self.subTest(asked):
                done = self.expect_right("ab", "delayed", KOLO_DEBUG="info", KOLO_NETWORK_MEMORY=asked)
                self.assertRegex(done.stderr, "kolo nccl: connected 2 ranks on several hosts: data from others arrives in memory "
                                              f"of the {said}")

    def test_graphs_windows_and_late_ranks(self):
        for how in ("processes", "pairs"):
            for case in ("windows", "delayed", "finalize", "destroy"):
                with self.subTest(how=how, case=case):
                    self.expect_right("aabb", case, how=how, KOLO_STANDIN_LATE_US="5000")
        self.expect_right("aab", "capture")

    def test_a_program_is_carried_where_its_dimensions_are_those_of_the_hosts(self):
        for hosts, number in (("aabb", 3), ("abab", 0), ("aaab", 0)): # and one call of half of the ranks
            with self.subTest(hosts):
                done = self.start(hosts, "forwarded", plugins=self.by_node)
                self.assertRegex(done.stderr, rf"kolo nccl: 4 calls: {number} carried \(\d+ bytes\), {4 - number} forwarded "
                                              rf"\({4 - number} no program\)")

    def test_a_selection_names_programs_by_node_and_by_rank(self):
        with tempfile.TemporaryDirectory(prefix="kolo-nccl-table-") as folder:
            table, plugin = os.path.join(folder, "table.json"), os.path.join(folder, "table.kolo.so")
            entries = [{"collective": "all_reduce", **where, "memory": memory, "upToBytes": None, "algorithm": name}
                       for where, name in (({"ranks": 4}, "ringAllReduce"),
                                           ({"mesh": {"node": 2, "gpu": 2}}, "hierarchicalAllReduce"))
                       for memory in ("windows", "ordinary")]
            pathlib.Path(table).write_text(json.dumps({"entries": entries}))
            done = run(BUILD / "bin/kolo", "compile", "--table", table, "--network", "node,rank", "--network-memory", "staged",
                       "--target", "cpu,cuda:sm_90", "-o", plugin, LD_PRELOAD=None)
            self.assertEqual(done.returncode, 0, done.stderr)
            for hosts, name in (("aabb", "hierarchicalAllReduce"), ("abab", "ringAllReduce"), ("aaaa", "ringAllReduce")):
                done = self.start(hosts, "forwarded", plugins=plugin, KOLO_DEBUG="info", KOLO_STANDIN_RECORD="1")
                self.assertRegex(done.stderr, rf"all_reduce of 10 i32, sum on 4 ranks: carried by {name} of ")

    def test_without_a_program_for_a_network_calls_are_forwarded(self):
        """Those of communicators inside of a host are carried."""
        compile_plugins(*ALGORITHMS)
        done = self.expect_right("abab", "forwarded", plugins=PLUGINS.name)
        self.assertRegex(done.stderr, r"kolo nccl: 4 calls: 1 carried \(\d+ bytes\), 3 forwarded \(3 ranks on several hosts\)")

    def test_all_ranks_forward_where_one_differs(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(self.staged / "ringAllReduce.kolo.so", os.path.join(folder, "one.kolo.so"))
            done = self.expect_right("aab", "other plugins", KOLO_TEST_OTHER_PLUGINS=folder)
            self.assertIn("3 forwarded (3 ranks have other plugins)", done.stderr)
            self.assertEqual(re.findall(r"^forwarded (\d+)$", done.stdout, re.M), ["3", "3", "3"])

    def test_ranks_that_cannot_connect_forward_all(self):
        done = self.start("aabb", "forwarded", KOLO_NETWORK_INTERFACE="none0")
        self.assertIn("0 carried (0 bytes), 4 forwarded (4 ranks that Kolo cannot connect)", done.stderr)
        self.assertRegex(done.stderr, r"calls on a communicator of 4 ranks are forwarded: rank 0: KOLO_NETWORK_INTERFACE='none0'")

    def test_a_rank_without_the_library(self):
        """All others leave the communicator to NCCL, whose results are right on all ranks, be the hosts several or one."""
        for hosts in ("ab", "aab", "abc", "aaa"):
            with self.subTest(hosts):
                done = self.expect_right(hosts, "without the door")
                number = len(hosts)
                lines = re.findall(r"^kolo nccl: calls on a communicator of .*", done.stderr, re.M)
                self.assertEqual(lines, [f"kolo nccl: calls on a communicator of {number} ranks are forwarded: rank {number - 1} runs "
                                         "without this library, has a non-blocking communicator, or does not reach the process that "
                                         "made the unique id"])
                self.assertIn("1 forwarded (1 ranks without this library)", done.stderr)

    def test_an_id_that_was_made_without_the_library(self):
        done = self.expect_right("aab", "id without the door")
        lines = re.findall(r"^kolo nccl: calls on a communicator of .*", done.stderr, re.M)
        self.assertEqual(lines, ["kolo nccl: calls on a communicator of 3 ranks are forwarded: its unique id names no process at "
                                 "which ranks meet"])

    def test_an_id_by_nccl_comm_id(self):
        """Which every rank makes for itself: there is no process that all of them know."""
        done = self.expect_right("aab", "forwarded", NCCL_COMM_ID="127.0.0.1:5555")
        self.assertIn("3 ranks are forwarded: its unique id names no process at which ranks meet", done.stderr)

    def test_failures_end_all_ranks(self):
        for case, text in (("count", "11"), ("death", "rank 2"), ("missing", "rank 2"), ("abort", "rank 2")):
            with self.subTest(case):
                done = self.start("aab", case, KOLO_TIMEOUT_MS="3000")
                codes = dict(re.findall(r"^rank (\d): (\d)", done.stdout, re.M))
                self.assertTrue(codes.get("0", "0") != "0" and codes.get("1", "0") != "0", done.stdout + done.stderr)
                self.assertIn(text, done.stdout)

    def test_non_blocking_communicators_are_left_to_nccl(self):
        done = self.expect_right("aab", "nonblocking")
        self.assertIn("non-blocking communicator", done.stderr)
        done = self.expect_right("aab", "nonblocking rank 0")  # and all others are blocking
        self.assertIn("3 ranks are forwarded: rank 0 runs without this library, has a non-blocking communicator", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
