"""Kolo's plugin, with the programs that a table selects for all numbers of ranks in it."""

import json
import subprocess
from pathlib import Path

from .processes import CellFailed

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
TABLED = ("all_gather", "reduce_scatter", "all_to_all")  # whose blocks may have counts of their own
DISTRIBUTIONS = ("equal", "random", "zipf", "onehot")


class Plugins:
    """Compiles each plugin when it is first asked for: a table may have changed since the last run."""

    def __init__(self, tool: Path, folder: Path, table: str = "default"):
        self.tool = tool
        self.folder = folder
        self.table = table
        self.compiled: set[Path] = set()
        self.refusals: dict[Path, str] = {}

    def path(self) -> Path:
        """Raises CellFailed with the tool's words when it refuses."""
        return self.compile(f"table-{Path(self.table).stem}", "--table", self.table)

    def choice(self, ranks: int, collective: str, memory: str, size_bytes: int) -> str:
        """The program that the plugin selects. Raises CellFailed when there is none."""
        manifest = json.loads(self._run("inspect", str(self.path()), "--json"))
        collective, _, distribution = collective.partition(":")
        tabled = {program["name"] for program in manifest["programs"]
                  if any(proof.get("blockTables") for proof in program["proved"])}
        below = None
        for entry in manifest.get("selection", []):
            if (entry["collective"], entry["ranks"], entry["memory"]) == (collective, ranks, memory) and \
                    (not distribution or entry["program"] in tabled):
                if entry["upToBytes"] is None or size_bytes <= entry["upToBytes"]:
                    return entry["program"]
                below = entry["program"]
        if distribution and below:
            return below
        raise CellFailed(f"the table selects nothing for {collective} on {ranks} ranks in {memory} memory")

    def compile(self, name: str, *what: str) -> Path:
        plugin = self.folder / f"{name}.so"
        if plugin in self.refusals:
            raise CellFailed(self.refusals[plugin])
        if plugin in self.compiled:
            return plugin
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._run("compile", *what, "-o", str(plugin))
        except CellFailed as refusal:
            self.refusals[plugin] = str(refusal)
            raise
        self.compiled.add(plugin)
        return plugin

    def _run(self, *words: str) -> str:
        result = subprocess.run([str(self.tool), *words], capture_output=True, text=True, timeout=300, check=False)
        if result.returncode == 0:
            return result.stdout
        said = " | ".join((result.stderr or result.stdout).split("\n")[:4]).strip(" |")
        raise CellFailed(f"kolo {words[0]}: {said or f'exit status {result.returncode}'}")
