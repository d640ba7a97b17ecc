"""The measurement: the systems take turns, cell by cell, round by round."""

import itertools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from .limits import Limit, limits_of
from .machine import Others
from .plugins import Plugins
from .processes import CellFailed, Ranks
from .progress import Progress
from .systems import LIMITS, System

TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Cell:
    collective: str
    ranks: int
    size_bytes: int


@dataclass
class Outcome:
    """One system in one cell."""

    rounds: list[dict] = field(default_factory=list)
    algorithm: str | None = None
    failure: str | None = None


@dataclass
class Settings:
    build: Path
    ranks: list[int]
    sizes: list[int]
    collectives: list[str]
    num_rounds: int
    seconds_per_cell: float
    wait_quiet_seconds: float
    systems: list[System]


class Comparison:
    def __init__(self, settings: Settings, plugins: Plugins, progress: Progress):
        self.settings = settings
        self.plugins = plugins
        self.progress = progress
        self.outcomes: dict[tuple[Cell, str], Outcome] = {}
        self.limits: dict[tuple[Cell, str], dict[str, Outcome]] = {}  # by memory, then by limit
        self.others: list[dict] = []

    def cells(self, ranks: int) -> list[Cell]:
        return [Cell(collective, ranks, size)
                for collective, size in itertools.product(self.settings.collectives, self.settings.sizes)]

    def systems(self, ranks: int) -> list[System]:
        cores = len(os.sched_getaffinity(0))
        return [system for system in self.settings.systems if ranks <= system.max_ranks_per_core * cores]

    def limited_memories(self, ranks: int) -> list[str]:
        """Kinds of memory whose limits are measured: where ranks are pinned."""
        memories = {system.memory for system in self.systems(ranks) if system.is_kolo}
        return sorted(name for name in memories if is_pinned(ranks) and LIMITS[name].is_installed(self.settings.build))

    def run(self, ranks: int) -> None:
        systems = self.systems(ranks)
        for cell, system in itertools.product(self.cells(ranks), systems):
            self.outcomes[cell, system.name] = Outcome()
        for system in systems:
            if system.is_kolo:
                self._look_up(system, ranks)
        for number in range(self.settings.num_rounds):
            self._run_round(systems, ranks, number)

    def _run_round(self, systems: list[System], ranks: int, number: int) -> None:
        others = Others(self.settings.wait_quiet_seconds)
        self.progress.note(f"{ranks} ranks, round {number + 1} of {self.settings.num_rounds}")
        processes = {system.name: self._ranks(system, ranks) for system in systems}
        limits = {memory: self._ranks(LIMITS[memory], ranks) for memory in self.limited_memories(ranks)}
        try:
            for index, cell in enumerate(self.cells(ranks)):
                first = (number + index) % len(systems)
                for system in systems[first:] + systems[:first]:
                    self.progress.step(f"{ranks} ranks, round {number + 1}, {cell.collective} {cell.size_bytes} B, "
                                       f"{system.name}")
                    others.wait_for_quiet()
                    self._measure(processes[system.name], system, cell)
                    others.look()
                for memory, limit in itertools.product(limits, limits_of(cell.collective, ranks, cell.size_bytes)):
                    others.wait_for_quiet()
                    self._measure_limit(limits[memory], memory, cell, limit)
                    others.look()
            self.others.append({"ranks": ranks, "round": number, **others.describe()})
        finally:
            for child in [*processes.values(), *limits.values()]:
                child.close()

    def _measure(self, process: Ranks, system: System, cell: Cell) -> None:
        outcome = self.outcomes[cell, system.name]
        if outcome.failure:
            return
        try:
            words = [str(self.plugins.path())] if system.is_kolo else []
            outcome.rounds.append(self._ask(process, cell.collective, cell.size_bytes, *words))
        except CellFailed as failure:
            outcome.failure = str(failure)

    def _measure_limit(self, process: Ranks, memory: str, cell: Cell, limit: Limit) -> None:
        outcome = self.limits.setdefault((cell, memory), {}).setdefault(limit.name, Outcome())
        if outcome.failure:
            return
        try:
            # The collective only says how many elements there are.
            outcome.rounds.append(self._ask(process, "all_reduce", limit.size_bytes, limit.name))
        except CellFailed as failure:
            outcome.failure = str(failure)

    def _look_up(self, system: System, ranks: int) -> None:
        """Finds out what Kolo's own table selects for each cell; by the same table it runs."""
        for cell in self.cells(ranks):
            outcome = self.outcomes[cell, system.name]
            try:
                outcome.algorithm = self.plugins.choice(ranks, cell.collective, system.memory, cell.size_bytes)
            except CellFailed as failure:
                outcome.failure = str(failure)

    def _ask(self, process: Ranks, collective: str, size_bytes: int, *words: str) -> dict:
        start = time.monotonic()
        question = " ".join([collective, str(size_bytes), str(self.settings.seconds_per_cell), *words])
        words = process.ask(question, TIMEOUT_SECONDS)
        least, median, high, most = (float(word) for word in words[:4])
        return {"minUs": least, "medianUs": median, "p90Us": high, "maxUs": most, "iterations": int(words[4]),
                "seconds": round(time.monotonic() - start, 3)}

    def _ranks(self, system: System, ranks: int) -> Ranks:
        # All ranks may give one of them all that they have.
        takers = ranks if any(":" in collective for collective in self.settings.collectives) else 1
        most_bytes = takers * max(self.settings.sizes)
        return Ranks(system.argv(self.settings.build, ranks, most_bytes, is_pinned(ranks)), system.environment)


def is_pinned(ranks: int) -> bool:
    """Rank r to core r, where each has one."""
    return ranks <= len(os.sched_getaffinity(0))


def is_wrong(failure: str | None) -> bool:
    """Whether a failure is a wrong result, which no benchmark may pass over."""
    return failure is not None and "wrong result" in failure
