"""From outcomes to numbers, and from numbers to tables."""

import math
import statistics

from .limits import WANTED, reached
from .rounds import Comparison, Outcome
from .systems import PACKAGED, SYSTEMS

KOLO_SYSTEMS = ("kolo", "kolo-ordinary", "kolo-small-pages")
SIZE_CLASSES = {"below 64 KiB": (0, 1 << 16), "from 64 KiB": (1 << 16, float("inf"))}


def describe_outcome(outcome: Outcome) -> dict:
    result: dict = {"rounds": outcome.rounds}
    if outcome.algorithm:
        result["algorithm"] = outcome.algorithm
    if outcome.failure:
        result["failed"] = outcome.failure
    return result


def times(result: dict | None, kind: str) -> list[float]:
    """One number per round: its median or its least. Empty when the system is absent or failed."""
    return [] if not result or "failed" in result else [one[kind] for one in result["rounds"]]


def add_times(result: dict) -> dict:
    if medians := times(result, "medianUs"):
        result |= {"medianUs": statistics.median(medians), "minUs": min(medians), "maxUs": max(medians),
                   "leastUs": min(times(result, "minUs"))}
    return result


def ratio(peer: dict | None, kolo: dict | None) -> float | None:
    """The peer's time over Kolo's: the median of the rounds' own ratios, so that a slow spell hits both sides."""
    pairs = list(zip(times(peer, "medianUs"), times(kolo, "medianUs")))
    return statistics.median(theirs / ours for theirs, ours in pairs) if pairs else None


def best_peer(systems: dict[str, dict], kind: str) -> str | None:
    found = {name: result[kind] for name, result in systems.items() if name not in KOLO_SYSTEMS and kind in result}
    return min(found, key=found.get) if found else None


def describe_ratios(systems: dict[str, dict], name: str) -> dict:
    least_peer = best_peer(systems, "leastUs")
    has_least = least_peer is not None and "leastUs" in systems[name]
    return {"packaged": ratio(systems.get(PACKAGED), systems[name]),
            "bestPeer": ratio(systems.get(best_peer(systems, "medianUs")), systems[name]),
            "bestPeerLeast": systems[least_peer]["leastUs"] / systems[name]["leastUs"] if has_least else None}


def complete_cell(cell: dict) -> dict:
    """Adds to a cell all that follows from its rounds."""
    systems = {name: add_times(result) for name, result in cell["systems"].items()}
    ratios = {name: describe_ratios(systems, name) for name in KOLO_SYSTEMS if name in systems}
    complete = {**cell, "bestPeer": best_peer(systems, "medianUs"), "ratios": ratios, "systems": systems}
    if limits := cell.get("limits"):
        complete["reached"] = {
            system.name: reached(cell, times(systems[system.name], "medianUs"),
                                 {name: times(limit, "medianUs") for name, limit in limits[system.memory].items()})
            for system in SYSTEMS if system.is_kolo and system.name in systems and system.memory in limits}
    return complete


def describe_cells(comparison: Comparison, ranks: int) -> list[dict]:
    names = [system.name for system in comparison.systems(ranks)]
    described = []
    for cell in comparison.cells(ranks):
        limits = {memory: {name: describe_outcome(outcome) for name, outcome in comparison.limits[cell, memory].items()}
                  for memory in comparison.limited_memories(ranks) if (cell, memory) in comparison.limits}
        described.append(complete_cell({
            "collective": cell.collective, "ranks": cell.ranks, "bytes": cell.size_bytes,
            "systems": {name: describe_outcome(comparison.outcomes[cell, name]) for name in names},
            **({"limits": limits} if limits else {})}))
    return described


def geometric_mean(values: list[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def summarise(cells: list[dict]) -> list[dict]:
    """Geometric means of the ratios, by ranks: of all cells, by size and by collective."""
    summary = []
    for ranks in sorted({cell["ranks"] for cell in cells}):
        chosen = [cell for cell in cells if cell["ranks"] == ranks]
        groups = {"all": chosen}
        for name, (least, end) in SIZE_CLASSES.items():
            groups[name] = [cell for cell in chosen if least <= cell["bytes"] < end]
        for name in dict.fromkeys(cell["collective"] for cell in chosen):
            groups[name] = [cell for cell in chosen if cell["collective"] == name]
        for name, group in groups.items():
            summary += [row for system in KOLO_SYSTEMS
                        if (row := summarise_group(group, system, {"ranks": ranks, "cells": name, "system": system}))]
    return summary


def summarise_group(cells: list[dict], system: str, heading: dict) -> dict | None:
    ratios = [cell["ratios"][system] for cell in cells if system in cell["ratios"]]
    values = {kind: [one[kind] for one in ratios if one[kind]] for kind in ("packaged", "bestPeer", "bestPeerLeast")}
    best = values["bestPeer"]
    if not best:
        return None
    means = {kind: geometric_mean(numbers) for kind, numbers in values.items()}
    return {**heading, **means, "least": min(best), "most": max(best), "numCells": len(best)}


def show(value: float | None, digits: int = 3) -> str:
    """Three digits that matter, never an exponent."""
    if value is None:
        return "-"
    decimals = max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(decimals, 3)}f}"


def show_outcome(result: dict) -> str:
    return "failed" if "failed" in result else show(result.get("medianUs"))


def show_size(size_bytes: int) -> str:
    for unit, bits in (("MiB", 20), ("KiB", 10)):
        if size_bytes >= 1 << bits and size_bytes % (1 << bits) == 0:
            return f"{size_bytes >> bits} {unit}"
    return f"{size_bytes} B"


def rows_of(cells: list[dict]) -> list[list[str]]:
    """One table: the cells of one number of ranks, the heading first."""
    names = list(cells[0]["systems"])
    ours = [name for name in KOLO_SYSTEMS if name in names]
    rows = [["collective", "bytes", *names, *(f"packaged / {name}" for name in ours),
             *(f"best peer / {name}" for name in ours), *(f"algorithm of {name}" for name in ours)]]
    for cell in cells:
        rows.append([cell["collective"], show_size(cell["bytes"]),
                     *(show_outcome(cell["systems"][name]) for name in names),
                     *(show(cell["ratios"][name]["packaged"]) for name in ours),
                     *(show(cell["ratios"][name]["bestPeer"]) for name in ours),
                     *(cell["systems"][name].get("algorithm", "-") for name in ours)])
    return rows


def spread_rows(cells: list[dict]) -> list[list[str]]:
    """Lowest to highest median of a round, per system, and the least time of any iteration."""
    names = list(cells[0]["systems"])
    rows = [["collective", "bytes", *names]]
    for cell in cells:
        rows.append([cell["collective"], show_size(cell["bytes"]),
                     *(f"{show(result['leastUs'])}; {show(result['minUs'])} to {show(result['maxUs'])}"
                       if "minUs" in result else "failed" for result in cell["systems"].values())])
    return rows


def summary_rows(summary: list[dict]) -> list[list[str]]:
    rows = [["ranks", "cells", "system", "packaged / Kolo", "best peer / Kolo", "lowest", "highest",
             "best peer / Kolo, least times", "number of cells"]]
    for row in summary:
        rows.append([str(row["ranks"]), row["cells"], row["system"], show(row["packaged"]), show(row["bestPeer"]),
                     show(row["least"]), show(row["most"]), show(row["bestPeerLeast"]), str(row["numCells"])])
    return rows


def limit_rows(cells: list[dict]) -> list[list[str]]:
    """Only the heading where no limits were measured."""
    rows = [["ranks", "collective", "bytes", "system", "us", "limit", "reached", "wanted"]]
    for cell in cells:
        for name, near in cell.get("reached", {}).items():
            kind = "share" if "share" in near else "signals"
            limit = (f"{near['limit']} {show(near['limitGBps'])} GB/s" if kind == "share" else
                     f"signal {show(near['signalUs'])} us, call {show(near['callUs'])} us")
            rows.append([str(cell["ranks"]), cell["collective"], show_size(cell["bytes"]), name,
                         show_outcome(cell["systems"][name]), limit, f"{show(near[kind])} {kind}", WANTED[kind]])
    return rows


def plain_table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(word.ljust(width) if index == 0 else word.rjust(width)
                               for index, (word, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
