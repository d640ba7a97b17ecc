"""Predictions beside measurements of others: the errors that bench/results states hold, and its page is what the script prints."""

import csv
import glob
import os
import subprocess
import unittest

from tool import ToolTest

SOURCE = os.environ["KOLO_SOURCE_DIR"]
BESIDE = os.path.join(SOURCE, "bench", "measured", "beside")
[PAGE] = glob.glob(os.path.join(SOURCE, "bench", "results", "*-[0-9][0-9]-predictions.md"))


class Measured(ToolTest):
    def beside(self, *flags):
        return subprocess.run([BESIDE, os.environ["KOLO"], *flags], capture_output=True, text=True, timeout=600, check=False)

    def test_the_stated_errors_hold_and_the_page_is_what_is_printed(self):
        done = self.beside()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        for line in filter(None, done.stdout.splitlines()):
            self.assertIn(line, page)

    def test_other_measurements_are_not_within_the_limits(self):
        with open(os.path.join(SOURCE, "bench", "measured", "mi300x.csv"), encoding="ascii") as file:
            rows = [row for row in csv.DictReader(file) if row["bytes"] == str(1 << 20)]
        with open(self.file("slower.csv"), "w", encoding="ascii") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                writer.writerow({**row, "microseconds": 2 * float(row["microseconds"])})
        self.assertEqual(self.beside("--table", "mi300x", "--rows", self.file("slower.csv")).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
