"""What the documentation shows is what happens: choreographies compile, run and give the right result; commands print that."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
KOLO = os.environ["KOLO_BINARY"]


def listings(page):
    """The C++ listings of a page that define a choreography, with what a page may leave out."""
    for code in re.findall(r"```cpp\n(.*?)```", (SOURCE / page).read_text(), re.S):
        if "KOLO_COLLECTIVE" not in code:
            continue
        prologue = "" if "#include" in code else "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n"
        name = re.search(r"KOLO_COLLECTIVE\((\w+), \w+, Mesh\(([^)]*)\)", code)
        dims = re.findall(r'"(\w+)"', name.group(2))
        yield name.group(1), dims, prologue + code


class ShownChoreographies(unittest.TestCase):
    def check(self, page):
        found = list(listings(page))
        self.assertTrue(found, f"{page} shows no choreography")
        with tempfile.TemporaryDirectory() as folder:
            for name, dims, code in found:
                source, plugin = pathlib.Path(folder, name + ".cpp"), pathlib.Path(folder, name + ".so")
                source.write_text(code)
                mesh = ",".join(f"{dim}=2" for dim in dims)
                subprocess.run([KOLO, "compile", source, "--mesh", mesh, "-o", plugin], check=True, stdout=subprocess.DEVNULL)
                subprocess.run([KOLO, "run", plugin, "--mesh", mesh, "--count", "1001", "--ranks-as", "threads"], check=True,
                               stdout=subprocess.DEVNULL)

    def test_readme(self):
        self.check("README.md")

    def test_language_page(self):
        self.check("dsl/README.md")


def transcripts(page):
    """The commands that a page shows with what they print, as (command, text), but for those that print times."""
    for block in re.findall(r"```\n(\$ kolo .*?)```", (SOURCE / page).read_text(), re.S):
        for shown in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, text = shown.split("\n", 1)
            if command.startswith("kolo check") or ": error: " in text:
                yield command, text


class ShownCommands(unittest.TestCase):
    def test_readme(self):
        found = list(transcripts("README.md"))
        self.assertGreater(sum(command.startswith("kolo check") for command, _ in found), 1)
        self.assertGreater(len(found), 2)
        for command, text in found:
            with self.subTest(command=command):
                done = subprocess.run([KOLO, *command.split()[1:]], cwd=SOURCE, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False)
                self.assertEqual(done.stdout.strip(), text.strip())


if __name__ == "__main__":
    sys.exit(unittest.main())
