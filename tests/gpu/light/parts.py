"""The parts of first_light, in their order."""

import os
import platform
import time

from light.build import PROGRAMS
from light.ddp import run_ddp
from light.examples import run_examples
from light.figures import figures
from light.machine import ask, describe, find_nvcc, last_line
from light.nccl import run_door
from light.outcome import Failed, NotPossible, OutOfTime
from light.profile import profile, sanitize
from light.report import add_fractions, print_table
from light.run import Run, unpack
from light.tests import tests

# Of tests in which a peer does not come: they set a shorter time, and an empty variable counts as not set.
OWN_TIMEOUTS = {"KOLO_TIMEOUT_MS": ""}

# In this order: what decides about the rest comes first, and what may hang comes last. Seconds are the most that a part
# may take.
PARTS = {
    "device": (30, describe),
    "start": (45, tests("All/DeviceAlgorithms.GiveTheReferences*/ringAllGather")),
    "sanitizer": (30, sanitize),
    "algorithms": (90, tests("All/DeviceAlgorithms.*-*LargeBuffers*")),
    "ll": (60, tests("All/PacketAlgorithms.*")),
    "ll128": (60, tests("All/LineAlgorithms.*-*LargeBuffers*")),
    "limits": (25, figures("limits")),
    "collectives": (75, figures("collectives")),
    "small": (50, figures("small")),
    "profile": (40, profile),
    "streams": (40, tests("DeviceStreams.*", 1, OWN_TIMEOUTS)),
    "processes": (60, tests("DeviceProcesses.*", 1, OWN_TIMEOUTS)),
    "nccl": (120, run_door),
    "ddp": (60, run_ddp),
    "rivals": (50, figures("rivals")),
    "lanes": (30, figures("lanes")),
    "tables": (90, tests("All/Tabled*")),
    "coded": (60, tests("All/CodedAlgorithms.*")),
    "coded-packets": (60, tests("All/CodedPacketAlgorithms.*:All/CodedLineAlgorithms.*")),
    "large": (60, tests("*LargeBuffers*")),
    "examples": (60, run_examples),
}


def check_before(run, name):
    """Raises NotPossible for a part without what parts before it make."""
    parts = run.report["parts"]
    if not (run.binaries / PROGRAMS[1]).exists():
        raise NotPossible(f"{run.binaries} has no {PROGRAMS[1]}")
    if name != "device" and "device" not in run.report:
        raise NotPossible(parts.get("device", {}).get("why", "the part 'device' is not done"))


def run_part(run, name):
    seconds, body = PARTS[name]
    entry = run.report["parts"].setdefault(name, {})
    entry.pop("why", None)
    begin = time.monotonic()
    run.limit = min(run.end, begin + seconds)
    try:
        if run.end - begin < 2:
            raise OutOfTime("the time for all parts was over")
        check_before(run, name)
        body(run, entry)
        entry["state"] = "passed"
    except (Failed, NotPossible, OutOfTime) as problem:
        states = {Failed: "failed", NotPossible: "not possible", OutOfTime: "out of time"}
        entry["state"], entry["why"] = states[type(problem)], " ".join(str(problem).split())
    except Exception as problem:  # whatever it is, the other parts go on
        entry["state"], entry["why"] = "failed", f"{type(problem).__name__}: {problem}"
    entry["seconds"] = round(time.monotonic() - begin, 1)
    run.say(f"{name:12} {entry['state']:12} {entry['seconds']:6.1f} s  {entry.get('why', '')}".rstrip())


def run_all(args):
    run = Run(args)
    nvcc = find_nvcc()
    run.report["machine"] = {"system": platform.platform(), "cores": os.cpu_count(),
                             "nvcc": nvcc and last_line(ask(nvcc, "--version") or ""),
                             "when": time.strftime("%FT%TZ", time.gmtime())}
    run.report["commit"] = run.packed["commit"]
    run.report["architecture"] = run.packed["architecture"]
    unpack(run)
    for name in args.part:
        run.report["parts"].pop(name, None)
    if not args.part:
        run.report["parts"].get("device", {}).pop("state", None)  # looks again each time
    for name in PARTS:
        if args.part and name not in args.part:
            continue
        if run.report["parts"].get(name, {}).get("state") in ("passed", "failed"):
            run.say(f"{name:12} kept: {run.report['parts'][name]['state']} before; --part {name} runs it again")
            continue
        run_part(run, name)
        add_fractions(run.report)
        run.save()
    print_table(run)
    states = [run.report["parts"].get(name, {}).get("state") for name in (args.part or PARTS)]
    return 1 if "failed" in states else 0 if set(states) == {"passed"} else 3
