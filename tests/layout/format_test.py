"""Every C and C++ file is as clang-format 22 would write it, and every header is guarded by #pragma once alone."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
SKIPPED = 77  # what ctest counts as skipped
GUARD = re.compile(r"^\s*#\s*ifndef\s+(\w+)\s*\n\s*#\s*define\s+\1\s*$", re.M)


def files(*suffixes):
    """Of the project: not what is built, nor what is hidden."""
    for path in sorted(SOURCE.rglob("*")):
        parts = path.relative_to(SOURCE).parts
        if path.suffix in suffixes and parts[0] != "build" and not any(part.startswith(".") for part in parts):
            yield path


class Format(unittest.TestCase):
    def test_every_file_is_formatted(self):
        done = subprocess.run(["clang-format-22", "--dry-run", "-Werror", *files(".h", ".cpp", ".c", ".js")], text=True,
                              capture_output=True, check=False)
        wrong = sorted(set(re.findall(r"^(.*?):\d+:\d+: error", done.stderr, re.M)))
        self.assertEqual((done.returncode, wrong), (0, []), "clang-format-22 -i mends them\n" + done.stderr[:2000])


class Guards(unittest.TestCase):
    def test_every_header_says_pragma_once_and_nothing_else_guards_it(self):
        headers = {path: path.read_text() for path in files(".h")}
        self.assertGreater(len(headers), 100)
        wrong = [str(path.relative_to(SOURCE)) for path, text in headers.items()
                 if text.splitlines().count("#pragma once") != 1 or GUARD.search(text)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    if sys.argv[1:] == ["Format"] and not shutil.which("clang-format-22"):
        print("skipped: clang-format-22 is not installed")
        sys.exit(SKIPPED)
    sys.exit(unittest.main(verbosity=2))
