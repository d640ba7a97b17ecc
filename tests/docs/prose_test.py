"""Pages can be read: sentences are short, and the glossary is near."""

import re
import sys
import unittest

import pages

MOST_WORDS = 30
PATH = re.compile(r"`((?:algorithms|bench|compiler|docs|dsl|examples|ir|runtime|targets|tests)/[\w./-]*)`")
# What the reader is to write.
PLACEHOLDER = re.compile(r"/(My|Place)\w+\.cpp|/place-things\.mlir|/[Xx](\.|$)")


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
