"""Public files of others, which are not part of Kolo. KOLO_FOREIGN_FILES names folders, with colons between them; without it
the test is skipped. Every file is read or refused with a reason, and Kolo and the replay agree about all that are read."""
import os
import pathlib
import sys
import unittest

import plan_replay
import replay
import support

FOLDERS = [pathlib.Path(folder) for folder in os.environ.get("KOLO_FOREIGN_FILES", "").split(":") if folder]


def isSchedule(path):
    start = path.read_text(errors="replace")
    return "<algo" in start if path.suffix == ".xml" else '"gpus"' in start


class PublicFiles(unittest.TestCase):
    def test_each_is_read_or_refused_with_a_reason(self):
        paths = sorted(path for folder in FOLDERS for suffix in ("xml", "json") for path in folder.rglob(f"*.{suffix}")
                       if isSchedule(path))
        self.assertTrue(paths, f"there is no schedule in {FOLDERS}")
        counts, wrong = {"right": 0, "refuted": 0, "refused": 0}, []
        for path, answer in zip(paths, support.answers([str(path) for path in paths])):
            kind = answer if answer == "right" else "refused" if answer.startswith("refused") else "refuted"
            counts[kind] += 1
            if kind != "right":
                print(f"{path.name}: {answer}")
            if kind != "refused":
                mistake = (replay if path.suffix == ".xml" else plan_replay).mistake(path.read_text(), seeds=1)
                if (mistake is None) != (kind == "right"):
                    wrong.append(f"{path.name}: Kolo says {answer}; the replay: {mistake}")
        print(f"{len(paths)} files: {counts}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    if not FOLDERS:
        print("skipped: KOLO_FOREIGN_FILES names no folder")
        sys.exit(77)
    unittest.main()
