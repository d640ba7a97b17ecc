#!/usr/bin/env python3
"""usage: print_times.py BUILD_FOLDER...

Prints how long the tests of each label took in the last run in each build folder: a table per folder, from what
`ctest --output-junit FOLDER/tests.xml` wrote. A test that is a group of cases of GoogleTest or unittest counts all of them;
skipped cases are counted by themselves. Seconds are summed over tests, of which several run at the same time.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree


def labels_by_test(folder):
    """The first label of every test: its folder in tests/."""
    command = ["ctest", "--test-dir", folder, "--show-only=json-v1"]
    tests = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tests"]
    return {test["name"]: entry["value"][0] for test in tests for entry in test.get("properties", [])
            if entry["name"] == "LABELS"}


def cases_of(test):
    """How many cases of a test ran or were skipped, and how many were skipped."""
    output = test.findtext("system-out") or ""
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", output, re.M)
    skipped = re.search(r"^\[  SKIPPED \] (\d+) tests?", output, re.M)
    ran = ran or re.search(r"^Ran (\d+) tests? in ", output, re.M)
    skipped = skipped or re.search(r"^OK \(.*?skipped=(\d+)", output, re.M)
    if ran:
        return int(ran.group(1)), int(skipped.group(1)) if skipped else 0
    return 1, int(test.get("status") == "notrun")


def print_table(folder):
    labels = labels_by_test(folder)
    rows = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    for test in xml.etree.ElementTree.parse(folder / "tests.xml").getroot().iter("testcase"):
        cases, skipped = cases_of(test)
        row = rows[labels.get(test.get("name"), "(none)")]
        for column, value in enumerate((cases, skipped, test.get("status") == "fail", float(test.get("time")))):
            row[column] += value
    print(f"\n{folder.name:<16} {'cases':>8} {'skipped':>8} {'failed tests':>13} {'seconds':>9}")
    total = [sum(column) for column in zip(*rows.values())] or [0, 0, 0, 0.0]
    for label, row in [*sorted(rows.items(), key=lambda entry: entry[1][3]), ("all", total)]:
        print(f"{label:<16} {row[0]:>8} {row[1]:>8} {row[2]:>13} {row[3]:>9.1f}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for folder in map(pathlib.Path, sys.argv[1:]):
        if (folder / "tests.xml").exists():
            print_table(folder)


if __name__ == "__main__":
    main()
