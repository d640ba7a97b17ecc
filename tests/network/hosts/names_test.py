"""MASTER_ADDR is rank 0's own name, which stands for a loopback address on rank 0's host: on every default Debian.

Skipped where hosts cannot be made."""
import os
import subprocess
import sys
import tempfile
import unittest

import hosts

KOLO = os.environ["KOLO"]
REASON = hosts.missing()


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tests-of-names-")
        self.addCleanup(folder.cleanup)
        self.plugin = os.path.join(folder.name, "x.so")
        subprocess.run([KOLO, "compile", "slottedHierarchicalAllReduce", "--mesh", "node=2,gpu=2", "--network", "node", "-o",
                        self.plugin], check=True, stdout=subprocess.DEVNULL)

    def make(self, **options):
        made = hosts.Hosts(f"kn{os.getpid()}-", 2, **options).__enter__()
        self.addCleanup(made.__exit__)
        return made

    def run_ranks(self, made, ranks, timeout_ms=20000, **changes):
        """By rank: exit status and what it said."""
        started = {}
        for rank in ranks:
            variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_PORT": "29519", "LC_ALL": "C",
                         "KOLO_WAIT": "yield", "KOLO_TIMEOUT_MS": str(timeout_ms), **changes}
            started[rank] = made.start(rank // 2, [KOLO, "run", self.plugin, "--mesh", "node=2,gpu=2", "--bytes", "64K",
                                                   "--ranks-as", "launched"], env=variables, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = {rank: process.communicate(timeout=60)[0] for rank, process in started.items()}
        return {rank: (process.returncode, said[rank]) for rank, process in started.items()}

    def test_all_ranks_meet(self):
        for own in ("127.0.1.1", "::1"):
            made = self.make(own_address=own)
            ends = self.run_ranks(made, range(4), MASTER_ADDR=f"{made.name}0")
            self.assertEqual({code for code, _ in ends.values()}, {0}, ends)
            self.assertIn("every byte is right", ends[0][1])
            self.doCleanups()
            self.setUp()

    def test_a_timeout_says_where_rank_0_listens(self):
        made = self.make(own_address="127.0.1.1")
        for master, where in ((f"{made.name}0", "listens at all interfaces, because MASTER_ADDR is 127.0.1.1 here"),
                              (made.address(0), "listens at 10.77.0.1 (eth0)"), ("127.0.0.1", "listens at 127.0.0.1 (lo)"),
                              ("localhost", "listens at 127.0.0.1 (lo)")):
            [(code, said)] = self.run_ranks(made, [0], 500, MASTER_ADDR=master).values()
            self.assertEqual(code, 3, said)
            self.assertIn(where, said)

    def test_a_timeout_says_which_address_a_rank_has_tried(self):
        made = self.make(own_address="127.0.1.1")
        for name, number in (("0", "10.77.0.1"), ("1", "127.0.1.1")):
            [(code, said)] = self.run_ranks(made, [2], 500, MASTER_ADDR=made.name + name).values()
            self.assertEqual(code, 3, said)
            self.assertIn(f"connecting to MASTER_ADDR {made.name}{name} ({number})", said)


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    unittest.main(verbosity=2)
