"""Collectives whose blocks have counts of their own, under the door: the bytes that the MPI library gives, and all are carried.

usage: tables_test.py CLASS...; the environment as for mpi_test.py.
"""
import shutil
import unittest

from mpi_test import MpiTest, skip


class Tables(MpiTest):
    """Blocks with counts of their own."""

    def setUp(self):
        super().setUp()
        self.program = self.build("tables.c")

    def expectAllCarried(self, least, case):
        for ranks in (2, 4):
            output = self.expectCarried(least, ranks, self.program, case, KOLO_MPI_CARRY_FROM="4")
            self.assertRegex(output, r" 3 forwarded \(3 first calls\)")

    def test_blocks_that_move(self):
        self.expectAllCarried(583, "all")

    def test_blocks_that_are_combined(self):
        self.expectAllCarried(115, "reductions")

    def test_blocks_between_each_other_and_at_addresses(self):
        self.expectAllCarried(11, "interleaved")

    def test_blocks_that_are_received_at_one_place(self):
        self.expectAllCarried(5, "overlapping")

    def test_counts_that_differ(self):
        code, output = self.mpirun(2, self.program, "counts-differ", seconds=20)
        self.assertNotEqual(code, 0, output)
        self.assertIn("ranks disagree on a block: rank 0 gives 4 elements to rank 1, which takes 8", output)
        self.assertNotIn("went on", output)


class FortranTables(MpiTest):
    def test_tables_from_fortran(self):
        compiler = shutil.which("mpif90.openmpi")
        if not compiler or not shutil.which("gfortran"):
            skip("no gfortran for Open MPI (Debian: gfortran)")
        self.expectCarried(11, 2, self.build("tables.f90", compiler))


if __name__ == "__main__":
    unittest.main(verbosity=2)
