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
from comparison.limits import ROUND_TRIPS, limits_of, reached
from comparison.processes import CellFailed, Ranks
from comparison.report import complete_cell, geometric_mean
from comparison.systems import LIMITS, SYSTEMS

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


def check_limits() -> None:
    large = {"collective": "broadcast", "ranks": 4, "bytes": 64_000_000}
    # 384 MB of 512 MB in twice the time.
    near = reached(large, [2000.0, 9000.0, 2000.0], {"copy": [1000.0, 4500.0, 1000.0]})
    expect(near == {"limit": "copy", "limitGBps": 512.0, "share": 0.375}, f"a share is of bytes and of time: {near}")
    near = reached(large | {"collective": "all_reduce"}, [1000.0], {"sum": [1000.0]})
    expect(abs(near["share"] - 8 / 6) < 1e-12, f"a sum moves less than an all-reduce: {near}")
    near = reached({"collective": "broadcast", "ranks": 2, "bytes": 8}, [0.5, 0.7],
                   {"call": [0.1, 0.3], "signal": [0.2 * 2 * ROUND_TRIPS] * 2})
    expect(abs(near["signals"] - 2) < 1e-9, f"signals are counted above the call: {near}")
    expect(reached(large, [1.0], {"copy": []})["share"] is None, "a limit that failed is none")
    names = [limit.name for cell in (("all_reduce", 2, 8), ("all_reduce", 2, 1024), ("all_gather", 2, 8), ("all_gather", 2, 1 << 24),
                                     ("all_to_all", 2, 1 << 24), ("all_reduce", 1, 8)) for limit in limits_of(*cell)]
    expect(names == ["call", "signal", "copy"], f"only these cells have limits: {names}")


def measure_limits(build: Path) -> None:
    for system in LIMITS.values():
        ranks = Ranks(system.argv(build, 2, 1 << 20, True), {})
        for name in ("call", "signal", "copy", "sum"):
            least = float(ranks.ask(f"all_reduce 1048576 0.01 {name}", 60)[0])
            expect(name == "call" or least > 1, f"a MiB of {name} takes its time: {least}")
        expect_failure(ranks, "all_reduce 8 0.01 light", "no such limit: light", 60)


def check_failures(build: Path, tool: Path) -> None:
    kolo = [str(build / "bin/kolo-bench-kolo"), "--ranks", "2", "--max-bytes", "65536"]
    plugin = Plugins(tool, build / "bench/plugins").compile("ringAllReduce-2", "ringAllReduce", "--mesh", "rank=2")
    expect_failure(Ranks(kolo, {}), f"all_gather 65536 0.01 {plugin}", "wrong result", 60)
    expect_failure(Ranks(kolo, {}), "all_gather 65536 0.01 absent.so", "absent.so", 60)
    expect_failure(Ranks(["sleep", "100"], {}), "all_gather 65536 0.01", "timeout", 1)
    expect_failure(Ranks(["true"], {}), "all_gather 65536 0.01", "", 10)


def check_without_rivals(build: Path) -> None:
    """A build without any MPI library is refused, unless only Kolo is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bin").mkdir()
        (Path(folder) / "bin/kolo-bench-kolo").symlink_to(build / "bin/kolo-bench-kolo")
        done = subprocess.run([sys.executable, str(Path(__file__).parent / "compare"), "--build", folder], check=False,
                              capture_output=True, text=True, timeout=60)
    expect(done.returncode == 2 and "has no program for an MPI library" in done.stderr, f"it is refused: {done.stderr}")


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
    for name in ("all_reduce", "broadcast"):
        near = found[name, 8].get("reached", {})
        expect(set(near) == {"kolo", "kolo-ordinary", "kolo-small-pages"}, f"8 B of {name} have limits: {near}")
        expect(all(one["signalUs"] > 0 and one["signals"] for one in near.values()), f"they were measured: {near}")
    expect("## Limits of the machine" in page, "the page has the limits")
    for key, cell in found.items():
        expect(key[0] in page, f"the page has {key[0]}")
        for name in systems:
            outcome = cell["systems"].get(name, {})
            expect(outcome.get("medianUs", 0) > 0, f"{name} has a time in {key}: {outcome}")
            expect(name in page, f"the page has {name}")


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    check_arithmetic()
    check_limits()
    if not any(system.is_installed(build) for system in SYSTEMS if not system.is_kolo):
        print("skipped: no MPI library to compare with (Debian: libopenmpi-dev openmpi-bin)")
        return 77
    tool = build / "bin/kolo"
    if not tool.exists():
        print(f"skipped: no kolo tool at {tool}")
        return 77
    measure_limits(build)
    check_without_rivals(build)
    check_failures(build, tool)
    check_comparison(build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
