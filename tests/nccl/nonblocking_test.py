"""Communicators that are made and used in the background."""

import re
import unittest

from support import CLIENT, compile_plugins, run


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


if __name__ == "__main__":
    unittest.main(verbosity=2)
