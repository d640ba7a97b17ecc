"""Groups of sends and receives between ranks on several hosts, which this machine plays: those that are an all-to-all on
all ranks are carried, and NCCL gets the others."""

import re
import tempfile
import unittest

from support import CLIENT, compile_plugins, run

WAITS = {"KOLO_NCCL_GROUP_MS": "20000"} # longer than any rank is late


class GroupHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-nccl-group-hosts-")
        cls.addClassCleanup(cls.folder.cleanup)
        compile_plugins("directAllToAll", "ringAllReduce", folder=cls.folder.name, protocol="staged",
                        meshes=("rank=2", "rank=3", "rank=4"))

    def start(self, hosts, case, how="processes", **environment):
        return run(CLIENT, how, str(len(hosts)), f"groups, {case}", timeout=120,
                   **{"KOLO_PLUGIN_PATH": self.folder.name, "KOLO_TEST_HOSTS": hosts, **WAITS, **environment})

    def expect_right(self, hosts, case, **options):
        done = self.start(hosts, case, **options)
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        return done

    def numbers(self, name, text):
        return [int(number) for number in re.findall(rf"^{name} (\d+)$", text, re.M)]

    def test_random_groups(self):
        """What the rule says is carried, byte for byte; NCCL gets all else, and nothing twice."""
        for hosts, how, ranks_here in (("ab", "processes", 1), ("abb", "processes", 1), ("abc", "processes", 1),
                                       ("aabb", "processes", 1), ("aabb", "pairs", 2)):
            with self.subTest(hosts=hosts, how=how):
                done = self.expect_right(hosts, "random", how=how, KOLO_TEST_STEPS="12")
                carried, = set(self.numbers("carried", done.stdout))
                self.assertGreater(carried, 3)
                self.assertEqual(sum(self.numbers("forwarded", done.stdout)), sum(self.numbers("expected", done.stdout)))
                self.assertIn(f" {carried * ranks_here} carried (", done.stderr)

    def test_groups_that_are_no_all_to_all_go_to_nccl(self):
        """The next one is carried again."""
        for case, more in (("twice", 2), ("collective", 0), ("streams", 0), ("elsewhere", 0), ("overlapping", 0)):
            with self.subTest(case):
                done = self.expect_right("aab", case)
                self.assertEqual(set(self.numbers("forwarded", done.stdout)), {6 + more}, done.stderr)
                self.assertIn(f" {2 if case == 'collective' else 1} carried (", done.stderr)

    def test_a_rank_that_comes_late(self):
        done = self.expect_right("aab", "late", KOLO_NCCL_GROUP_MS="100", KOLO_DEBUG="info")
        self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6, 6], done.stdout)
        self.assertIn(" 0 carried (", done.stderr)
        self.assertRegex(done.stderr, "a group of sends and receives between 3 ranks: forwarded: (ranks that came late|group that other ranks)")

    def test_ranks_that_give_up_at_any_time_decide_alike(self):
        for hosts in ("abb", "aab"):
            done = self.expect_right(hosts, "hasty", KOLO_NCCL_GROUP_MS="2")
            said = re.findall(r"^steps ([01]+)$", done.stdout, re.M)
            self.assertEqual((len(said), len(set(said))), (3, 1), done.stdout)

    def test_counts_that_differ(self):
        done = self.start("aab", "count")
        said = re.findall(r"^rank \d: (.*)$", done.stdout, re.M)
        self.assertEqual(len(said), 3, done.stdout + done.stderr)
        for line in said:
            self.assertRegex(line, r"^4 kolo: rank \d: .*some block has another length where it is sent")

    def test_graphs_windows_and_two_communicators(self):
        self.expect_right("aab", "capture")
        done = self.expect_right("aab", "windows")
        self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6, 6], done.stdout)
        done = self.expect_right("aabb", "communicators")
        self.assertIn("6 calls: 6 carried (", done.stderr)

    def test_a_block_that_is_too_large_to_copy(self):
        done = self.expect_right("ab", "large")
        self.assertEqual(self.numbers("forwarded", done.stdout), [2, 2])
        self.assertIn("0 carried (0 bytes), 1 forwarded (1 blocks too large for Kolo to copy)", done.stderr)

    def test_a_rank_that_is_dead(self):
        for hosts in ("aab", "abb"): # the last rank; on rank 0's host and not
            done = self.expect_right(hosts, "death", KOLO_NCCL_GROUP_MS="300")
            self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6])

    def test_without_rank_0_nobody_agrees(self):
        """By it ranks on other hosts agree: those that wait for it then return an error."""
        done = self.start("abb", "death of rank 0")
        self.assertEqual(sorted(re.findall(r"^rank (\d): (.*)$", done.stdout, re.M)),
                         [(rank, f"6 kolo: rank {rank}: a group of sends and receives: lost the connection with rank 0, by "
                                 "which ranks agree on it") for rank in ("1", "2")], done.stdout + done.stderr)

    def test_an_abort_ends_the_wait(self):
        for hosts, case in (("aab", "abort"), ("abb", "abort of rank 1")):
            done = self.start(hosts, case)
            self.assertNotIn("wrong", done.stdout)
            self.assertRegex(done.stdout, r"rank [01]: 6 kolo: rank [01]: a group of sends and receives: this communicator was aborted")

    def test_they_are_forwarded_and_why_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            compile_plugins("ringAllReduce", folder=folder, protocol="staged", meshes=("rank=3",))
            for more, why in (({"KOLO_PLUGIN_PATH": folder}, "no program"), ({"KOLO_NCCL_GROUP_MS": "0"}, "KOLO_NCCL_GROUP_MS=0")):
                done = self.expect_right("aab", "late", KOLO_DEBUG="info", **more)
                self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6, 6], done.stdout + done.stderr)
                self.assertIn(f"groups of sends and receives are forwarded: {why}", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
