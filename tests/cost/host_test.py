"""Predictions for this machine beside measurements: what bench/simulate/host_table prints, and when it calls them wrong."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import unittest

from tool import KOLO

PATH = os.path.join(os.environ["KOLO_SOURCE_DIR"], "bench", "simulate", "host_table")
LOADER = importlib.machinery.SourceFileLoader("host_table", PATH)
host_table = importlib.util.module_from_spec(importlib.util.spec_from_loader("host_table", LOADER))
LOADER.exec_module(host_table)


def cells(*ratios, rounds=(10, 11, 900), drift=1.0):
    """Cells whose simulation is so far off; the closed form is right."""
    return [host_table.Cell("x", 1, list(rounds), {"simulation": (10 * ratio, 10 * ratio * drift), "closed form": (10, 10)})
            for ratio in ratios]


def judged(some):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = host_table.verdict(some)
    return code, said.getvalue()


class Verdict(unittest.TestCase):
    def test_is_about_the_median_and_the_worst_of_each_model(self):
        self.assertEqual(judged(cells(1, 1.2, 0.8, 1.9))[0], 0)
        self.assertEqual(judged(cells(1, 1.3, 1.3, 1.3))[0], 1)
        self.assertEqual(judged(cells(1, 1, 1, 2.1))[0], 1)
        code, said = judged(cells(1, 1, 1, 0.4))
        self.assertEqual(code, 1)
        self.assertIn("simulation: median error 0 %, worst factor 2.50", said)
        self.assertIn("closed form: median error 0 %, worst factor 1.00", said)

    def test_leaves_out_what_is_not_steady_and_gives_up_where_much_is_not(self):
        disturbed = cells(5, rounds=(10, 20, 21)) + cells(5, drift=1.3) + cells(5, rounds=(10,))
        self.assertEqual([cell.is_steady() for cell in disturbed], [False] * 3)
        self.assertEqual(judged(disturbed + cells(*[1] * 6))[0], 0)
        code, said = judged(disturbed + cells(*[1] * 5))
        self.assertEqual(code, 77)
        self.assertIn("5 of 8 cells are steady\ntoo few", said)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "this machine has one core")
class Table(unittest.TestCase):
    def test_has_both_models_beside_the_fastest_round(self):
        sizes, algorithms = [64 << 10, 256 << 10], ["ringAllGather", "directReduce"]
        found = host_table.gather(KOLO, algorithms, sizes, 2, ("--seconds", "0.1"))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            host_table.print_table(found)
        print(said.getvalue())
        rows = [line.split(" | ") for line in said.getvalue().splitlines()[2:]]
        self.assertEqual([(row[0], int(row[1])) for row in rows],
                         [("| " + algorithm, size) for algorithm in algorithms for size in sizes])
        for cell, row in zip(found, rows, strict=True):
            self.assertEqual(row[2], f"{min(cell.rounds):.1f}")
            self.assertEqual(len(cell.rounds), 2)
            for model, column in (("simulation", 3), ("closed form", 5)):
                self.assertGreater(cell.predictions[model][0], 0)
                self.assertEqual(row[column:column + 2],
                                 [f"{cell.predictions[model][0]:.1f}", f"{cell.predictions[model][0] / cell.rounds[0]:.2f}"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
