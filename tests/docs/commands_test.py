"""What the documentation shows is what happens: choreographies give the right result, commands print what pages show.

A page's commands run in its order, in a folder of their own that looks like the project's. A listing whose first line
names a file (`// ring.cpp: ...`) is that file from there on. Every other choreography is compiled and run by itself.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import pages

KOLO = os.environ["KOLO_BINARY"]
# The READMEs of examples are run against an installed Kolo, by tests/install.
PAGES = [page for page in pages.ALL if not page.startswith("examples/")]


def pattern(line):
    """What a line of output must match: times and bandwidths differ, and with them the width of columns."""
    escaped = re.sub(r"\d+\\\.\d+|\d+(?=\\ ms)", lambda _: r"\d[\d.]*", re.escape(line.rstrip()))
    return re.sub(r"(\\ ){2,}", r" +", escaped) + r" *\n"


def expected(shown):
    """A line `...` stands for any number of lines."""
    return r"\A" + "".join(r"(?:.*\n)*?" if line.strip() == "..." else pattern(line) for line in shown) + r"\Z"


class Workplace:
    """A folder with links to what the project has, the build aside."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        for entry in pages.SOURCE.iterdir():
            if entry.name not in ("build", ".git"):
                (self.path / entry.name).symlink_to(entry)
        self.environment = {**os.environ, "LC_ALL": "C", "PATH": f"{pathlib.Path(KOLO).parent}:{os.environ['PATH']}"}

    def run(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.path, env=self.environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout



class ShownCommands(unittest.TestCase):
    maxDiff = None

    def check(self, page):
        with tempfile.TemporaryDirectory(prefix="tests-of-docs-") as folder:
            workplace = Workplace(folder)
            for language, block in pages.blocks(page):
                if language == "cpp" and pages.fileName(block):
                    (workplace.path / pages.fileName(block)).write_text(block)
                for command, shown in pages.steps(block):
                    with self.subTest(command=command):
                        self.checkStep(workplace, command, shown)

    def checkStep(self, workplace, command, shown):
        code, printed = workplace.run(command)
        if "Kolo was built without libsodium" in printed:
            self.skipTest("Kolo was built without libsodium (Debian: libsodium-dev)")
        while shown and not shown[-1].strip():
            shown.pop()
        fails = any(word in line for line in shown for word in (": error: ", "refuted"))
        self.assertEqual(code, 1 if fails else 0, f"{command}\n{printed}")
        if shown:
            self.assertRegex(printed.rstrip() + "\n", expected(shown), command)


class ShownChoreographies(unittest.TestCase):
    def check(self, page):
        for language, block in pages.blocks(page):
            if language == "cpp" and "KOLO_COLLECTIVE" in block and not pages.fileName(block):
                with self.subTest(listing=block.splitlines()[0]):
                    self.compileAndRun(block)

    def compileAndRun(self, code):
        prologue = "" if "#include" in code else "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n"
        name, dims = re.search(r"KOLO_COLLECTIVE\((\w+), [^,]+, Mesh\(([^)]*)\)", code).groups()
        mesh = ",".join(f"{dim}=2" for dim in re.findall(r'"(\w+)"', dims))
        with tempfile.TemporaryDirectory(prefix="tests-of-docs-") as folder:
            source, plugin = pathlib.Path(folder, name + ".cpp"), pathlib.Path(folder, name + ".so")
            source.write_text(prologue + code)
            for arguments in (["compile", source, "--mesh", mesh, "-o", plugin],
                              ["run", plugin, "--mesh", mesh, "--count", "1001", "--ranks-as", "threads"]):
                subprocess.run([KOLO, *arguments], check=True, stdout=subprocess.DEVNULL)


def addTests():
    for page in PAGES:
        name = "test_" + re.sub(r"\W", "_", page.removesuffix(".md"))
        if any(pages.steps(block) for _, block in pages.blocks(page)):
            setattr(ShownCommands, name, lambda self, page=page: self.check(page))
        if any("KOLO_COLLECTIVE" in block and not pages.fileName(block) for _, block in pages.blocks(page)):
            setattr(ShownChoreographies, name, lambda self, page=page: self.check(page))


addTests()

if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
