"""What the commands print as JSON, in small: the forms of a cost of two schedules, of a simulation of one size, and of an
exploration of many schedules. The figures are made up, but for the node graph, which is Frontier's."""

KIB, MIB = 1024, 1024 * 1024
PAIRS = {(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4, (0, 6): 2, (2, 4): 2,
         (0, 2): 1, (1, 3): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1, (5, 7): 1}
CLASSES = {4: "quad", 2: "dual", 1: "single"}
MACHINE = {
    "name": "frontier", "title": "Frontier, OLCF",
    "vertices": [{"name": f"GCD {number}", "kind": "device"} for number in range(8)]
    + [{"name": f"hsn{number}", "kind": "nic", "wire": "slingshot"} for number in range(4)],
    "links": [{"from": a, "to": b, "class": CLASSES[count], "count": count} for (a, b), count in PAIRS.items()]
    + [{"from": 2 * nic + 1, "to": 8 + nic, "class": "pcie", "count": 1} for nic in range(4)],
}
SOURCE = """// Rail all-gather: a ring along every rail, then all pairs inside every node.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  ringAllGather(c, node, [&](Selector i) { return out[{i, me[gpu]}]; });
  allPairsAllGather(c, gpu, [&](Selector i) { return out[{all, i}]; });
}
"""
STATEMENTS = [(10, "c.copy(c.input(), out[me]);", 1, 0.05, "memory of GCD 0"),
              (11, "ringAllGather(c, node, [&](Selector i) { return out[{i, me[gpu]}]; });", 3, 0.6, "hsn0 -> network"),
              (12, "allPairsAllGather(c, gpu, [&](Selector i) { return out[{all, i}]; });", 1, 0.35, "GCD 0 -> GCD 2")]


def links():
    result = []
    for a, b in PAIRS:
        for source, target in ((a, b), (b, a)):
            result.append({"resource": f"GCD {source} -> GCD {target}", "from": f"GCD {source}",
                           "to": f"GCD {target}", "bytes": 3e7 * (1 + (source * 3 + target) % 4), "share": 0.12 * (8 - target)})
    for nic in range(4):
        for a, b in ((f"GCD {2 * nic + 1}", f"hsn{nic}"), (f"hsn{nic}", "network")):
            result.append({"resource": f"{a} -> {b}", "from": a, "to": b, "bytes": 2.4e7, "share": 0.48 if b[0] == "h" else 0.97})
        result.append({"resource": f"memory of GCD {nic}", "from": "", "to": "", "bytes": 2.4e8, "share": 0.06})
    return result


def size(num_bytes, slowness, latency=40e-6):
    bound = 20e-6 + num_bytes / 130e9
    seconds = latency + slowness * num_bytes / 130e9
    return {"bytes": num_bytes, "seconds": seconds, "latencySeconds": latency, "boundSeconds": bound,
            "fractionOfBound": bound / seconds, "bottleneck": "hsn0 -> network",
            "statements": [{"file": "elsewhere/RailAllGather.cpp", "line": line, "text": text, "executions": runs,
                            "seconds": share * seconds, "latencySeconds": share * latency,
                            "bytes": num_bytes * share, "bottleneck": bottleneck}
                           for line, text, runs, share, bottleneck in STATEMENTS],
            "links": links()}


def cost(schedules, model="closed form"):
    return {"machine": "frontier", "mesh": "node=4,gpu=8", "placement": "", "collective": "all_gather", "rates": "peak",
            "model": model, "schedules": schedules,
            "traffic": [[0 if a == b else (1 + (a + b) % 4) * 3 * MIB + a for b in range(8)] for a in range(8)]}


def cost_page():
    sizes = [KIB << (2 * step) for step in range(11)]
    return {"command": "kolo cost railAllGather --machine frontier --mesh node=4,gpu=8 --bytes 1K..1G --html report.html",
            "machine": MACHINE,
            "cost": cost([{"name": "railAllGather", "schedule": {"pipeline": 4}, "source": SOURCE,
                           "sizes": [size(num_bytes, 1.08) for num_bytes in sizes]},
                          {"name": "railAllGather", "schedule": {}, "source": SOURCE,
                           "sizes": [size(num_bytes, 1.6, 28e-6) for num_bytes in sizes]}])}


def timeline(ranks, shown):
    spans = []
    for rank in range(shown):
        start = 2e-6 * (rank % 3)
        for statement, (_, _, runs, share, _) in enumerate(STATEMENTS):
            for _ in range(runs):
                end = start + share / runs * 1e-3 * (1 + 0.04 * (rank % 5))
                if statement == 0:
                    spans.append([rank, statement, 0, start, end])
                else:
                    spans += [[rank, statement, 1, start, end - 1e-5], [rank, statement, 2, start + 1e-5, end]]
                start = end + 4e-6
    return {"schedule": 0, "bytes": 64 * MIB, "ranks": ranks, "shown": shown, "spans": spans,
            "statements": [{"file": "elsewhere/RailAllGather.cpp", "line": line, "text": text} for line, text, *_ in STATEMENTS]}


def simulate_page():
    return {"command": "kolo simulate railAllGather --machine frontier --mesh node=4,gpu=8 --bytes 64M --html report.html",
            "machine": MACHINE, "timelines": [timeline(32, 32), {"schedule": 1, "reason": "it has too many entries"}],
            "cost": cost([{"name": name, "schedule": {}, "source": SOURCE, "sizes": [size(64 * MIB, slowness)]}
                          for name, slowness in (("railAllGather", 1.3), ("ringAllGather", 2.1))], "simulation")}


def explore_page():
    """Twenty schedules, some without some sizes, one with names that are hostile to a page."""
    sizes = [KIB << (2 * step) for step in range(11)]
    schedules = [{"name": f"found{number:02}", "origin": "rings" if number == 12 else "explored", "schedule": {"pipeline": 1 + number % 4, "protocol": ("bulk", "ll")[number % 2]},
                  "sizes": [size(num_bytes, 1.05 + 0.11 * number, (22 + 9 * (20 - number)) * 1e-6)
                            for step, num_bytes in enumerate(sizes) if (number + step) % 7]}
                 for number in range(20)]
    schedules[3]["name"] = "</script><script>hostile()</script><!--\u2028\u2029&amp;\"'"
    schedules[0]["source"] = schedules[1]["source"] = SOURCE.replace("Rail all-gather", "<b>Rail</b> </script> all-gather")
    return {"command": "kolo explore all_gather --machine frontier --nodes 4 --bytes 1K..1G --html report.html",
            "machine": MACHINE, "cost": {**cost(schedules, "closed form"), "frontier": [
                {"bytes": sizes[-1], "ranked": [{"schedule": 1, "seconds": 9.1e-3, "fractionOfBound": 0.91},
                                                {"schedule": 0, "seconds": 9.2e-3, "fractionOfBound": 0.9}]}]}}
