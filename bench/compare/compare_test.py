#!/usr/bin/env python3
"""The comparison's own test: all cells are there, wrong results and silent systems are found.

Exit status 77, which ctest counts as skipped, when no MPI library or no kolo tool is there to compare.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from comparison.plugins import COLLECTIVES, Plugins
from comparison.processes import CellFailed, Ranks
from comparison.report import complete_cell, geometric_mean
from comparison.systems import SYSTEMS

SIZES = {"8": 8, "64K": 65536}


def expect(condition: bool, claim: str) -> None:
    if not condition:
        sys.exit(f"not so: {claim}")


def expect_failure(ranks: Ranks, question: str, words: str, timeout_seconds: float) -> None:
    start = time.monotonic()
    try:
        ranks.ask(question, timeout_seconds)
        sys.exit(f"no failure, but '{words}' was expected")
    except CellFailed as failure:
        expect(words in str(failure), f"'{failure}' says '{words}'")
    expect(ranks.child is None, "a system that failed is ended")
    expect(time.monotonic() - start < timeout_seconds + 10, "a system that failed is ended in time")


def check_arithmetic() -> None:
    def system(*medians: float) -> dict:
        return {"rounds": [{"medianUs": median, "minUs": median / 2} for median in medians]}

    cell = complete_cell({"systems": {"openmpi": system(2, 8, 3), "mpich": system(9, 9, 9), "kolo": system(1, 2, 1),
                                      "kolo-ordinary": {"rounds": [], "failed": "timeout"}}})
    expect(cell["ratios"]["kolo"] == {"packaged": 3.0, "bestPeer": 3.0, "bestPeerLeast": 2.0},
           "a ratio is the median of the ratios within rounds")
    expect(cell["ratios"]["kolo-ordinary"]["bestPeer"] is None, "a failed cell has no ratio")
    expect(cell["bestPeer"] == "openmpi", "the best peer has the least median")
    expect(abs(geometric_mean([1.0, 4.0]) - 2.0) < 1e-12, "the mean is geometric")


def check_failures(build: Path, tool: Path) -> None:
    kolo = [str(build / "bin/kolo-bench-kolo"), "--ranks", "2", "--max-bytes", "65536"]
    plugin = Plugins(tool, build / "bench/plugins").compile("ringAllReduce-2", "ringAllReduce", "--mesh", "rank=2")
    expect_failure(Ranks(kolo, {}), f"all_gather 65536 0.01 {plugin}", "wrong result", 60)
    expect_failure(Ranks(kolo, {}), "all_gather 65536 0.01 absent.so", "absent.so", 60)
    expect_failure(Ranks(["sleep", "100"], {}), "all_gather 65536 0.01", "timeout", 1)
    expect_failure(Ranks(["true"], {}), "all_gather 65536 0.01", "", 10)


def check_comparison(build: Path) -> None:
    systems = [system.name for system in SYSTEMS if system.is_installed(build)]
    with tempfile.TemporaryDirectory() as folder:
        json_path, page_path = Path(folder) / "result.json", Path(folder) / "result.md"
        command = [sys.executable, str(Path(__file__).parent / "compare"), "--build", str(build), "--ranks", "2",
                   "--sizes", ",".join(SIZES), "--rounds", "1", "--seconds-per-cell", "0.02", "--json", str(json_path),
                   "--markdown", str(page_path)]
        subprocess.run(command, check=True, timeout=240)
        result = json.loads(json_path.read_text(encoding="utf-8"))
        page = page_path.read_text(encoding="utf-8")
    found = {(cell["collective"], cell["bytes"]): cell for cell in result["cells"]}
    expect(set(found) == {(name, size) for name in COLLECTIVES for size in SIZES.values()}, "all cells are there")
    for key, cell in found.items():
        expect(key[0] in page, f"the page has {key[0]}")
        for name in systems:
            outcome = cell["systems"].get(name, {})
            expect(outcome.get("medianUs", 0) > 0, f"{name} has a time in {key}: {outcome}")
            expect(name in page, f"the page has {name}")


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    check_arithmetic()
    if not any(system.is_installed(build) for system in SYSTEMS if not system.is_kolo):
        print("skipped: no MPI library to compare with")
        return 77
    tool = build / "bin/kolo"
    if not tool.exists():
        print(f"skipped: no kolo tool at {tool}")
        return 77
    check_failures(build, tool)
    check_comparison(build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
