"""What the measurement ran on, and what else ran there."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path

QUIET_SHARE = 0.15  # of all cores in use by others
SAMPLE_SECONDS = 0.4


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def first_line(argv: list[str], pattern: str) -> str | None:
    """The first line of a program's output that matches; nothing when there is none or no program."""
    try:
        output = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((re.sub(r"\s+", " ", line).strip() for line in output.splitlines() if re.search(pattern, line)), None)


def describe_machine(tool: Path | None) -> dict:
    model = re.search(r"model name\s*:\s*(.*)", read_text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", read_text("/proc/meminfo"))
    versions = {
        "openmpi": first_line(["mpirun.openmpi", "--version"], r"Open MPI|OpenRTE"),
        "mpich": first_line(["mpirun.mpich", "--version"], r"Version"),
        "kolo": first_line([str(tool), "--version"], r".") if tool else None,
    }
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": int(memory.group(1)) // (1 << 20) if memory else None,
        "kernel": platform.release(),
        "hugePages": read_text("/sys/kernel/mm/transparent_hugepage/enabled").strip(),
        "hugePagesOfSharedMemory": read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled").strip(),
        "versions": versions,
    }


class Background:
    """Processor time that others use, taken while none of the compared systems runs."""

    @staticmethod
    def measure(wait_seconds: float) -> dict:
        """Waits at most so long for a quiet machine."""
        start = time.monotonic()
        share = Background._busy_share()
        while share > QUIET_SHARE and time.monotonic() - start < wait_seconds:
            time.sleep(1)
            share = Background._busy_share()
        return {"busyShare": round(share, 3), "loadAverage": os.getloadavg()[0],
                "waitedSeconds": round(time.monotonic() - start, 1)}

    @staticmethod
    def _busy_share() -> float:
        before = Background._ticks()
        time.sleep(SAMPLE_SECONDS)
        after = Background._ticks()
        total = sum(after) - sum(before)
        idle = sum(after[3:5]) - sum(before[3:5])  # idle and waiting for devices
        return 1 - idle / total if total else 0.0

    @staticmethod
    def _ticks() -> list[int]:
        return [int(word) for word in read_text("/proc/stat").split("\n", 1)[0].split()[1:9]]
