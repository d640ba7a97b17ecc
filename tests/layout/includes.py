"""Which file includes which: names resolved as the compiler would, relative ones too."""

import os
import re

SUFFIXES = (".h", ".cpp", ".c", ".td")
# Folders that names may begin from: the project's own, those of public headers, and what targets add.
ROOTS = ("", "dsl/include", "runtime/include", "runtime")
INCLUDE = re.compile(r'^[ \t]*#?[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)


def read_tree(source, folders):
    """The text of each source file of these folders, by its path in the project."""
    return {str(path.relative_to(source)): path.read_text() for folder in folders for path in sorted((source / folder).rglob("*"))
            if path.suffix in SUFFIXES}


def resolve(path, name, tree):
    """The file of the project that a file's include means; None: it is not of the project."""
    for folder in (os.path.dirname(path), *ROOTS):
        found = os.path.normpath(os.path.join(folder, name))
        if found in tree:
            return found
    return None


def includes(path, tree):
    """What a file includes: paths of the project, and other names as they are."""
    return [resolve(path, name, tree) or name for name in INCLUDE.findall(tree[path])]


def pairs(tree):
    """Folder to folder, with the number of includes; a folder's includes of its own files aside."""
    counts = {}
    for path in tree:
        for name in includes(path, tree):
            ends = os.path.dirname(path), os.path.dirname(name)
            if name in tree and ends[0] != ends[1]:
                counts[ends] = counts.get(ends, 0) + 1
    return counts


def mutual(counts):
    """Pairs of folders that include each other, each once."""
    return sorted((a, b) for a, b in counts if a < b and (b, a) in counts)
