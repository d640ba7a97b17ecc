"""What the measurement ran on, and what else ran there."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path

NUM_LOOKS = 3


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def version_of(program: str) -> str | None:
    """The first thing like 4.1.4 that a program says of its version; nothing when there is none or no program."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+\.\d+(\.\d+)?", output)
    return found.group(0) if found else None


def describe_machine(tool: Path | None) -> dict:
    model = re.search(r"model name\s*:\s*(.*)", read_text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", read_text("/proc/meminfo"))
    versions = {"Open MPI": version_of("mpirun.openmpi"), "MPICH": version_of("mpirun.mpich"),
                "Kolo": version_of(str(tool)) if tool else None}
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": int(memory.group(1)) // (1 << 20) if memory else None,
        "kernel": platform.release(),
        "hugePages": read_text("/sys/kernel/mm/transparent_hugepage/enabled").strip(),
        "hugePagesOfSharedMemory": read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled").strip(),
        "versions": versions,
    }


class Others:
    """Other programs on this machine, looked at while all the compared systems sleep."""

    def __init__(self, wait_seconds: float):
        """Waits at most so long in all."""
        self.seconds_left = wait_seconds
        self.looks = self.disturbed = 0
        self.load_average = os.getloadavg()[0]

    def wait_for_quiet(self) -> None:
        start = time.monotonic()
        while (num_running := self._count_running()) and time.monotonic() - start < self.seconds_left:
            time.sleep(0.02)
        self.seconds_left = max(0.0, self.seconds_left - (time.monotonic() - start))
        self._note(num_running)

    def look(self) -> bool:
        """Whether some run now."""
        num_running = self._count_running()
        self._note(num_running)
        return num_running > 0

    def describe(self) -> dict:
        return {"disturbedShare": round(self.disturbed / max(self.looks, 1), 3), "loadAverage": self.load_average}

    def _note(self, num_running: int) -> None:
        self.looks += 1
        self.disturbed += num_running > 0

    @staticmethod
    def _count_running() -> int:
        """Threads that run or could; the least of a few looks, because whoever slept a moment ago may still show."""
        counts = []
        for _ in range(NUM_LOOKS):
            time.sleep(0.002)
            found = re.search(r" (\d+)/", read_text("/proc/loadavg"))
            counts.append(int(found.group(1)) - 1 if found else 0)  # less this one
        return max(0, min(counts))
