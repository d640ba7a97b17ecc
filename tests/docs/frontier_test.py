"""docs/frontier.md says what kolo says: its tables and pictures are made of docs/frontier/results.json, and a sample of
that, or with the argument `all` all of it, is asked for again."""

import json
import subprocess
import sys
import tempfile
import unittest

import pages

sys.path.insert(0, str(pages.SOURCE / "docs/frontier"))
import make

IS_WHOLE = sys.argv[1:] == ["all"]
HOW = "run docs/frontier/make.py measure, then docs/frontier/make.py page"
SAMPLE = [("all_gather", 1), ("all_to_all", 1)]


class Frontier(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.results = json.loads(make.RESULTS.read_text())

    def test_the_tables_are_those_of_the_results(self):
        page = make.PAGE.read_text()
        self.assertEqual(make.page_with_tables(page, self.results), page, HOW)

    def test_the_pictures_are_those_of_the_results(self):
        for path, drawing in make.pictures(self.results).items():
            self.assertEqual(path.read_text(), drawing, f"{path}: {HOW}")

    def test_kolo_says_so_today(self):
        """As far as the page shows it."""
        for known in self.results["collectives"]:
            if not IS_WHOLE and (known["collective"], known["nodes"]) not in SAMPLE:
                continue
            with self.subTest(collective=known["collective"], nodes=known["nodes"]):
                today = make.measure(known["collective"], known["nodes"], [row["bytes"] for row in known["rows"]])
                self.assertEqual(today["commands"], known["commands"])
                self.assertEqual(make.table({"collectives": [today]}, known["collective"]),
                                 make.table({"collectives": [known]}, known["collective"]), HOW)

    def test_what_others_do_is_as_kolo_says(self):
        self.assertEqual(make.ladder_table(make.measure_ladder()), make.ladder_table(self.results["ladder"]), HOW)
        counts = None if IS_WHOLE else self.results["growth"][:1]
        today = make.measure_growth([row["nodes"] for row in counts or self.results["growth"]])
        self.assertEqual(make.growth_table(today), make.growth_table(self.results["growth"][:len(today)]), HOW)

    def test_the_machine_is_as_kolo_draws_it(self):
        self.assertEqual(make.MACHINE_PICTURE.read_text(), make.machine_picture(), HOW)

    @unittest.skipUnless(IS_WHOLE, "takes minutes")
    def test_the_selection_table_compiles_for_all_targets(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([make.KOLO, "compile", "--table", make.TABLE, "--target", "cpu,hip:gfx90a", "-o", folder + "/x.so"],
                           check=True, stdout=subprocess.DEVNULL)

    def test_the_selection_table_is_made_of_the_results(self):
        self.assertEqual(make.selection_table(self.results), make.TABLE.read_text(), "run docs/frontier/make.py table")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2, argv=sys.argv[:1]))
