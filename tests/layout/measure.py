#!/usr/bin/env python3
"""usage: measure.py [REVISION]

Prints what the structure of the tree is: lines of product code by folder, folders that include each other, names that several
files give to classes, and the widest classes. With a revision of git: of that one too, beside it. Product code is C, C++, TableGen, Python and JavaScript; tests, benchmarks,
documentation and examples are none.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

import classes
import includes

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("algorithms", "codec", "compiler", "dsl", "ir", "runtime", "targets", "tools")
CODE = {*includes.SUFFIXES, ".py", ".js"}


class Measures:
    def __init__(self, source):
        self.lines = collections.Counter()
        for folder in PRODUCT:
            for path in (source / folder).rglob("*"):
                if path.is_file() and path.suffix in CODE:
                    self.lines[folder] += len(path.read_text().splitlines())
        self.lines["all"] = self.lines.total()
        tree = includes.read_tree(source, (*PRODUCT, "bench"))
        self.mutual = includes.mutual(includes.pairs(tree))
        found = [each for path, text in tree.items() if path.endswith((".h", ".cpp")) for each in classes.classes_of(text)]
        self.widths = {each.name: (each.methods, each.fields) for each in found if not each.name.startswith("Kolo")}
        self.shared = len(classes.shared_names(tree))

    def widest(self):
        return [name for name, width in sorted(self.widths.items(), key=lambda entry: (-entry[1][0], entry[0]))
                if width[0] > 30 or width[1] > 15]


def at(revision, folder):
    """The tree of a revision, in a folder."""
    archive = subprocess.run(["git", "-C", SOURCE, "archive", revision], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return Measures(pathlib.Path(folder))


def table(title, rows, columns):
    print(f"\n{title:<44}" + "".join(f"{name:>14}" for name in columns))
    for name, *values in rows:
        print(f"{name:<44}" + "".join(f"{value:>14}" for value in values))


def main():
    if len(sys.argv) > 2 or any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        trees = {revision: at(revision, folder) for revision in sys.argv[1:]}
    trees["now"] = Measures(SOURCE)
    each = list(trees.values())
    table("lines of product code", [(name, *(tree.lines[name] for tree in each)) for name in (*PRODUCT, "all")], trees)
    pairs = sorted({pair for tree in each for pair in tree.mutual})
    table("folders that include each other", [(" <-> ".join(pair), *("yes" if pair in tree.mutual else "" for tree in each))
                                               for pair in pairs], trees)
    print(f"{'number':<44}" + "".join(f"{len(tree.mutual):>14}" for tree in each))
    print(f"\n{'names of classes that several files define':<44}" + "".join(f"{tree.shared:>14}" for tree in each))
    names = dict.fromkeys(name for tree in each for name in tree.widest())
    table("classes above 30 methods or 15 fields", [(name, *("{}, {}".format(*tree.widths[name]) if name in tree.widths else ""
                                                             for tree in each)) for name in names], trees)


if __name__ == "__main__":
    main()
