"""Memory of MPI_Alloc_mem under the door: as cheap as MPI's own until a carried call uses it, and a window from then on. And
what the door does at limits of memory and descriptors.

usage: memory_test.py CLASS...; the environment as for mpi_test.py.
"""
import re
import unittest

from mpi_test import ABI, DOOR, MpiTest

most = 2 if ABI == "openmpi" else 1  # ranks of MPICH never yield their core


class Memory(MpiTest):
    def setUp(self):
        super().setUp()
        self.program = self.build("memory.c")

    def succeeds(self, ranks, case, **options):
        code, output = self.mpirun(ranks, self.program, case, **options)
        self.assertEqual(code, 0, output)
        return output

    def mappings(self, output):
        return set(re.findall(r"(\d) large mappings before, (\d) after", output))

    def test_what_nobody_uses_is_not_there(self):
        self.succeeds(2, "unused")

    def test_allocations_do_not_overlap(self):
        for ranks in (2, 4):
            self.assertEqual(self.succeeds(ranks, "stamps").count("stamps in pieces"), ranks)

    def test_it_becomes_a_window_when_a_carried_call_uses_it(self):
        for ranks in (2, 4):
            output = self.expectCarried(17, ranks, self.program, "window")
            self.assertEqual(self.mappings(output), {("1", str(ranks))})

    def test_the_switch(self):
        output = self.expectCarried(17, 2, self.program, "window", KOLO_MPI_WINDOWS="0")
        self.assertEqual(self.mappings(output), {("0", "0")})
        code, output = self.mpirun(2, self.program, "window", KOLO_MPI_WINDOWS="yes")
        self.assertNotEqual(code, 0, output)
        self.assertIn("KOLO_MPI_WINDOWS='yes' is neither 0 nor 1", output)

    def test_an_allocation_takes_at_most_twice_the_time_of_mpi(self):
        times = re.findall(r"(\d+) bytes: (\d+) ns, MPI (\d+) ns", self.succeeds(2, "speed"))
        self.assertEqual(len(times), 8)
        for sizeBytes, ours, theirs in times:
            print(f"{self.id()}: {sizeBytes} bytes: {ours} ns, MPI {theirs} ns")
            self.assertLessEqual(int(ours), 2 * int(theirs), sizeBytes)

    def test_where_no_piece_can_be_made_it_is_mpis(self):
        limited = ["sh", "-c", f'ulimit -f 20000; exec env LD_PRELOAD={DOOR} "$0" "$@"']  # 10 MB, a fatal signal beyond it
        code, output = self.mpirun(2, *limited, self.program, "stamps", door=None)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("stamps in memory of MPI"), 2, output)
        code, output = self.mpirun(2, *limited, self.program, "window", door=None)
        self.assertEqual(code, 0, output)

    def test_where_no_descriptor_is_left_calls_are_forwarded(self):
        for ranks in (2, 4)[:most]:
            output = self.expectCarried(20, ranks, self.program, "limits")
            self.assertRegex(output, r"[1-9]\d* no memory or descriptors for Kolo")
            self.assertRegex(output, "MPI_Allreduce on a communicator .* are forwarded: .*Too many open files")

    def test_where_plugins_cannot_be_opened_calls_are_forwarded(self):
        for case, rank in (("unopened", 1), ("unopened-on-all", 0)):
            output = self.expectCarried(0, 2, self.program, case)
            self.assertRegex(output, r"[1-9]\d* no memory or descriptors for Kolo")
            told = re.findall(r"of 2 ranks are forwarded: rank (\d) has no plugins: .*Too many open files", output)
            self.assertEqual(told, [str(rank)], output)
        for number in range(1, 8):  # enough for the first steps alone
            output = self.expectCarried(0, 2, self.program, "unopened-on-all", FREE_DESCRIPTORS=str(number))
            self.assertRegex(output, "forwarded: .*Too many open files" if number < 3 else "kolo mpi: ")

    def test_communicators_share_descriptors(self):
        for ranks in (2, 4)[:most]:
            output = self.expectCarried(1200, ranks, self.program, "many")
            more = re.findall(r"(-?\d+) descriptors more for 149", output)
            self.assertEqual(len(more), ranks, output)
            self.assertLessEqual(max(map(int, more)), 4, output)

    def test_communicators_that_would_keep_more_than_the_bound_are_forwarded(self):
        for ranks in (2, 4)[:most]:
            code, output = self.mpirun(ranks, self.program, "many", KOLO_MEMORY_MIB="1", KOLO_DEBUG="info")
            self.assertEqual(code, 0, output)
            self.assertRegex(output, r"[1-9]\d* no memory or descriptors for Kolo")
            self.assertRegex(output, r"are forwarded: \d+ communicators of this rank keep \d+ KiB .*KOLO_MEMORY_MIB")

    def test_communicators_hold_a_bounded_amount_together(self):
        for ranks in (2, 4)[:most]:
            output = self.expectCarried(64 * 4 * 9 - 64 * 3, ranks, self.program, "bounded")
            more = re.findall(r"(-?\d+) KiB more for 63", output)
            self.assertEqual(len(more), ranks, output)
            print(f"{self.id()}: {max(map(int, more))} KiB on {ranks} ranks")
            self.assertLessEqual(max(map(int, more)), ranks * 16 * 1024, output)  # with what peers share


if __name__ == "__main__":
    unittest.main(verbosity=2)
