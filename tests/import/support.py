"""Runs what the tests compare: Kolo's answers about many files at once, and the tool itself."""
import os
import subprocess

JUDGE = os.environ["JUDGE"]
KOLO = os.environ.get("KOLO")


def answers(paths):
    """A line for each file: see JudgeFiles.cpp."""
    lines = []
    for first in range(0, len(paths), 500):
        run = subprocess.run([JUDGE, *paths[first:first + 500]], capture_output=True, text=True, timeout=300)
        if run.returncode:
            raise AssertionError(f"{JUDGE} ends with {run.returncode}: {run.stderr}")
        lines += run.stdout.splitlines()
    if len(lines) != len(paths):
        raise AssertionError(f"{len(lines)} answers for {len(paths)} files")
    return lines


def kolo(*arguments, timeout=120):
    return subprocess.run([KOLO, *arguments], capture_output=True, text=True, timeout=timeout)
