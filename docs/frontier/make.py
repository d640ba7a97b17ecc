#!/usr/bin/env python3
"""What docs/frontier.md shows: make.py measure asks kolo for all of it, in some minutes, and writes results.json; make.py page
then writes the tables and the pictures, and make.py table algorithms/tables/frontier.json.

KOLO_BINARY is the kolo to ask, by default that of the path."""

import html
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs/frontier.md"
RESULTS = SOURCE / "docs/frontier/results.json"
TABLE = SOURCE / "algorithms/tables/frontier.json"
MACHINE_PICTURE = SOURCE / "docs/frontier/machine.svg"
KOLO = os.environ.get("KOLO_BINARY", "kolo")

FLAGS = {"pipeline": "--pipeline", "protocol": "--protocol", "transfers": "--transfers"}
COLLECTIVES = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce", "all_to_all": "AllToAll"}
NODES = [1, 16, 128, 9408]
DEVICES = 8
SIZES = [1024 << (4 * step) for step in range(6)]
MOST_SIMULATED = 16   # nodes, of `kolo simulate`
MAY_BE_FASTER = 2.5   # times the fastest as kolo explore says: whoever ships and takes no longer is simulated
HARDLY_SLOWER = 1.03  # times the fastest: then rather one that ships
NETWORK = ("--network-memory", "direct")  # of what Kolo runs: kolo compile --network refuses packets and reads between nodes
LEAST_SHARE = 4       # bytes of one rank, of what is cut in blocks


# What kolo says ---------------------------------------------------------------------------------------------------

def ask(*arguments):
    """A command of kolo's, and its JSON."""
    command = ["kolo", *map(str, arguments)]
    done = subprocess.run([KOLO, *command[1:], "--json", "-"], cwd=SOURCE, check=True, text=True, stdout=subprocess.PIPE)
    return " ".join(command), json.loads(done.stdout)


def sizes_for(collective, nodes):
    """Those of which every rank has a share; an all-reduce is not of shares."""
    least = 0 if collective == "all_reduce" else LEAST_SHARE * DEVICES * nodes
    return [size for size in SIZES if size >= least]


def text(sizes):
    return ",".join(f"{size >> 10}K" if size < 1 << 20 else f"{size >> 20}M" if size < 1 << 30 else f"{size >> 30}G" for size in sizes)


def baseline_commands(collective, nodes, sizes):
    """What others run: PCCL's rails between nodes; of all-to-all, all blocks sent at once."""
    setting = ["--machine", "frontier", "--bytes", text(sizes)]
    if collective == "all_to_all":
        programs = ["directAllToAll"]
    elif nodes == 1:
        return []
    else:
        name = COLLECTIVES[collective]
        ring = [] if nodes & (nodes - 1) == 0 else ["--program", f"pcclRing{name}"]
        programs = [f"docs/frontier/Pccl{name}.cpp", *ring]
    return [["cost", *programs, *setting, "--mesh", f"node={nodes},gpu={DEVICES}", *protocol]
            for protocol in ([], ["--protocol", "ll"])]


def explore(collective, nodes, sizes, *options):
    """The command, and the best of every size as it is."""
    command, found = ask("explore", collective, "--machine", "frontier", "--nodes", nodes, "--bytes", text(sizes), "--runners-up",
                         7 if nodes <= MOST_SIMULATED else 3, *NETWORK, *options)
    return command, [best_of(found["schedules"], size, nodes) for size in found["frontier"]]


def best_of(schedules, size, nodes):
    """The row of a size. Up to MOST_SIMULATED nodes, the simulation of all ranks says who is the fastest of those that ship.
    Those that do not ship are explored on one node alone, where kolo explore simulates all ranks."""
    candidates = []
    for one in size["ranked"]:
        row = row_of(schedules[one["schedule"]], size, one["seconds"])
        may_win = row["ships"] and one["seconds"] <= MAY_BE_FASTER * size["ranked"][0]["seconds"]
        candidates.append((simulated(row) if may_win and nodes <= MOST_SIMULATED else row, one["schedule"]))
    best, number = choose(sorted(candidates, key=lambda candidate: candidate[0]["seconds"]))
    if best["isSimulated"] or nodes > MOST_SIMULATED:
        return best
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(schedules[number]["source"])
        source.flush()
        return simulated(best, source.name)


def row_of(schedule, size, seconds):
    at = next(one for one in schedule["sizes"] if one["bytes"] == size["bytes"])
    return {"bytes": size["bytes"], "boundSeconds": size["boundSeconds"], "seconds": seconds, "algorithm": schedule["algorithm"],
            "schedule": schedule["schedule"], "mesh": schedule["mesh"], "placement": schedule["placement"],
            "ships": schedule["origin"] == "shipped", "isSimulated": False, "bottleneck": at["bottleneck"],
            "ringsSeconds": size.get("ringsSeconds")}


def measure(collective, nodes, sizes):
    """All that the page shows of one collective on so many nodes. A row that does not ship has the best one that does, or is
    that, if it is hardly slower."""
    command, rows = explore(collective, nodes, sizes, *([] if nodes == 1 else ["--structures", 0]))
    commands = [command]
    if unshipped := [row["bytes"] for row in rows if not row["ships"]]:
        command, shipped = explore(collective, nodes, unshipped, "--structures", 0)
        commands.append(command)
        of_size = {row["bytes"]: row for row in shipped}
        rows = [row if row["ships"] else beside(row, of_size.get(row["bytes"])) for row in rows]
    others = [ask(*arguments) for arguments in baseline_commands(collective, nodes, sizes)]
    for row in rows:
        times = [size["seconds"] for _, costs in others for one in costs["schedules"] for size in one["sizes"]
                 if size["bytes"] == row["bytes"]]
        row["othersSeconds"] = min(times, default=None)
    return {"collective": collective, "nodes": nodes, "commands": [*commands, *(other for other, _ in others)], "rows": rows}


def beside(row, shipped):
    """`shipped`: None if nothing that ships does it."""
    return shipped if shipped and shipped["seconds"] <= HARDLY_SLOWER * row["seconds"] else {**row, "shipped": shipped}


def simulated(row, source=None):
    """A row as the simulation of all ranks has it. `source`: of what does not ship."""
    flags = [part for name, value in row["schedule"].items() for part in (FLAGS[name], value)]
    placement = ["--placement", row["placement"]] if row["placement"] else []
    _, found = ask("simulate", source or row["algorithm"], "--machine", "frontier", "--mesh", row["mesh"], "--bytes", row["bytes"],
                   *NETWORK, *flags, *placement)
    [size] = found["schedules"][0]["sizes"]
    return {**row, "seconds": size["seconds"], "bottleneck": size["bottleneck"], "isSimulated": True}


def choose(candidates):
    """The fastest, which is the first; of those that are hardly slower, rather one that ships, and as ranks are numbered.
    Candidates are rows with something else."""
    for within, is_wanted in ((1.01, lambda row: row["ships"] and not row["placement"]), (HARDLY_SLOWER, lambda row: row["ships"])):
        for row, other in candidates:
            if is_wanted(row) and row["seconds"] <= within * candidates[0][0]["seconds"]:
                return row, other
    return candidates[0]


def measure_ladder():
    """All-gather of 1 GiB on 4 nodes: the steps of HiCCL's ladder, and its measured GB/s."""
    rows = []
    for step, measured, arguments in (
            ("direct", 8, ["cost", "allPairsAllGather"]), ("hierarchical", 40, ["cost", "railAllGather"]),
            ("pipelined", 77, ["cost", "railAllGather", "--pipeline", 16]), ("with trees", None, ["simulate", "frontierAllGather", "--pipeline", 16])):
        command, found = ask(*arguments, "--machine", "frontier", "--mesh", "node=4,gpu=8", "--bytes", "1G")
        size = found["schedules"][0]["sizes"][0]
        rows.append({"step": step, "command": command, "measured": measured, "gigabytesPerSecond": size["bytes"] / size["seconds"] / 1e9})
    return rows


def measure_growth(counts=(8, 16, 32, 64, 128, 256)):
    """All-gather of 64 MiB: one ring through all devices, and PCCL's rails."""
    rows = []
    for nodes in counts:
        setting = ["--machine", "frontier", "--mesh", f"node={nodes},gpu={DEVICES}", "--bytes", "64M"]
        ring, rails = ([schedule["sizes"][0]["seconds"] for schedule in ask("cost", what, *setting)[1]["schedules"]]
                       for what in ("ringAllGather", "docs/frontier/PcclAllGather.cpp"))
        rows.append({"nodes": nodes, "ringSeconds": ring[0], "railsSeconds": min(rails)})
    return rows


def measure_all():
    results = []
    for nodes in NODES:
        for collective in COLLECTIVES:
            print(f"{collective} on {nodes} nodes", file=sys.stderr, flush=True)
            results.append(measure(collective, nodes, sizes_for(collective, nodes)))
    return {"collectives": results, "ladder": measure_ladder(), "growth": measure_growth()}


# Tables -----------------------------------------------------------------------------------------------------------

def size_text(size):
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB" if size < 1 << 30 else f"{size >> 30} GiB"


def time_text(seconds):
    for unit, scale in (("us", 1e6), ("ms", 1e3), ("s", 1)):
        if seconds * scale < 1000 or unit == "s":
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 100 else f"{seconds * scale:.0f} {unit}"


def run_text(row):
    flags = "".join(f" {FLAGS[name]} {value}" for name, value in row["schedule"].items())
    placement = f" --placement '{row['placement']}'" if row["placement"] else ""
    run = f"`{row['algorithm']}{flags}{placement}`"
    if row["ships"] or not row["shipped"]:
        return run if row["ships"] else f"{run} *"
    return f"{run} *; of those that ship, {run_text(row['shipped'])} in {time_text(row['shipped']['seconds'])}"


def slower_text(seconds, row):
    if not seconds:
        return "-"
    times = seconds / row["seconds"]
    return f"{times:,.0f} x" if times >= 10 else f"{times:.2g} x"


def table(results, collective):
    """Markdown. `rings` and `rails` are how many times as long they take."""
    others = "direct" if collective == "all_to_all" else "rails"
    lines = [f"| nodes | size | run | time | GB/s | of the bound | bottleneck | rings | {others} |",
             "|---|---|---|---|---|---|---|---|---|"]
    for result in results["collectives"]:
        if result["collective"] != collective:
            continue
        for row in result["rows"]:
            lines.append(f"| {result['nodes']:,} | {size_text(row['bytes'])} | {run_text(row)} "
                         f"| {'' if row['isSimulated'] else '~ '}{time_text(row['seconds'])} "
                         f"| {row['bytes'] / row['seconds'] / 1e9:.3g} | {100 * row['boundSeconds'] / row['seconds']:.0f} % "
                         f"| {row['bottleneck']} | {slower_text(row['ringsSeconds'], row)} | {slower_text(row['othersSeconds'], row)} |")
    return "\n".join(lines) + "\n"


def ladder_table(rows):
    lines = ["| step | GB/s, predicted | GB/s, measured by HiCCL | command |", "|---|---|---|---|"]
    lines += [f"| {row['step']} | {row['gigabytesPerSecond']:.1f} | {row['measured'] or ''} | `{row['command']}` |" for row in rows]
    return "\n".join(lines) + "\n"


def growth_table(rows):
    lines = ["| GCDs | one ring | PCCL's rails | the ring takes |", "|---|---|---|---|"]
    lines += [f"| {row['nodes'] * DEVICES:,} | {time_text(row['ringSeconds'])} | {time_text(row['railsSeconds'])} "
              f"| {row['ringSeconds'] / row['railsSeconds']:.1f} x |" for row in rows]
    return "\n".join(lines) + "\n"


def page_with_tables(page, results):
    tables = {collective: table(results, collective) for collective in COLLECTIVES}
    for name, text_of_table in {**tables, "ladder": ladder_table(results["ladder"]), "growth": growth_table(results["growth"])}.items():
        marks = f"<!-- table: {name} -->\n", "<!-- end of the table -->"
        assert page.count(marks[0]) == 1, f"the page has no place for the table {name}"
        before, after = page.split(marks[0])
        page = before + marks[0] + text_of_table + marks[1] + after.split(marks[1], 1)[1]
    return page


# Pictures ---------------------------------------------------------------------------------------------------------

LINES = [("seconds", "best", "#2b6cb0", ""), ("othersSeconds", "PCCL's rails", "#2f855a", ""), ("ringsSeconds", "RCCL's rings", "#c05621", ""),
         ("boundSeconds", "lower bound", "#52606d", "5 4")]
PANEL, GAP, LEFT, TOP, HEIGHT = 205, 14, 52, 58, 190


def picture(results, collective):
    """Bandwidth by size, both logarithmic, a panel for each number of nodes."""
    results = [result for result in results["collectives"] if result["collective"] == collective]
    rates = [row["bytes"] / row[field] / 1e9 for result in results for row in result["rows"] for field, *_ in LINES if row[field]]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    low = max(low, high - 6)
    y = lambda rate: TOP + HEIGHT - HEIGHT * (math.log10(rate) - low) / (high - low)
    width = LEFT + len(results) * (PANEL + GAP) + 4
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 44}" font-family="sans-serif" font-size="12">',
           f"<title>{html.escape(collective)} on Frontier: bandwidth by size</title>",
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    names = {"othersSeconds": "all blocks at once"} if collective == "all_to_all" else {}
    at = LEFT
    for field, name, colour, dashes in LINES:
        if not any(row[field] for result in results for row in result["rows"]):
            continue
        out += [f'<line x1="{at}" y1="16" x2="{at + 28}" y2="16" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>',
                label(at + 34, 20, names.get(field, name), "start", "#1f2933")]
        at += 60 + 7 * len(names.get(field, name))
    out.append(f'<text transform="translate(13,{TOP + HEIGHT / 2}) rotate(-90)" text-anchor="middle" fill="#52606d">GB/s</text>')
    for number, result in enumerate(results):
        out += panel(result, LEFT + number * (PANEL + GAP), y, range(low, high + 1), number == 0)
    return "\n".join(out) + "\n</svg>\n"


def label(x, y, words, anchor="middle", colour="#52606d"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'


def panel(result, left, y, decades, has_scale):
    x = lambda size: left + 10 + (PANEL - 20) * math.log2(size / SIZES[0]) / math.log2(SIZES[-1] / SIZES[0])
    nodes = result["nodes"]
    out = [label(left + PANEL / 2, TOP - 12, f"{nodes:,} node{'s' if nodes > 1 else ''}", colour="#1f2933"),
           f'<rect x="{left}" y="{TOP}" width="{PANEL}" height="{HEIGHT}" fill="none" stroke="#cbd2d9"/>']
    for decade in decades:
        out.append(f'<line x1="{left}" y1="{y(10.0 ** decade):.1f}" x2="{left + PANEL}" y2="{y(10.0 ** decade):.1f}" stroke="#e4e7eb"/>')
        if has_scale:
            out.append(label(left - 6, y(10.0 ** decade) + 4, f"{10.0 ** decade:g}", "end"))
    for size, name in ((1024, "1 KiB"), (1 << 20, "1 MiB"), (1 << 30, "1 GiB")):
        anchor = {1024: "start", 1 << 30: "end"}.get(size, "middle")
        out.append(label(x(size) + {"start": -8, "end": 8}.get(anchor, 0), TOP + HEIGHT + 18, name, anchor))
    for field, _, colour, dashes in reversed(LINES):
        points = [(x(row["bytes"]), y(row["bytes"] / row[field] / 1e9)) for row in result["rows"] if row[field]]
        points = [(a, b) for a, b in points if b <= TOP + HEIGHT]
        if not points:
            continue
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        if not dashes:
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>' for a, b in points]
    return out


def machine_picture():
    return subprocess.run([KOLO, "machine", "frontier", "--svg", "-"], cwd=SOURCE, check=True, text=True, stdout=subprocess.PIPE).stdout


def pictures(results):
    """Text by file, but for the machine's, which kolo draws."""
    return {SOURCE / f"docs/frontier/{collective}.svg": picture(results, collective) for collective in COLLECTIVES}


# The selection table ----------------------------------------------------------------------------------------------

def selection_table(results):
    """An entry of a table for every run of rows with one program that ships; a size between two goes by the nearer."""
    lines = []
    for collective in COLLECTIVES:
        for result in sorted((one for one in results["collectives"] if one["collective"] == collective), key=lambda one: one["nodes"]):
            rows = [row if row["ships"] else row["shipped"] for row in result["rows"]]
            rows = [row for row in rows if row and "module" not in row["mesh"]]
            last = [row for row, after in zip(rows, [*rows[1:], None]) if after is None or program_of(row) != program_of(after)]
            for memory in ("windows", "ordinary"):  # the models do not tell them apart
                for row in last:
                    up_to = None if row is rows[-1] else math.isqrt(row["bytes"] * rows[rows.index(row) + 1]["bytes"])
                    entry = {"collective": collective, "mesh": {"node": result["nodes"], "gpu": DEVICES}, "memory": memory,
                             "upToBytes": up_to, "algorithm": row["algorithm"], **({"schedule": row["schedule"]} if row["schedule"] else {})}
                    lines.append("    " + json.dumps(entry, separators=(",", ":")))
    return '{\n  "machine": "frontier",\n  "command": "docs/frontier/make.py table",\n  "entries": [\n' + ",\n".join(lines) + "\n  ]\n}\n"


def program_of(row):
    return row["algorithm"], row["schedule"]


def main(what):
    if what == "measure":
        RESULTS.write_text(json.dumps(measure_all(), indent=1) + "\n")
    elif what == "page":
        results = json.loads(RESULTS.read_text())
        PAGE.write_text(page_with_tables(PAGE.read_text(), results))
        for path, drawing in {**pictures(results), MACHINE_PICTURE: machine_picture()}.items():
            path.write_text(drawing)
    elif what == "table":
        TABLE.write_text(selection_table(json.loads(RESULTS.read_text())))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "")
