"""The choreographies that the documentation shows compile, run and give the right result."""

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


if __name__ == "__main__":
    sys.exit(unittest.main())
