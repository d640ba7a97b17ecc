"""Faults of hosts and networks: every rank ends with a true cause, or none is noticed.

faults_test.py RANK_PROGRAM PLUGIN [TEST...]. Skipped where hosts cannot be made.
"""
import os
import signal
import sys
import time
import unittest

import hosts
import ranks

PROGRAM, PLUGIN = sys.argv[1], sys.argv[2]
REASON = hosts.missing()
# From a cut to the error on all ranks: as long as the timeout, on a machine that is not loaded.
CUT_TIMEOUT_MS = 4000
KEEP_ALIVE_SECONDS = 9


class Faults(unittest.TestCase):
    def make(self, number):
        made = hosts.Hosts(f"kf{os.getpid()}-", number).__enter__()
        self.addCleanup(made.__exit__)
        return made

    def launch(self, made, per_host, mode, timeout_ms):
        launch = ranks.Launch(made, per_host, [PROGRAM, mode, PLUGIN],
                              {"KOLO_WAIT": "yield", "KOLO_TIMEOUT_MS": str(timeout_ms)})
        self.addCleanup(launch.end)
        time.sleep(0.2)  # in calls, or between them
        return launch

    def check(self, launch, rank, culprits, start, seconds):
        """That this rank names one of the culprits and its host, in time."""
        said = launch.hear(rank)
        self.assertIn(said.code, ("PeerLost", "Timeout", "Aborted"), f"rank {rank}: {said}")
        self.assertIn(said.culprit, culprits, f"rank {rank}: {said}")
        self.assertTrue(launch.names_host(said), f"rank {rank}: {said}")
        self.assertLess(said.time - start, seconds, f"rank {rank}: {said}")

    def test_of_two_ranks_that_die_at_once_each_other_rank_names_one(self):
        for number, per_host, mode in ((2, 2, "traffic"), (4, 1, "traffic"), (4, 1, "idle")):
            launch = self.launch(self.make(number), per_host, mode, 20000)
            start = time.monotonic()
            launch.signal((0, 3), signal.SIGKILL)
            for rank in (1, 2):
                self.check(launch, rank, (0, 3), start, 5)  # a second, on a machine that is not loaded
            self.doCleanups()

    def cut(self, mode, cut, timeout_ms, seconds):
        """All ranks of both sides name one of the other side."""
        made = self.make(2)
        launch = self.launch(made, 2, mode, timeout_ms)
        start = time.monotonic()
        cut(made)
        for rank in (0, 1):
            self.check(launch, rank, (2, 3), start, seconds)
        return launch, start

    def test_a_link_that_goes_down_in_a_call_is_named_by_both_sides(self):
        launch, start = self.cut("traffic", lambda made: made.link(1, "down"), CUT_TIMEOUT_MS, KEEP_ALIVE_SECONDS)
        for rank in (2, 3):
            self.check(launch, rank, (0, 1), start, KEEP_ALIVE_SECONDS)

    def test_a_link_that_goes_down_between_calls_is_named_by_both_sides(self):
        for mode, seconds in (("idle", KEEP_ALIVE_SECONDS), ("away", 5 + KEEP_ALIVE_SECONDS)):
            launch, start = self.cut(mode, lambda made: made.link(1, "down"), CUT_TIMEOUT_MS, seconds)
            for rank in (2, 3):
                self.check(launch, rank, (0, 1), start, seconds)
            self.doCleanups()

    def test_a_timeout_that_is_shorter_than_the_keep_alive_holds(self):
        """Nobody knows yet that the link is down. So the wait that began first names its peer, which may be of the same host and
        wait itself."""
        made = self.make(2)
        launch = self.launch(made, 2, "traffic", 1000)
        start = time.monotonic()
        made.link(1, "down")
        for host in ((0, 1), (2, 3)):
            first, second = (launch.hear(rank) for rank in host)
            self.assertEqual((first.code, first.culprit, first.message), ("Timeout", second.culprit, second.message))
            self.assertTrue(launch.names_host(first), first)
            for said in (first, second):
                self.assertTrue(0.9 < said.time - start < 4, said)  # 2 s, on a machine that is not loaded

    def test_a_host_that_starts_again_without_a_word_is_named(self):
        for mode, seconds in (("traffic", KEEP_ALIVE_SECONDS), ("idle", KEEP_ALIVE_SECONDS), ("away", 5 + KEEP_ALIVE_SECONDS)):
            self.cut(mode, lambda made: made.reboot(1), CUT_TIMEOUT_MS, seconds)
            self.doCleanups()

    def test_a_rank_that_stops_and_goes_on_in_time_is_not_noticed(self):
        made = self.make(2)
        for mode in ("traffic", "idle"):
            launch = self.launch(made, 2, mode, 20000)
            launch.signal([3], signal.SIGSTOP)
            time.sleep(4)  # longer than the least time after which mail gives up
            launch.signal([3], signal.SIGCONT)
            time.sleep(1)
            self.assertEqual([rank for rank in range(4) if launch.has_spoken(rank)], [])
            launch.end()

    def test_a_link_that_loses_a_packet_in_ten_ends_no_run(self):
        made = hosts.Hosts(f"kl{os.getpid()}-", 2, loss=10).__enter__()
        self.addCleanup(made.__exit__)
        launch = self.launch(made, 2, "traffic", 20000)
        time.sleep(40)
        self.assertEqual([launch.hear(rank) for rank in range(4) if launch.has_spoken(rank)], [])
        launch.end()

    def test_a_link_that_comes_back_is_not_noticed(self):
        made = self.make(2)
        for mode in ("traffic", "idle"):
            launch = self.launch(made, 2, mode, 20000)
            made.link(1, "down")
            time.sleep(1)
            made.link(1, "up")
            time.sleep(3)
            self.assertEqual([rank for rank in range(4) if launch.has_spoken(rank)], [])
            launch.end()


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    unittest.main(verbosity=2, argv=sys.argv[:1] + [f"Faults.{name}" for name in sys.argv[3:]])
