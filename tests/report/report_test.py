"""The page of --html: what is in it, and how a browser shows it, in two sizes, light and dark, with the network off."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import browser
import samples

MAKE_REPORT = os.environ["MAKE_REPORT"]
SOURCE = os.environ["KOLO_SOURCE_DIR"]
PARTS = os.path.join(os.path.dirname(MAKE_REPORT), "../share/kolo/report")
SKIPPED = 77  # what ctest counts as skipped
SCREENS = [(width, height, scheme) for width, height in ((1280, 800), (390, 844)) for scheme in ("light", "dark")]
PAGES = {"cost": samples.cost_page(), "simulate": samples.simulate_page(), "explore": samples.explore_page()}


def make(page):
    return subprocess.run([MAKE_REPORT], input=json.dumps(page), text=True, capture_output=True, check=False)


def data_of(html):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)[1])


def run_kolo(*arguments):
    """From the source folder, from where the shipped algorithms are named."""
    return subprocess.run([os.environ["KOLO"], *arguments], text=True, capture_output=True, check=True, cwd=SOURCE)


class Page(unittest.TestCase):
    def test_a_command_refuses_before_it_costs_anything(self):
        for path, problem in (("-", "it is not a regular file"), ("/nonexistent/x.html", "No such file or directory")):
            for command in (["cost", "ringAllGather", "--mesh", "rank=8"], ["simulate", "ringAllGather", "--mesh", "rank=8"], ["explore", "all_gather"]):
                with self.assertRaises(subprocess.CalledProcessError) as refused:
                    run_kolo(*command, "--machine", "frontier", "--html", path)
                self.assertEqual((refused.exception.returncode, refused.exception.stdout, refused.exception.stderr),
                                 (2, "", f"kolo: --html: cannot write {path}: {problem}\n"))

    def test_data_comes_back_as_it_was_whatever_the_names_are(self):
        for page in PAGES.values():
            done = make(page)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(data_of(done.stdout), {"timelines": [], "sources": {}, **page})
            script = done.stdout.split('type="application/json">')[1].split("</script>")[0]
            self.assertNotRegex(script, "[<\u2028\u2029]")
            self.assertEqual(done.stdout.count("<script"), 3 + done.stdout.count("<script>hostile"))

    def test_nothing_is_loaded_and_the_licence_of_d3_is_there(self):
        html = make(PAGES["explore"]).stdout
        self.assertNotRegex(html, r"""(?i)(src|href|action|data)\s*=\s*["']?\s*(https?:)?//|@import|url\(\s*["']?(https?:)?//""")
        self.assertIn("default-src 'none'", html)
        self.assertIn("Redistribution and use in source and binary forms", html)
        self.assertRegex(html, r"// https://d3js\.org v5\.[\d.]+ Copyright \d+ Mike Bostock")
        self.assertNotIn("{{", html.split('<script id="data"')[0])

    def test_a_machine_is_drawn_as_its_file_describes_it(self):
        graph = data_of(make({**PAGES["cost"], "machine": "frontier"}).stdout)["machine"]
        for name in ("vertices", "links"):
            self.assertEqual(sorted(map(str, graph[name])), sorted(map(str, samples.MACHINE[name])))

    def test_a_schedule_without_a_source_shows_the_files_of_its_statements(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("A.cpp", b"// a\n"), ("B.h", b"// latin \xe9\n")):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(text)
            page = samples.simulate_page()
            for schedule in page["cost"]["schedules"]:
                del schedule["source"]
                for statement, name in zip(schedule["sizes"][0]["statements"], ("A.cpp", "B.h", "absent.h")):
                    statement["file"] = os.path.join(folder, name)
            self.assertEqual(data_of(make(page).stdout)["sources"],
                             {folder + "/A.cpp": "// a\n", folder + "/B.h": "// latin \ufffd\n"})

    def test_a_shipped_algorithm_is_shown_wherever_the_command_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ["KOLO"], "cost", "railAllGather", "--machine", "frontier", "--mesh", "node=2,gpu=8", "--placement",
                            "order=node,gpu devices=1,0,2,3,4,5,6,7", "--html", "x.html"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
            with open(folder + "/x.html", encoding="utf-8") as file:
                data = data_of(file.read())
        self.assertIn("KOLO_COLLECTIVE(railAllGather", data["sources"]["algorithms/RailAllGather.cpp"])
        self.assertIn("ringAllGather(c, node", data["cost"]["schedules"][0]["sizes"][0]["statements"][2]["text"])
        self.assertEqual(data["command"], "kolo cost railAllGather --machine frontier --mesh node=2,gpu=8 --placement "
                                          "'order=node,gpu devices=1,0,2,3,4,5,6,7' --html x.html")

    def test_nothing_to_show(self):
        done = make({**PAGES["cost"], "cost": samples.cost([])})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "--html: there is no schedule to show\n"))

    def test_without_d3(self):
        """The program lies where no parts of the page are; then where all but D3 are."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/bin")
            program = shutil.copy(MAKE_REPORT, folder + "/bin/make")
            self.assertRegex(self.refusal(program), r"\A--html: the page is not installed: cannot read .*/kolo/report/report\.html\n\Z")
            shutil.copytree(PARTS, folder + "/share/kolo/report", ignore=shutil.ignore_patterns("d3.min.js"))
            self.assertRegex(self.refusal(program), r"\A--html: .*D3.*node-d3.*\n\Z")

    def refusal(self, program):
        done = subprocess.run([program], input=json.dumps(PAGES["cost"]), text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr


COUNTS = """(() => {
  const count = (selector) => document.querySelectorAll(selector).length;
  const shown = (id) => !document.getElementById(id).closest("[hidden]");
  return {
    lines: count("#time g.series"), bound: count("#time .bound"), fractions: count("#fraction g.series"), bars: count("#time .bar"),
    sizes: count("#best tbody tr"), statements: count("#statements tbody tr"), source: shown("source") ? count("#source li") : 0,
    spent: count("#source li.spent"), vertices: count("#node .vertex"), links: count("#node .link"), loads: count("#links tbody tr"),
    cells: count("#traffic .cell"), ranks: shown("timeline") ? new Set([...document.querySelectorAll("#timeline .span")]
      .map((span) => span.__data__.rank)).size : 0,
  };
})()"""
EXPECTED = {
    "cost": {"lines": 2, "bound": 1, "fractions": 2, "bars": 0, "sizes": 11, "statements": 3, "source": 13, "spent": 3,
             "vertices": 12, "links": 40, "loads": 36, "cells": 64, "ranks": 0},
    "simulate": {"lines": 0, "bound": 1, "fractions": 0, "bars": 2, "sizes": 1, "statements": 3, "source": 13, "spent": 3,
                 "vertices": 12, "links": 40, "loads": 36, "cells": 64, "ranks": 32},
    "explore": {"lines": 20, "bound": 1, "fractions": 20, "bars": 0, "sizes": 11, "statements": 3, "source": 13, "spent": 3,
                "vertices": 12, "links": 40, "loads": 36, "cells": 64, "ranks": 0},
}
# Text and lines against what is behind them: at least 4.5 and 3, as the guidelines for accessible pages ask.
CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const valueOf = (color) => (color.startsWith("--") ? getComputedStyle(document.documentElement).getPropertyValue(color).trim() : color);
  const contrast = (a, b) => {
    const [low, high] = [luminance(valueOf(a)), luminance(valueOf(b))].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const lines = [1, 2, 3, 4, 5, 6, 7, 8].map((style) => contrast(`--series-${style}`, "--page"));
  const texts = [["--text", "--page"], ["--muted", "--page"], ["--muted", "--panel"], ["--text", "--highlight"],
    ["--on-high", "--load-high"], ["--on-low", "--load-low"]].map(([a, b]) => contrast(a, b));
  const cells = new Map([...document.querySelectorAll("#traffic .cell")].map((cell) => [JSON.stringify(cell.__data__), cell]));
  const filled = [...document.querySelectorAll("#traffic .cell-text")].map((text) =>
    contrast(getComputedStyle(text).fill, getComputedStyle(cells.get(JSON.stringify(text.__data__))).fill));
  return { lines: Math.min(...lines), texts: Math.min(...texts, ...filled) };
})()"""


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        for name, page in PAGES.items():
            with open(cls.path(name), "w", encoding="utf-8") as file:
                file.write(make(page).stdout)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name + ".html")

    def test_every_page_on_every_screen(self):
        for name in PAGES:
            for width, height, scheme in SCREENS:
                with self.subTest(page=name, width=width, scheme=scheme):
                    self.browser.open(self.path(name), width, height, scheme)
                    self.assertEqual(self.browser.run(COUNTS), EXPECTED[name])
                    self.assertEqual(self.browser.problems(), [])
                    self.assertEqual(self.browser.requests(), ["file://" + self.path(name)])
                    self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.browser.run("""[...document.querySelectorAll(".chart svg")].filter((svg) =>
                        svg.getBoundingClientRect().right > innerWidth || /NaN|undefined|Infinity/.test(svg.outerHTML)).length"""), 0)
                    self.assertNotRegex(self.browser.run("document.body.innerText"), "NaN|undefined|Infinity|null")
                    contrast = self.browser.run(CONTRAST)
                    self.assertGreaterEqual(contrast["texts"], 4.5)
                    self.assertGreaterEqual(contrast["lines"], 3)

    def test_the_commands_write_pages(self):
        """cost and simulate: two programs, simulated ones with timelines; explore: schedules beside their sources."""
        arguments = {"cost": ["ringAllGather", "allPairsAllGather", "--mesh", "rank=8", "--bytes", "64K,1M"],
                     "simulate": ["ringAllGather", "allPairsAllGather", "--mesh", "rank=8", "--bytes", "64K,1M"],
                     "explore": ["all_gather", "--structures", "4", "--bytes", "1K,1M"]}
        for command, flags in arguments.items():
            run_kolo(command, *flags, "--machine", "frontier", "--html", self.path("by-" + command))
            for width, height, scheme in SCREENS:
                with self.subTest(command=command, width=width, scheme=scheme):
                    self.browser.open(self.path("by-" + command), width, height, scheme)
                    counts = self.browser.run(COUNTS)
                    self.assertEqual((counts["sizes"], counts["vertices"], counts["links"]), (2, 12, 40))
                    self.assertEqual((counts["cells"], counts["ranks"]), (64, 8 if command == "simulate" else 0))
                    made = self.browser.run("document.querySelector('#footer code').textContent")
                    self.assertTrue(made.startswith(f"kolo {command} {flags[0]} ") and made.endswith(f"--html {self.path('by-' + command)}"), made)
                    self.assertGreater(min(counts[name] for name in ("lines", "statements", "source", "spent", "loads")), 0)
                    self.assertEqual(self.browser.problems(), [])
                    self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                    self.assertNotRegex(self.browser.run("document.body.innerText"), "NaN|undefined|Infinity|null")

    def test_the_title_says_what_was_found(self):
        self.browser.open(self.path("cost"), 1280, 800, "light")
        self.assertEqual(self.browser.run("document.querySelector('h1').textContent"),
                         "All-gather on frontier: 120 GB/s for 1 GiB, 92.4 % of the lower bound")
        self.assertEqual(self.browser.run("document.querySelector('#subtitle').textContent"),
                         "Best schedule: rail\u200bAll\u200bGather, pipeline\u00a04")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#statements tbody td:first-child')].map((td) => td.textContent)"),
                         ["line 10", "line 11", "line 12"])
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#figures dd:nth-of-type(1)')].map((dd) => dd.textContent)"),
                         ["8.96 ms", "120 GB/s", "92.4 %", "hsn0\u00a0→ network"])

    def test_numbers_have_units_of_people(self):
        self.browser.open(self.path("cost"), 1280, 800, "light")
        for expression, text in (("timeText(9.1e-3)", "9.1 ms"), ("timeText(0.9996e-3)", "1 ms"), ("timeText(12345e-9)", "12.3 µs"),
                                 ("timeText(0)", "0"), ("bytesText(1536)", "1.5 KiB"), ("bytesText(1 << 30)", "1 GiB"),
                                 ("bandwidthText(333.3e9)", "333 GB/s"), ("percentText(0.9567)", "95.7 %")):
            self.assertEqual(self.browser.run(expression), text, expression)

    def test_an_exploration_ranks_by_itself(self):
        self.browser.open(self.path("explore"), 1280, 800, "light")
        self.assertEqual(self.browser.run("bestAt.get(lastSize).slice(0, 2).map(({ number }) => number)"), [1, 0])
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#best tr.chosen td')].map((td) => td.textContent)")[2:5],
                         ["9.1 ms", "8.28 ms", "91 %"])

    def test_keys_choose_a_size_and_schedules_can_be_hidden(self):
        self.browser.open(self.path("cost"), 1280, 800, "dark")
        self.browser.run("document.querySelector('#time svg').focus()")
        for _ in range(2):
            self.browser.press("ArrowLeft")
        self.assertEqual(self.browser.run("document.querySelector('#size').selectedOptions[0].textContent"), "64 MiB")
        self.assertEqual(self.browser.run("document.querySelector('#best tr.chosen td').textContent"), "64 MiB")
        self.assertEqual(self.browser.run("document.activeElement.closest('#time') !== null"), True)
        for left in (1, 0):
            self.browser.run(f"document.querySelectorAll('#legend button')[{left}].click()")
            self.assertEqual(self.browser.run(COUNTS)["lines"], left)
        self.assertEqual(self.browser.problems(), [])

    def test_a_schedule_without_the_chosen_size_is_shown_at_its_largest(self):
        self.browser.open(self.path("explore"), 390, 844, "light")
        missing = self.browser.run("String(schedules.findIndex(({ at }) => !at.has(lastSize)))")
        self.browser.run(f"""(() => {{ const list = document.querySelector("#schedule"); list.value = "{missing}";
            list.dispatchEvent(new Event("change")); }})()""")
        self.assertNotEqual(self.browser.run("document.querySelector('#size').selectedOptions[0].textContent"), "1 GiB")
        self.assertEqual(self.browser.run("document.querySelector('#schedule').value"), missing)
        self.assertEqual(self.browser.problems(), [])


if __name__ == "__main__":
    if sys.argv[1:] == ["Browser"] and not browser.CHROMIUM:
        print("skipped: there is no Chromium (Debian: chromium)")
        sys.exit(SKIPPED)
    if not os.path.exists(PARTS + "/d3.min.js"):
        print("skipped: Kolo was built without D3 (Debian: node-d3)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
