#!/usr/bin/env python3
"""usage: list_sources.py BUILD_FOLDER FOLDER

Writes FOLDER/compile_commands.json: how each source file of the build would be compiled alone. A build that compiles several files
of a target as one has a command for all of them only, and clang-tidy looks for a command for the file that it reads.
"""

import json
import pathlib
import re
import sys

INCLUDED = re.compile(r'^#include "(.*)"$', re.M)


def sources_of(unit):
    """The files that CMake has put into a unit, or the file itself if it is no unit."""
    path = pathlib.Path(unit)
    return INCLUDED.findall(path.read_text()) if path.parent.name == "Unity" else [unit]


def entries_of(entry):
    unit = entry["file"]
    return [{**entry, "file": source, "command": entry["command"].replace(f"-c {unit}", f"-c {source}")}
            for source in sources_of(unit)]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, folder = map(pathlib.Path, sys.argv[1:])
    entries = json.loads((build / "compile_commands.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps([single for entry in entries for single in entries_of(entry)], indent=1)
    (folder / "compile_commands.json").write_text(text)


if __name__ == "__main__":
    main()
