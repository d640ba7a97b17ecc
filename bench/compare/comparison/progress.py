"""A bar on a terminal; elsewhere a line per round."""

import shutil
import sys


class Progress:
    def __init__(self, total: int):
        self.total = max(total, 1)
        self.done = 0
        self.is_shown = sys.stderr.isatty()

    def step(self, text: str) -> None:
        self.done += 1
        if self.is_shown:
            filled = min(self.done, self.total) * 30 // self.total
            line = f"[{'#' * filled}{'.' * (30 - filled)}] {text}"
            sys.stderr.write("\r\033[K" + line[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()

    def note(self, text: str) -> None:
        if not self.is_shown:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.is_shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
