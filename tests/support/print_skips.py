#!/usr/bin/env python3
"""usage: print_skips.py BUILD_FOLDER...

Prints what the last run of the tests in each build folder skipped, and why: a row per reason, from what
`ctest --output-junit FOLDER/tests.xml` wrote. A reason names the packages that would have helped as `(Debian: NAME...)`. Exits 1
if all packages of a reason are installed: a part of Kolo was left out although it can be built or tested here.
"""

import collections
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

PACKAGES = re.compile(r"\(Debian: ([^)]+)\)")


def reasons_of(test):
    """Why cases of a test were skipped: one entry a case. GoogleTest, unittest with a line per test, and scripts that exit 77."""
    output = test.findtext("system-out") or ""
    reasons = re.findall(r": Skipped\n(.*)", output) + [reason for _, reason in
                                                         re.findall(r"\.\.\. skipped (['\"])(.*)\1$", output, re.M)]
    if not reasons and test.get("status") == "notrun":
        said = re.findall(r"^skipped: (.*)", output, re.M | re.I) or output.strip().splitlines()[-1:]
        reasons = said[-1:] or ["no reason is given"]
    return [reason.strip() or "no reason is given" for reason in reasons]


def is_installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True, check=False)
    return done.stdout == "installed"


def are_installed(reason):
    """Whether the reason names packages, and all are there."""
    named = PACKAGES.search(reason)
    return bool(named) and all(map(is_installed, re.split(r"[ ,]+", named.group(1))))


def print_table(folder):
    """Gives the reasons that installed packages contradict."""
    counts = collections.Counter()
    for test in xml.etree.ElementTree.parse(folder / "tests.xml").getroot().iter("testcase"):
        counts.update(reasons_of(test))
    print(f"\n{folder.name:<16} {'skipped':>8}  why")
    for reason, cases in counts.most_common():
        print(f"{'':<16} {cases:>8}  {reason}")
    if not counts:
        print(f"{'':<16} {0:>8}  nothing was skipped")
    return [reason for reason in counts if are_installed(reason)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    wrong = [f"run: skipped in {folder.name}, though its packages are installed: {reason}"
             for folder in map(pathlib.Path, sys.argv[1:]) if (folder / "tests.xml").exists() for reason in print_table(folder)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
