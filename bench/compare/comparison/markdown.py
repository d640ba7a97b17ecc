"""The result as a page."""

from .limits import NOTES as LIMIT_NOTES
from .report import limit_rows, markdown_table, rows_of, spread_rows, summary_rows

NOTES = """\
Times are microseconds for one operation, from the first rank's start to the last rank's end: the median of a round, \
then the median of the rounds. A ratio above 1 means that Kolo is faster; it is the median of the ratios within each \
round. "Least times" compares the fastest single iterations instead, which other \
programs on the machine disturb less. "Packaged" is Open MPI with its defaults; "best peer" is the fastest of all MPI systems in that cell. Bytes are \
those of the whole vector. Kolo runs what its table selects, the MPI libraries what their own rules do."""


def conditions(result: dict) -> list[str]:
    machine, options = result["machine"], result["options"]
    shares = [others["disturbedShare"] for others in result["others"]]
    loads = [others["loadAverage"] for others in result["others"]]
    pinning = [f"{ranks} ranks: {'rank r on core r' if ranks <= machine['cores'] else 'not pinned, any core'}"
               for ranks in options["ranks"]]
    lines = [
        f"- Command: `{result['command']}`",
        f"- Date: {result['date']}, {result['seconds'] / 60:.0f} minutes",
        f"- Machine: {machine['processor']}, {machine['cores']} cores, {machine['memoryGiB']} GiB, "
        f"Linux {machine['kernel']}, huge pages {machine['hugePages']}, of shared memory "
        f"{machine['hugePagesOfSharedMemory']}",
        f"- Versions: {'; '.join(f'{name} {text}' for name, text in machine['versions'].items() if text)}",
        f"- {options['rounds']} rounds; in each the systems take turns cell by cell, about "
        f"{options['secondsPerCell']} s each",
        f"- Pinning, the same for all systems: {'; '.join(pinning)}",
    ]
    if shares:
        lines.append(f"- Other programs: some wanted a core in {min(shares):.0%} to {max(shares):.0%} of the looks before "
                     f"and after each measurement, by round; load average before the rounds {min(loads):.1f} to "
                     f"{max(loads):.1f}")
    return lines


def outcomes_of(cell: dict) -> list[tuple[str, dict]]:
    limits = [(f"limit {name} of {memory}", outcome) for memory, found in cell.get("limits", {}).items()
              for name, outcome in found.items()]
    return [*cell["systems"].items(), *limits]


def failures(cells: list[dict]) -> list[str]:
    return [f"- {cell['collective']}, {cell['ranks']} ranks, {cell['bytes']} bytes, {name}: {outcome['failed']}"
            for cell in cells for name, outcome in outcomes_of(cell) if "failed" in outcome]


def page(result: dict) -> str:
    cells = result["cells"]
    parts = ["# Kolo beside MPI", NOTES, "\n".join(conditions(result)), "## Systems",
             markdown_table([["name", "what", "launched with"]] +
                            [[system["name"], system["description"], f"`{system['launch']}`"]
                             for system in result["systems"]]),
             "## Geometric means of the ratios", markdown_table(summary_rows(result["summary"]))]
    for ranks in sorted({cell["ranks"] for cell in cells}):
        chosen = [cell for cell in cells if cell["ranks"] == ranks]
        parts += [f"## {ranks} ranks", markdown_table(rows_of(chosen)), "The fastest iteration; the lowest and highest median of a round:",
                  markdown_table(spread_rows(chosen))]
    if len(limited := limit_rows(cells)) > 1:
        parts += ["## Limits of the machine", LIMIT_NOTES, markdown_table(limited)]
    if failed := failures(cells):
        parts += ["## Failures", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"
