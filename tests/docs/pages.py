"""The pages of the documentation, and their parts: prose, listings, commands with what they print."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])

# Folders with a README.
FOLDERS = ["algorithms", "bench", "bench/results", "codec", "compiler", "compiler/check", "compiler/check/sizes", "compiler/cost",
           "compiler/export", "compiler/import", "compiler/model", "dsl", "examples/channel", "examples/collective", "examples/experts", "examples/feedback", "examples/step", "examples/tokens", "ir", "machines", "runtime",
           "runtime/network", "runtime/network/fabric", "targets", "tests/gpu", "tests/mutation", "tests/proof", "tests/ptx",
           "tests/runtime/device/standin", "tools", "tools/explore"]
FOLDERS += [door for door in ["runtime/doors/mpi", "runtime/doors/nccl", "runtime/doors/torch"] if (SOURCE / door).exists()]  # may be left out

ALL = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (SOURCE / "docs").glob("*.md")),
       *(f"{folder}/README.md" for folder in FOLDERS)]

# Pages that follow the rule for prose in docs/words.md: see prose_test.py.
PROSE = ALL

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)


def text(page):
    return (SOURCE / page).read_text()


def blocks(page):
    """The fenced blocks of a page, in order, as (language, text)."""
    return FENCE.findall(text(page))


def fileName(listing):
    """The file that a listing is, if its first line says so: `// ring.cpp: ...`."""
    named = re.match(r"// (\w+\.cpp): ", listing)
    return named and named[1]


def steps(block):
    """The commands of a block, each with the lines that it prints; none if the block shows no command."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def sentences(markdown):
    """The sentences of running text. Tables, code and headings have none; what is in backquotes is one word."""
    prose = FENCE.sub("\n", markdown)
    prose = re.sub(r"^(\|.*|#.*|<.*>|!\[.*|    .*)$", "", prose, flags=re.M)
    prose = re.sub(r"`[^`]+`", "code", prose)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose):
        paragraph = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", paragraph)
        yield from filter(None, re.split(r"(?<=[.!?])[)*\]]*\s+", " ".join(paragraph.split())))
