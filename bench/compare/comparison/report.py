"""From outcomes to numbers, and from numbers to tables."""

import math
import statistics

from .rounds import Cell, Comparison, Outcome
from .systems import PACKAGED

KOLO_SYSTEMS = ("kolo", "kolo-ordinary")


def medians(outcome: Outcome) -> list[float]:
    return [] if outcome.failure else [result["medianUs"] for result in outcome.rounds]


def describe_outcome(outcome: Outcome) -> dict:
    result: dict = {"rounds": outcome.rounds}
    if outcome.algorithm:
        result["algorithm"] = outcome.algorithm
    if outcome.failure:
        result["failed"] = outcome.failure
    elif outcome.rounds:
        values = medians(outcome)
        result |= {"medianUs": statistics.median(values), "minUs": min(values), "maxUs": max(values)}
    return result


def ratio(peer: Outcome | None, kolo: Outcome | None) -> float | None:
    """The peer's time over Kolo's: the median of the rounds' own ratios, so that a slow spell hits both sides."""
    if not peer or not kolo or not medians(peer) or not medians(kolo):
        return None
    return statistics.median(theirs / ours for theirs, ours in zip(medians(peer), medians(kolo)))


def best_peer(outcomes: dict[str, Outcome]) -> str | None:
    times = {name: statistics.median(medians(outcome)) for name, outcome in outcomes.items()
             if name not in KOLO_SYSTEMS and medians(outcome)}
    return min(times, key=times.get) if times else None


def describe_cell(cell: Cell, outcomes: dict[str, Outcome]) -> dict:
    best = best_peer(outcomes)
    ratios = {name: {"packaged": ratio(outcomes.get(PACKAGED), outcomes.get(name)),
                     "bestPeer": ratio(outcomes.get(best), outcomes.get(name))}
              for name in KOLO_SYSTEMS if name in outcomes}
    return {"collective": cell.collective, "ranks": cell.ranks, "bytes": cell.size_bytes, "bestPeer": best,
            "ratios": ratios, "systems": {name: describe_outcome(outcome) for name, outcome in outcomes.items()}}


def describe_cells(comparison: Comparison, ranks: int) -> list[dict]:
    names = [system.name for system in comparison.systems(ranks)]
    return [describe_cell(cell, {name: comparison.outcomes[cell, name] for name in names})
            for cell in comparison.cells(ranks)]


def geometric_mean(values: list[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def summarise(cells: list[dict]) -> list[dict]:
    """Geometric means of the ratios, by ranks and by collective."""
    summary = []
    for ranks in sorted({cell["ranks"] for cell in cells}):
        for collective in [None, *dict.fromkeys(cell["collective"] for cell in cells)]:
            chosen = [cell for cell in cells
                      if cell["ranks"] == ranks and collective in (None, cell["collective"])]
            for system in KOLO_SYSTEMS:
                pairs = [cell["ratios"][system] for cell in chosen if system in cell["ratios"]]
                row = {kind: geometric_mean([pair[kind] for pair in pairs if pair[kind]])
                       for kind in ("packaged", "bestPeer")}
                best = [pair["bestPeer"] for pair in pairs if pair["bestPeer"]]
                if best:
                    summary.append({"ranks": ranks, "collective": collective or "all", "system": system, **row,
                                    "least": min(best), "most": max(best), "cells": len(best)})
    return summary


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
    """Lowest to highest median of a round, per system."""
    names = list(cells[0]["systems"])
    rows = [["collective", "bytes", *names]]
    for cell in cells:
        rows.append([cell["collective"], show_size(cell["bytes"]),
                     *(f"{show(result['minUs'])} to {show(result['maxUs'])}" if "minUs" in result else "failed"
                       for result in cell["systems"].values())])
    return rows


def summary_rows(summary: list[dict]) -> list[list[str]]:
    rows = [["ranks", "collective", "system", "packaged / Kolo", "best peer / Kolo", "least", "most", "cells"]]
    for row in summary:
        rows.append([str(row["ranks"]), row["collective"], row["system"], show(row["packaged"]), show(row["bestPeer"]),
                     show(row["least"]), show(row["most"]), str(row["cells"])])
    return rows


def plain_table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(word.ljust(width) if index == 0 else word.rjust(width)
                               for index, (word, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
