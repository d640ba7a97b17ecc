"""The compared systems: how each is launched, and why so."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

# Open MPI's large reductions are mostly page faults in temporaries; these keep the memory and make its pages huge.
MALLOC_TUNING = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


@dataclass(frozen=True)
class System:
    name: str
    description: str
    program: str  # under bin/ of the build
    options: tuple[str, ...] = ()  # of the program
    launcher: tuple[str, ...] = ()  # before `-np RANKS PROGRAM`; empty: the program starts its ranks itself
    environment: dict[str, str] = field(default_factory=dict)
    max_ranks_per_core: float = float("inf")

    @property
    def memory(self) -> str:
        """Of Kolo's systems, as tables call it."""
        return "ordinary" if "--ordinary-memory" in self.options else "windows"

    @property
    def is_kolo(self) -> bool:
        return not self.launcher

    def argv(self, build: Path, ranks: int, max_bytes: int, is_pinned: bool) -> list[str]:
        program = [str(build / "bin" / self.program), *self.options, "--max-bytes", str(max_bytes)]
        if is_pinned:
            program.append("--pin")
        if self.is_kolo:
            return [*program, "--ranks", str(ranks)]
        return [*self.launcher, "-np", str(ranks), *program]

    def is_installed(self, build: Path) -> bool:
        has_program = (build / "bin" / self.program).exists()
        return has_program and (self.is_kolo or shutil.which(self.launcher[0]) is not None)


def openmpi_launcher(*options: str) -> tuple[str, ...]:
    # The harness pins, alike for all; so the launcher must not bind.
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    return ("mpirun.openmpi", *root, "--oversubscribe", "--bind-to", "none", *options)


SYSTEMS = (
    System("openmpi", "Open MPI as packaged", "kolo-bench-openmpi", launcher=openmpi_launcher()),
    System("openmpi-tuned", "Open MPI: yields when idle, buffers and malloc on huge pages", "kolo-bench-openmpi",
           ("--huge-pages",), openmpi_launcher("--mca", "mpi_yield_when_idle", "1"), MALLOC_TUNING),
    System("mpich", "MPICH as packaged; spins without yielding, so never more ranks than cores", "kolo-bench-mpich",
           launcher=("mpirun.mpich",), max_ranks_per_core=1),
    System("mpich-huge", "MPICH, buffers on huge pages; never more ranks than cores", "kolo-bench-mpich",
           ("--huge-pages",), ("mpirun.mpich",), max_ranks_per_core=1),
    System("kolo", "Kolo, buffers in windows, which are on huge pages", "kolo-bench-kolo"),
    System("kolo-ordinary", "Kolo, ordinary buffers on huge pages, in no window", "kolo-bench-kolo",
           ("--ordinary-memory", "--huge-pages")),
    System("kolo-small-pages", "Kolo, ordinary buffers on the pages that malloc gives, in no window", "kolo-bench-kolo",
           ("--ordinary-memory",)),
)
PACKAGED = "openmpi"

# By the memory of the systems that they limit: see limits.py.
LIMITS = {
    "windows": System("limits", "the machine's limits, in shared memory on huge pages", "kolo-bench-limits"),
    "ordinary": System("limits-ordinary", "the machine's limits, in private memory on huge pages", "kolo-bench-limits",
                       ("--ordinary-memory", "--huge-pages")),
}


def find_systems(build: Path, names: list[str] | None) -> list[System]:
    """Those asked for, or all that are installed."""
    if names is None:
        return [system for system in SYSTEMS if system.is_installed(build)]
    by_name = {system.name: system for system in SYSTEMS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(f"no such system: {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]
