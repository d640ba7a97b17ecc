"""Pages can be read: sentences are short, and the glossary is near."""

import re
import sys
import unittest

import pages

MOST_WORDS = 30
# Sentences of comments that are longer. This number only shrinks.
LONG_IN_COMMENTS = 89
CODE = ("algorithms", "bench", "codec", "compiler", "dsl", "ir", "runtime", "targets", "tests", "tools")
PATH = re.compile(r"`((?:algorithms|bench|codec|compiler|docs|dsl|examples|ir|machines|runtime|targets|tests|tools)/[\w./-]*)`")
# What the reader is to write.
PLACEHOLDER = re.compile(r"/(My|Place|X)\w+\.cpp|/place-things\.mlir|/[Xx](\.|$)")


COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//([^\n]*)|/\*(.*?)\*/', re.S)


def comments(code):
    """The text of comments, a paragraph for each run of lines that begin at one column. Indented lines show code."""
    text, end, before = [], 0, None
    for found in COMMENT.finditer(code):
        line, block = found.groups()
        if line is None and block is None:
            continue
        column = found.start() - code.rfind("\n", 0, found.start())
        between = code[end:found.start()]
        isNext = line is not None and column == before and between.isspace() and between.count("\n") == 1
        said = re.sub(r"^/?<? ?", "", line) if line is not None else re.sub(r"\n\s*\* ?", "\n", block).strip()
        text.append(("\n" if isNext else "\n\n") + ("" if said.startswith("  ") else said))
        end, before = found.end(), column
    return "".join(text)


class Prose(unittest.TestCase):
    def test_no_sentence_is_too_long(self):
        long = [f"{page}: {len(sentence.split())} words: {sentence}" for page in pages.PROSE
                for sentence in pages.sentences(pages.text(page)) if len(sentence.split()) > MOST_WORDS]
        self.assertEqual(long, [])

    def test_what_counts_as_a_sentence(self):
        page = ("# A heading without an end\n\nOne two\n[three](four.md). `five six`, seven?\n"
                "- eight\n- nine\n  ten\n\n"
                "| a | table |\n\n```\ncode\n```\n\nIn a.b 1.5 (eleven.) Twelve.\n")
        self.assertEqual([len(sentence.split()) for sentence in pages.sentences(page)], [3, 2, 1, 2, 4, 1])

    def test_comments_have_few_long_sentences_and_never_more(self):
        long = [f"{path.relative_to(pages.SOURCE)}: {len(sentence.split())} words: {sentence}" for folder in CODE
                for path in sorted((pages.SOURCE / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".c")
                for sentence in pages.sentences(comments(path.read_text())) if len(sentence.split()) > MOST_WORDS]
        self.assertLessEqual(len(long), LONG_IN_COMMENTS, "\n" + "\n".join(long))
        self.assertGreaterEqual(len(long), LONG_IN_COMMENTS - 5, f"LONG_IN_COMMENTS is {len(long)} now")

    def test_what_counts_as_a_comment(self):
        code = ("// One. Two\n// three.\n\nint a; // four\nint c; // 4\n       // and a half\n/// Five.\n/* six\n * seven */\n"
                'const char *b = "https://eight"; // nine\n//   Before: code\n// - ten\n')
        self.assertEqual(list(pages.sentences(comments(code))),
                         ["One.", "Two three.", "four", "4 and a half", "Five.", "six seven", "nine", "ten"])

    def test_every_path_exists(self):
        paths = {(page, path) for page in pages.PROSE for path in PATH.findall(pages.text(page))
                 if not PLACEHOLDER.search(path)}
        self.assertGreater(len(paths), 50)
        missing = [f"{page}: {path}" for page, path in sorted(paths)
                   if not (pages.SOURCE / path).exists() and not list(pages.SOURCE.glob(path + ".*"))]
        self.assertEqual(missing, [])

    def test_every_folder_leads_to_the_glossary(self):
        for folder in pages.FOLDERS:
            up = "../" * (folder.count("/") + 1)
            self.assertIn(f"]({up}docs/words.md)", pages.text(f"{folder}/README.md"), folder)

    def test_every_page_is_in_the_list(self):
        folders = [path for path in pages.SOURCE.iterdir() if path.is_dir() and path.name not in ("build", ".git")]
        found = {str(path.relative_to(pages.SOURCE)) for folder in folders for path in folder.rglob("*.md")}
        self.assertEqual({page for page in found if not page.startswith("bench/results/")} - set(pages.ALL), set())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
