"""The ranks of one system as one child that is asked to measure a cell at a time."""

import os
import select
import signal
import subprocess
import tempfile
import time


class CellFailed(Exception):
    """The system gave no result; the text says why. Its ranks have ended."""


class Ranks:
    """Started by its first question. Between questions its ranks sleep."""

    def __init__(self, argv: list[str], environment: dict[str, str]):
        self.argv = argv
        self.environment = {**os.environ, **environment}
        self.child: subprocess.Popen | None = None
        self.pids: list[int] = []
        self.pending = b""

    def ask(self, question: str, timeout_seconds: float) -> list[str]:
        """The words after `ok`. Raises CellFailed; the next question then starts new ranks."""
        deadline = time.monotonic() + timeout_seconds
        try:
            if self.child is None:
                self._start(deadline)
            self.child.stdin.write(question.encode() + b"\n")
            self.child.stdin.flush()
            return self._read_answer("ok", deadline)
        except (CellFailed, OSError) as failure:
            self.kill()
            raise CellFailed(str(failure)) from None

    def close(self) -> None:
        if self.child is None:
            return
        try:
            self.child.stdin.close()
            self.child.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        """Ends the launcher's process group and the ranks, which may have groups of their own."""
        if self.child is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.child.poll() is None:
                os.killpg(self.child.pid, number)
                self._wait_for_end(3)
        for pid in self.pids:
            if self._is_ours(pid):
                os.kill(pid, signal.SIGKILL)
        self.child.stdout.close()
        self.child, self.pids, self.pending = None, [], b""

    def _start(self, deadline: float) -> None:
        self.errors = tempfile.TemporaryFile()
        self.child = subprocess.Popen(self.argv, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors, start_new_session=True)
        self.pids = [int(word) for word in self._read_answer("ready", deadline)]

    def _wait_for_end(self, seconds: float) -> None:
        try:
            self.child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass

    def _is_ours(self, pid: int) -> bool:
        """Whether a rank's number still belongs to the program that had it."""
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as name:
                return name.read().startswith("kolo-bench-")
        except OSError:
            return False

    def _read_answer(self, expected: str, deadline: float) -> list[str]:
        while True:
            line = self._read_line(deadline)
            word, _, rest = line.partition(" ")
            if word == expected:
                return rest.split()
            if word == "failed":
                raise CellFailed(rest)
            # Anything else is talk of the launcher.

    def _read_line(self, deadline: float) -> str:
        while b"\n" not in self.pending:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0 or not select.select([self.child.stdout], [], [], seconds_left)[0]:
                raise CellFailed("timeout")
            chunk = os.read(self.child.stdout.fileno(), 65536)
            if not chunk:
                raise CellFailed(f"ended without an answer: {self._last_error()}")
            self.pending += chunk
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    def _last_error(self) -> str:
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines()]
        return " | ".join([line for line in lines if line.strip("-")][-4:]) or "nothing on its standard error"
