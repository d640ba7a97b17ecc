"""The door for NCCL programs: a program of NCCL whose ranks share one device, with the real NCCL behind the door."""

import json
import os
import pathlib
import re
import sys

from light.machine import ask, cuda_folders
from light.outcome import Failed, NotPossible

# The program that carries each collective.
CARRIERS = {"all_reduce": "ringAllReduce", "reduce_scatter": "ringReduceScatter", "all_gather": "ringAllGather",
            "broadcast": "directBroadcast", "reduce": "directReduce", "gather": "directGather", "scatter": "directScatter",
            "all_to_all": "directAllToAll"}
WAYS = ("preloaded", "drop-in")
# How the ranks are called, and how many there are.
RUNS = (("processes", 2), ("processes", 4), ("threads", 4), ("one", 2), ("one", 4))
SEVERAL = 23003  # the first NCCL that lets ranks of one process share a device
REFUSED = 3      # what the program ends with then
STATISTICS = re.compile(r"kolo nccl: \d+ calls: (\d+) carried \((\d+) bytes\), (\d+) forwarded(?: \((.*)\))?")


def find_nccl(given=None):
    """NCCL's library, and the folder of its header; either may be None."""
    where = ("import importlib.util as u; s = u.find_spec('nvidia') and u.find_spec('nvidia.nccl'); "
             "print('\\n'.join(s.submodule_search_locations) if s else '')")
    roots = [pathlib.Path(line) for python in dict.fromkeys((sys.executable, "python3"))
             for line in (ask(python, "-c", where) or "").splitlines() if line]
    roots += [*cuda_folders(), pathlib.Path("/usr")]
    libraries = [folder / "libnccl.so.2" for root in roots for folder in (root / "lib", root / "lib64", root / "lib/x86_64-linux-gnu")]
    headers = [root / "include" for root in roots if (root / "include/nccl.h").exists()]
    return (pathlib.Path(given).resolve() if given else next((path for path in libraries if path.exists()), None),
            next(iter(headers), None))


def flags_for_cmake():
    library, include = find_nccl()
    return [f"-DKOLO_NCCL_LIBRARY={library}", f"-DKOLO_NCCL_INCLUDE_DIR={include}"] if library and include else []


def door_of(run):
    return run.binaries.parent / "lib/libkolo_nccl.so"


def variables_for(run, way, nccl, plugins):
    """Of a program that reaches the door in this way."""
    before = os.environ.get("LD_LIBRARY_PATH")
    folders = [*([door_of(run).parent / "kolo/nccl"] if way == "drop-in" else []), nccl.parent, *([before] if before else [])]
    variables = {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "KOLO_STATS": "1",
                 "KOLO_PLUGIN_PATH": ":".join(map(str, plugins)), "KOLO_TIMEOUT_MS": "8000", "NCCL_DEBUG": "WARN"}
    if way == "preloaded":
        variables["LD_PRELOAD"] = str(door_of(run))
    if run.driver == "stand-in":
        # Its kernels share the cores with other processes, which may delay them.
        variables |= {"KOLO_STANDIN_THREADS": "2", "KOLO_STANDIN_RESIDENT": "256", "KOLO_TIMEOUT_MS": "20000"}
    return variables


class ClientLines:
    """Reads what kolo_gpu_nccl and the door print: of several processes, the one with rank 0 prints what it counted."""

    def __init__(self):
        self.version, self.checks, self.expected, self.counted, self.refusal, self.said = 0, {}, None, None, None, []

    def __call__(self, line):
        statistics = STATISTICS.search(line)
        if statistics:
            self.counted = {"carried": int(statistics[1]), "bytes": int(statistics[2]), "forwarded": int(statistics[3]),
                            "reasons": statistics[4]}
        elif line.startswith("{"):
            said = json.loads(line)
            self.version = said.get("version", self.version)
            self.expected = said.get("expected", self.expected)
            self.refusal = said.get("refused", self.refusal)
            if "check" in said and not self.checks.get(said["check"], "").startswith("failed"):
                wrong, skipped = said.get("wrong"), said.get("skipped")
                self.checks[said["check"]] = f"failed: {wrong}" if wrong else f"skipped: {skipped}" if skipped else "passed"
        elif line.strip():
            self.said.append(line.strip())

    def judge(self, how, code):
        """What became of the run: "passed", or "failed: " or "skipped: " and why."""
        if code == REFUSED and self.refusal:
            may_refuse = how != "processes" and self.version < SEVERAL
            return (f"{'skipped' if may_refuse else 'failed'}: NCCL {version_text(self.version)} refuses several ranks of one "
                    f"process on one device: {self.refusal}")
        wrong = [f"{check}: {result[8:]}" for check, result in self.checks.items() if result.startswith("failed")]
        if wrong:
            return f"failed: {wrong[0]}"
        if code != 0 or not self.expected:
            return f"failed: the program ended with {code}: {' '.join(self.said[-3:])}"
        if not self.counted:
            return "failed: the door counted nothing: it was not loaded"
        counted = {name: self.counted[name] for name in self.expected}
        if counted != self.expected or not counted["carried"]:
            return f"failed: {counted} were counted, not {self.expected}: {self.counted['reasons']}"
        return "passed"


def version_text(version):
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def find_client(run):
    client = run.binaries / "kolo_gpu_nccl"
    if not client.exists():
        raise NotPossible(f"there is no {client}: where it was built, nccl.h, the CUDA toolkit's headers or libnccl.so.2 lacked")
    if not door_of(run).exists():
        raise NotPossible(f"there is no {door_of(run)}")
    return client


def real_nccl(run):
    nccl, _ = find_nccl(run.args.nccl)
    if not nccl or not nccl.exists():
        raise NotPossible(f"--nccl {nccl}: it is not there" if nccl else "there is no libnccl.so.2: --nccl FILE names it")
    return nccl


def carriers(run, entry):
    """Of the collectives, those whose program is packed; raises NotPossible if none is."""
    packed = {kind: run.plugin(f"{name}.bulk") for kind, name in CARRIERS.items() if run.plugin(f"{name}.bulk").exists()}
    entry["missing"] = sorted(f"{name}.bulk" for kind, name in CARRIERS.items() if kind not in packed)
    if not packed:
        raise NotPossible(f"not packed: {', '.join(entry['missing'])}")
    return packed


def run_door(run, entry):
    """All runs. One that has a result keeps it: the next call of the script goes on."""
    nccl, client = real_nccl(run), find_client(run)
    packed = carriers(run, entry)
    entry["nccl"], runs = str(nccl), entry.setdefault("runs", {})
    for how, ranks in RUNS:
        for way in WAYS:
            name = f"{ranks} ranks, {how}, {way}"
            if name in runs:
                continue
            lines = ClientLines()
            try:
                code = run.stream([client, how, ranks, *packed], lines, variables=variables_for(run, way, nccl, packed.values()))
            except Failed as problem:
                code = problem
            runs[name] = {"result": lines.judge(how, code), "checks": lines.checks, "counted": lines.counted}
            entry["version"] = version_text(lines.version)
            run.save()
    judge_runs(entry, {name: each["result"] for name, each in runs.items()})


def judge_runs(entry, results):
    """Raises Failed if one has failed, and NotPossible if none has passed."""
    states = {name: result.split(":")[0] for name, result in results.items()}
    entry["counts"] = {state: list(states.values()).count(state) for state in ("passed", "failed", "skipped")}
    for state, outcome in (("failed", Failed), ("skipped", NotPossible)):
        first = next((name for name in states if states[name] == state), None)
        if first and (state == "failed" or not entry["counts"]["passed"]):
            raise outcome(f"{entry['counts'][state]} of {len(states)}; the first: {first}: {results[first][len(state) + 2:][:400]}")
    skipped = sorted({results[name] for name in states if states[name] == "skipped"})
    if skipped:
        entry["skipped"] = skipped
