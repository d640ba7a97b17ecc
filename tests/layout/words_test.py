"""One word per idea: no file of the project uses a word that another one has replaced."""

import dataclasses
import fnmatch
import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
SUFFIXES = {".h", ".cpp", ".c", ".td", ".md", ".py", ".txt", ".cmake", ".mlir", ".in", ""}
# What other programs wrote, and this test.
LEFT_OUT = ("build/*", "LICENSE", "tests/layout/words_test.py")


@dataclasses.dataclass
class Retired:
    words: str                   # regular expression; a space matches any white space, with the marks of a comment
    instead: str
    legitimate: tuple = ()       # patterns of files where it means something else


RETIRED = [
    Retired(r"(around|past) the caches?\b|aroundCaches?|pastCaches?", "non-temporal"),
    Retired(r"--protocol[ =](slots|packets|lines)\b|\"--protocol\", \"(slots|packets|lines)\"", "published, ll, ll128",
            ("bench/compile/compare_code",)),  # which builds from before the renaming must understand
    Retired(r"\bWorld\b", "Peers, SimulatedCall, ForkedRanks or Launch"),
    Retired(r"\bworlds\b", "calls, or groups of ranks"),
    Retired(r"\b(Channel)?Machine\b(?!:)", "VectorClockRun or ChannelInterpreter",
            # hardware
            ("bench/*", "docs/*", "compiler/cost/*", "machines/*", "tests/cost/*",
             "tests/explore/*", "tests/report/*", "tools/*")),
    Retired(r"[Ee]xchange slots?\b", "announcement"),
    Retired(r"\b(class|struct) Place\b|`Place`", "SourceLine or RankEnvironment",
            ("tests/compiler/SlotTest.cpp", "tests/runtime/StagingTest.cpp")),  # in a buffer; in memory
    Retired(r"[Ee]valuator slots?\b|slots? of the (index )?evaluator", "register"),
    Retired(r"slots? for (published inputs?|what is published|the exchange)", "published inputs, announcement"),
    Retired(r"sends? packets in lines|\bpackets in lines\b|\w*In(Lines|Words)\b", "LL128, LL"),
]


def files():
    for path in sorted(SOURCE.rglob("*")):
        name = str(path.relative_to(SOURCE))
        isHidden = any(part.startswith(".") for part in path.relative_to(SOURCE).parts)
        if path.is_file() and path.suffix in SUFFIXES and not isHidden and not matches(name, LEFT_OUT):
            yield name, path


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def hits(retired, name, text):
    """Lines that use the words, which may lie on two of them."""
    if matches(name, retired.legitimate):
        return []
    found = re.finditer(retired.words.replace(" ", r"\s+(?:(?:///?|#|\*)\s+)?"), text)
    return [f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: '{' '.join(hit.group().split())}': say {retired.instead}"
            for hit in found]


class Words(unittest.TestCase):
    def test_no_file_uses_a_retired_word(self):
        texts = [(name, path.read_text()) for name, path in files()]
        self.assertGreater(len(texts), 500)
        found = [hit for name, text in texts for retired in RETIRED for hit in hits(retired, name, text)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_retired_word_is_found(self):
        used = ["stores past\n// the cache", "`kolo compile --protocol slots`", "a World&", "two worlds", "class ChannelMachine",
                "an exchange\n    /// slot", "struct Place {", "the slot of the evaluator", "slots for published inputs",
                "sends packets in lines"]
        for retired, text in zip(RETIRED, used, strict=True):
            self.assertEqual(len(hits(retired, "some/file.cpp", text)), 1, text)

    def test_every_file_where_a_word_is_legitimate_exists(self):
        names = [name for name, _ in files()]
        for retired in RETIRED:
            for pattern in retired.legitimate:
                self.assertTrue(pattern == "docs/*" or any(matches(name, (pattern,)) for name in names), pattern)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
