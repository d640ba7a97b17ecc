"""Barriers that programs begin and complete later: carried, among requests and collectives that MPI's library carries.

usage: ibarrier_test.py CLASS...; the environment as for mpi_test.py.
"""
import os
import shutil
import subprocess
import unittest

from mpi_test import ABI, BUILD, MpiTest, skip

# gcc takes MPI_STATUSES_IGNORE of MPICH for an array.
FLAGS = ["-pthread", "-Wno-stringop-overflow"]
NOT_SEEN = "another tool completes requests"


class BarrierTest(MpiTest):
    source = None

    def setUp(self):
        super().setUp()
        self.program = self.build(self.source, flags=FLAGS)

    def expectAllCarried(self, least, case, ranks=(2, 4), **options):
        """Of barriers and of what else Kolo carries; a line for each thing that goes wrong."""
        for each in ranks:
            output = self.expectCarried(least, each, self.program, case, KOLO_MPI_CARRY_FROM="4", **options)
            self.assertNotIn(NOT_SEEN, output)


class Ibarrier(BarrierTest):
    source = "ibarrier.c"

    def test_no_barrier_ends_before_the_last_rank_begins_it(self):
        self.expectAllCarried(27 + 3, "order")

    def test_many_outstanding(self):
        self.expectAllCarried(9 * 48 + 3, "many")

    def test_among_other_requests(self):
        self.expectAllCarried(9 * 2 + 3, "mixed")

    def test_any_of_a_message_and_a_barrier(self):
        self.expectAllCarried(20 + 3, "any")

    def test_ranks_that_have_begun_one_hold_nobody_up(self):
        self.expectAllCarried(2 * 5 + 3, "progress")

    def test_random_orders_among_all_collectives(self):
        self.expectAllCarried(430, "random")
        self.expectAllCarried(430, "random", ranks=(3,), KOLO_WAIT="sleep")

    def test_threads(self):
        self.expectAllCarried(20 * 6 + 3, "threads", ranks=(2,))

    def test_before_the_ranks_connect(self):
        # The fourth blocking collective comes after seven barriers that were begun.
        output = self.expectCarried(3 + 4, 2, self.program, "early", KOLO_MPI_CARRY_FROM="4")
        self.assertRegex(output, r"18 calls: 8 carried .*, 10 forwarded \(10 first calls\)")

    def test_communicators_without_other_collectives(self):
        # They connect in a meeting on MPI_COMM_WORLD.
        for ranks in (2, 3, 4):
            output = self.expectCarried(300, ranks, self.program, "only", KOLO_DEBUG="info")
            self.assertNotIn(NOT_SEEN, output)
            self.assertIn(f"connected as rank 1 of {ranks}, tag 'MPI_COMM_WORLD'", output)
            for each in {2: (2,), 3: (2, 3), 4: (2, 3, 4)}[ranks]:
                self.assertRegex(output, rf"connected as rank \d of {each}, (tag '(?!MPI_COMM_WORLD)|without)")

    def test_a_tool_in_front_of_the_door(self):
        program = self.build("ibarrier.c", name="own-wait", flags=[*FLAGS, "-DOWN_WAIT"])
        for case in ("order", "mixed"):
            output = self.expectCarried(3, 2, program, case)
            self.assertRegex(output, rf"forwarded \(.*\d+ {NOT_SEEN}")

    def test_ranks_of_several_hosts(self):
        tool, plugin = os.path.join(BUILD, "bin", "kolo"), os.path.join(self.directory, "plugin.so")
        if not os.path.exists(tool):
            self.skipTest("this build has no kolo, which compiles the plugin")
        subprocess.run([tool, "compile", "ringAllGather", "--mesh", "rank=2", "--network", "rank", "-o", plugin], check=True,
                       stdout=subprocess.DEVNULL)
        output = self.expectCarried(3, 2, self.program, "progress", perHost=1, KOLO_PLUGIN_PATH=plugin)
        self.assertIn("non-blocking among several hosts", output)


class IbarrierEnds(BarrierTest):
    source = "ibarrier_ends.c"

    def test_communicators_that_are_freed_before(self):
        self.expectAllCarried(60 * 5 + 3, "freed")

    def test_communicators_that_are_freed_before_they_connect(self):
        # MPICH 4.0.2 alone hangs in this program with three ranks.
        output = self.expectCarried(0, 2, self.program, "freed-unnamed", KOLO_MPI_CARRY_FROM="")
        self.assertIn("first calls", output)

    def test_what_mpi_forbids(self):
        self.expectAllCarried(21 + 4, "misused", ranks=(2,))

    def test_a_rank_that_is_late(self):
        output = self.expectCarried(3, 2, self.program, "late", KOLO_TIMEOUT_MS="300", seconds=30)
        self.assertEqual(output.count("told"), 2, output)
        self.assertIn("kolo mpi: rank 0: MPI_Ibarrier: rank 0 waited", output)

    def test_a_rank_that_dies(self):
        code, output = self.mpirun(2, self.program, "death", seconds=20)
        self.assertNotEqual(code, 0, output)
        self.assertNotIn("went on", output)


class IbarrierFortran(MpiTest):
    def test_from_fortran(self):
        compiler = shutil.which(f"mpif90.{ABI}")
        if not compiler or not shutil.which("gfortran"):
            skip(f"no gfortran for {ABI}")
        for name, first in (("ibarrier.f90", 3), ("ibarrier08.f90", 3 + 2 * 4)):
            output = self.expectCarried(16 + 3, 2, self.build(name, compiler))
            self.assertIn(f" {first} forwarded ({first} first calls)", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
