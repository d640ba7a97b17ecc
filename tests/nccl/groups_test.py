"""Groups of sends and receives: the door carries those that are an all-to-all on all ranks, and NCCL gets the others."""

import os
import re
import tempfile
import unittest

from support import CLIENT, compile_plugins, run

WAITS = {"KOLO_NCCL_GROUP_MS": "20000"} # longer than any rank is late


class Groups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-nccl-groups-")
        cls.addClassCleanup(cls.folder.cleanup)
        compile_plugins("directAllToAll", "ringAllReduce", folder=cls.folder.name, meshes=("rank=2", "rank=3", "rank=4"))

    def start(self, how, ranks, case, **environment):
        return run(CLIENT, how, str(ranks), f"groups, {case}", timeout=600,
                   **{"KOLO_PLUGIN_PATH": self.folder.name, **WAITS, **environment})

    def expect_right(self, how, ranks, case, **environment):
        done = self.start(how, ranks, case, **environment)
        self.assertEqual((done.returncode, done.stdout.count("wrong")), (0, 0), done.stdout + done.stderr)
        return done

    def numbers(self, name, text):
        return [int(number) for number in re.findall(rf"^{name} (\d+)$", text, re.M)]

    def check_random(self, how, ranks, ranks_here, **environment):
        """What the rule says is carried, byte for byte; NCCL gets all else, and nothing twice."""
        done = self.expect_right(how, ranks, "random", **environment)
        carried, = set(self.numbers("carried", done.stdout))
        self.assertGreater(carried, 3)
        self.assertEqual(sum(self.numbers("forwarded", done.stdout)), sum(self.numbers("expected", done.stdout)), done.stdout)
        self.assertIn(f" {carried * ranks_here} carried (", done.stderr)

    def test_random_groups(self):
        for how, ranks, ranks_here in (("processes", 2, 1), ("processes", 4, 1), ("threads", 3, 3), ("hands", 4, 4), ("one", 4, 4),
                                       ("pairs", 4, 2)):
            with self.subTest(f"{ranks} ranks in {how}"):
                self.check_random(how, ranks, ranks_here)

    def test_groups_that_are_no_all_to_all_go_to_nccl(self):
        """The next one is carried again."""
        memory = "memory or devices that Kolo cannot use"
        for case, more, reason in (("twice", 2, None), ("collective", 0, None), ("streams", 0, None), ("elsewhere", 0, memory),
                                   ("overlapping", 0, "blocks that overlap"), ("one place", 0, "blocks that overlap")):
            for how, ranks_here in (("processes", 1), ("one", 3)):
                with self.subTest(f"{case}, {how}"):
                    done = self.expect_right(how, 3, case)
                    self.assertEqual(set(self.numbers("forwarded", done.stdout)), {ranks_here * (6 + more)}, done.stderr)
                    self.assertIn(f" {ranks_here * (2 if case == 'collective' else 1)} carried (", done.stderr)
                    if reason and case != "elsewhere": # rank 0 prints for its process; the last rank's memory is elsewhere
                        self.assertIn(f"{ranks_here} forwarded ({ranks_here} {reason})", done.stderr)

    def test_a_rank_that_comes_late(self):
        for how, ranks_here in (("processes", 1), ("threads", 3), ("hands", 3)):
            done = self.expect_right(how, 3, "late", KOLO_NCCL_GROUP_MS="100", KOLO_DEBUG="info")
            self.assertEqual(sum(self.numbers("forwarded", done.stdout)), 18, done.stdout)
            self.assertIn(" 0 carried (", done.stderr)
            self.assertRegex(done.stderr, "a group of sends and receives between 3 ranks: forwarded: (ranks that came late|group that other ranks)")
            self.assertRegex(done.stderr, rf"{ranks_here} forwarded \(\d+ (ranks that came late|group that other ranks forward)")

    def test_ranks_that_give_up_at_any_time_decide_alike(self):
        for how, ranks in (("processes", 3), ("threads", 4)):
            done = self.expect_right(how, ranks, "hasty", KOLO_NCCL_GROUP_MS="2")
            said = re.findall(r"^steps ([01]+)$", done.stdout, re.M)
            self.assertEqual((len(said), len(set(said))), (ranks, 1), done.stdout)

    def test_a_group_that_is_estimated(self):
        for how in ("processes", "one"):
            done = self.expect_right(how, 3, "estimate")
            self.assertEqual(sum(self.numbers("forwarded", done.stdout)), 18, done.stdout)

    def test_blocks_that_are_too_large_to_copy(self):
        done = self.expect_right("processes", 2, "large")
        self.assertEqual(self.numbers("forwarded", done.stdout), [2, 2])
        self.assertIn("0 carried (0 bytes), 1 forwarded (1 blocks too large for Kolo to copy)", done.stderr)

    def test_counts_that_differ(self):
        for how in ("processes", "threads", "hands"):
            done = self.start(how, 3, "count")
            said = re.findall(r"^rank \d: (.*)$", done.stdout, re.M)
            self.assertEqual(len(said), 3, done.stdout + done.stderr)
            for line in said:
                self.assertRegex(line, r"^4 kolo: rank \d: .*rank 0 gives 102 elements to rank 2, which takes 101")

    def test_in_a_graph(self):
        for how in ("processes", "threads"):
            self.expect_right(how, 3, "capture")

    def test_two_communicators_in_one_group(self):
        for how, ranks_here in (("processes", 1), ("pairs", 2), ("threads", 4), ("one", 4)):
            done = self.expect_right(how, 4, "communicators")
            self.assertIn(f"{6 * ranks_here} calls: {6 * ranks_here} carried (", done.stderr)

    def test_blocks_in_windows_are_not_copied(self):
        """The one copy says where they are. Ranks whose blocks are in other windows leave the group to NCCL."""
        for how in ("processes", "threads"):
            done = self.expect_right(how, 3, "windows")
            self.assertEqual(sum(self.numbers("forwarded", done.stdout)), 18, done.stdout)
            if how == "processes": # threads would count those of each other
                self.assertEqual(set(re.findall(r"^copies in windows: (\d+)$", done.stdout, re.M)), {"1"})

    def test_a_rank_that_is_dead(self):
        done = self.expect_right("processes", 3, "death", KOLO_NCCL_GROUP_MS="300")
        self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6])

    def test_an_abort_ends_the_wait(self):
        for how in ("processes", "threads", "hands"):
            done = self.start(how, 3, "abort")
            self.assertNotIn("wrong", done.stdout)
            self.assertRegex(done.stdout, "rank 0: 6 kolo: rank 0: a group of sends and receives: this communicator was aborted")

    def test_without_a_program_nobody_waits(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(self.folder.name, "ringAllReduce.kolo.so"), os.path.join(folder, "one.kolo.so"))
            done = self.start("processes", 3, "late", KOLO_PLUGIN_PATH=folder)
        self.assertIn("1 calls: 0 carried (0 bytes), 1 forwarded (1 no program)", done.stderr)

    def test_the_variable(self):
        done = self.start("processes", 3, "late", KOLO_NCCL_GROUP_MS="0")
        self.assertEqual(self.numbers("forwarded", done.stdout), [6, 6, 6])
        done = self.start("processes", 2, "late", KOLO_NCCL_GROUP_MS="1s")
        self.assertIn("KOLO_NCCL_GROUP_MS='1s' is not a number of milliseconds from 0 to 3600000", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
