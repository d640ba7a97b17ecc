"""The picture in the tree is what docs/make_picture.py makes of docs/pipeline.txt."""

import subprocess
import sys
import unittest
import xml.etree.ElementTree

import pages

DOCS = pages.SOURCE / "docs"


class Picture(unittest.TestCase):
    def test_it_is_what_the_script_makes(self):
        made = subprocess.run([sys.executable, DOCS / "make_picture.py", DOCS / "pipeline.txt"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        self.assertEqual(made, (DOCS / "pipeline.svg").read_text(),
                         "run docs/make_picture.py docs/pipeline.txt > docs/pipeline.svg")
        xml.etree.ElementTree.fromstring(made)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
