"""The Kolo algorithms of each collective, and their plugins."""

import subprocess
from pathlib import Path

from .processes import CellFailed

KIB = 1 << 10
MIB = 1 << 20

# Algorithm, and the largest vector it is tried on where its memory or its traffic grows with the number of ranks. With
# "+slots": compiled with --protocol slots.
ALGORITHMS = {
    "all_reduce": {"ringAllReduce": None, "recursiveDoublingAllReduce": 16 * MIB, "rabenseifnerAllReduce": None,
                   "oneShotAllReduce": 1 * MIB, "twoShotAllReduce": None, "oneShotAllReduce+slots": 64 * KIB,
                   "stagedTwoShotAllReduce+slots": None},
    "all_gather": {"ringAllGather": None, "recursiveDoublingAllGather": None, "bruckAllGather": None,
                   "allPairsAllGather": None, "allPairsAllGather+slots": None},
    "reduce_scatter": {"ringReduceScatter": None, "recursiveHalvingReduceScatter": None,
                       "allPairsReduceScatter": None, "allPairsReduceScatter+slots": None},
    "all_to_all": {"directAllToAll": None, "bruckAllToAll": 1 * MIB, "directAllToAll+slots": None},
    "broadcast": {"binomialBroadcast": None, "directBroadcast": None, "scatterAllGatherBroadcast": None,
                  "directBroadcast+slots": None},
}


def candidates(collective: str, size_bytes: int) -> list[str]:
    return [name for name, most in ALGORITHMS[collective].items() if most is None or size_bytes <= most]


class Plugins:
    """Compiles each plugin once, and again when the tool has changed."""

    def __init__(self, tool: Path, folder: Path):
        self.tool = tool
        self.folder = folder
        self.refusals: dict[Path, str] = {}

    def path(self, algorithm: str, ranks: int) -> Path:
        """Raises CellFailed with the tool's words when it refuses."""
        plugin = self.folder / f"{algorithm}-{ranks}.so"
        if plugin in self.refusals:
            raise CellFailed(self.refusals[plugin])
        if plugin.exists() and plugin.stat().st_mtime > self.tool.stat().st_mtime:
            return plugin
        self.folder.mkdir(parents=True, exist_ok=True)
        name, _, protocol = algorithm.partition("+")
        options = ["--protocol", protocol] if protocol else []
        result = subprocess.run([str(self.tool), "compile", name, "--mesh", f"rank={ranks}", "-o", str(plugin), *options],
                                capture_output=True, text=True, timeout=300, check=False)
        if result.returncode == 0:
            return plugin
        words = " | ".join((result.stderr or result.stdout).split("\n")[:4]).strip(" |")
        self.refusals[plugin] = f"kolo compile: {words or f'exit status {result.returncode}'}"
        raise CellFailed(self.refusals[plugin])
