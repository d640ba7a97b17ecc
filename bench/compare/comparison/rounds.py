"""The measurement: the systems take turns, cell by cell, round by round."""

import itertools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from .machine import Others
from .plugins import Plugins
from .processes import CellFailed, Ranks
from .progress import Progress
from .systems import System

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
        self.others: list[dict] = []

    def cells(self, ranks: int) -> list[Cell]:
        return [Cell(collective, ranks, size)
                for collective, size in itertools.product(self.settings.collectives, self.settings.sizes)]

    def systems(self, ranks: int) -> list[System]:
        cores = len(os.sched_getaffinity(0))
        return [system for system in self.settings.systems if ranks <= system.max_ranks_per_core * cores]

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
        try:
            for index, cell in enumerate(self.cells(ranks)):
                first = (number + index) % len(systems)
                for system in systems[first:] + systems[:first]:
                    self.progress.step(f"{ranks} ranks, round {number + 1}, {cell.collective} {cell.size_bytes} B, "
                                       f"{system.name}")
                    others.wait_for_quiet()
                    self._measure(processes[system.name], system, cell)
                    others.look()
            self.others.append({"ranks": ranks, "round": number, **others.describe()})
        finally:
            for child in processes.values():
                child.close()

    def _measure(self, process: Ranks, system: System, cell: Cell) -> None:
        outcome = self.outcomes[cell, system.name]
        if outcome.failure:
            return
        try:
            plugin = self.plugins.path() if system.is_kolo else None
            outcome.rounds.append(self._ask(process, cell, plugin, self.settings.seconds_per_cell))
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

    def _ask(self, process: Ranks, cell: Cell, plugin: Path | None, seconds: float) -> dict:
        start = time.monotonic()
        words = process.ask(" ".join([cell.collective, str(cell.size_bytes), str(seconds), *([str(plugin)] if plugin else [])]),
                            TIMEOUT_SECONDS)
        least, median, high, most = (float(word) for word in words[:4])
        return {"minUs": least, "medianUs": median, "p90Us": high, "maxUs": most, "iterations": int(words[4]),
                "seconds": round(time.monotonic() - start, 3)}

    def _ranks(self, system: System, ranks: int) -> Ranks:
        is_pinned = ranks <= len(os.sched_getaffinity(0))
        return Ranks(system.argv(self.settings.build, ranks, max(self.settings.sizes), is_pinned), system.environment)


def is_wrong(failure: str | None) -> bool:
    """Whether a failure is a wrong result, which no benchmark may pass over."""
    return failure is not None and "wrong result" in failure
