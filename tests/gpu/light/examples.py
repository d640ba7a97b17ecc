"""NCCL's own example programs, unchanged, behind the door. They come from a checkout of NCCL that the user names."""

import os
import re

from light.machine import cuda_folders, last_line
from light.nccl import ClientLines, WAYS, carriers, door_of, find_nccl, judge_runs, real_nccl, variables_for
from light.outcome import Failed, NotPossible

# What the door carries.
CARRIED = re.compile(r"\bnccl(AllReduce|Reduce|ReduceScatter|AllGather|Broadcast|Bcast|AlltoAll|Gather|Scatter)\(")


def sources(folder):
    """The programs for several devices of one process. Those of the device API have kernels of their own."""
    return [path for path in sorted(folder.rglob("main.cc"))
            if not re.search("device_api|mpi", str(path.relative_to(folder)))]


def compile_example(run, source, nccl, output):
    """Raises Failed."""
    common = next((parent / "common" for parent in source.parents if (parent / "common/include").is_dir()), None)
    _, include = find_nccl()
    folders = [folder for folder in (include, *(folder / "include" for folder in cuda_folders())) if folder]
    libraries = [folder / name for folder in cuda_folders() for name in ("lib64", "lib") if (folder / name).is_dir()]
    runtime = ["-lcudart"] if any(list(folder.glob("libcudart.so")) for folder in libraries) else []
    command = [os.environ.get("CXX", "c++"), "-O1", source, *(common.glob("src/*.cc") if common else []),
               *(f"-I{folder}" for folder in ([common / "include"] if common else []) + folders), nccl,
               *(f"-L{folder}" for folder in libraries), *runtime, "-ldl", "-lpthread", "-o", output]
    said = []
    if run.stream(command, said.append) != 0:
        wrong = [line for line in said if "error" in line]
        raise Failed(f"it does not compile: {wrong[0] if wrong else last_line(chr(10).join(said))}")


def judge(lines, code, calls):
    """One rank has nothing to carry: NCCL's examples have a rank per device."""
    if code != 0:
        return f"failed: it ended with {code}: {' '.join(lines.said[-3:])}"
    if not calls:
        return "passed"
    if not lines.counted:
        return "failed: the door counted nothing: it was not loaded"
    if lines.counted["carried"]:
        return "passed"
    reasons = lines.counted["reasons"] or ""
    if re.fullmatch(r"\d+ one rank", reasons):
        return f"skipped: right, but one device has one rank: all is forwarded ({reasons})"
    return f"failed: nothing was carried: {reasons}"


def run_example(run, source, nccl, plugins):
    """The result, and what the door counted in each way; the first way that is not right ends it."""
    program, counted, result = run.args.work / "example", {}, ""
    calls = CARRIED.search(source.read_text(errors="replace"))
    for way in WAYS:
        lines = ClientLines()
        try:
            if not counted:
                compile_example(run, source, nccl, program)
            code = run.stream([program], lines, variables=variables_for(run, way, nccl, plugins))
            result = judge(lines, code, calls)
        except Failed as problem:
            result = f"failed: {problem}"
        counted[way] = lines.counted
        if result.startswith("failed"):
            return {"result": f"failed: {way}: {result[8:]}", "counted": counted}
    return {"result": result, "counted": counted}


def run_examples(run, entry):
    folder = run.args.examples
    if not folder:
        raise NotPossible("KOLO_NCCL_EXAMPLES is not set, and there is no --examples")
    found = sources(folder) if folder.is_dir() else []
    if not found:
        raise NotPossible(f"{folder}: there is no main.cc of an example in it")
    nccl, packed = real_nccl(run), carriers(run, entry)
    if not door_of(run).exists():
        raise NotPossible(f"there is no {door_of(run)}")
    entry["folder"], runs = str(folder), entry.setdefault("runs", {})
    for source in found:
        name = str(source.parent.relative_to(folder))
        if name not in runs:
            runs[name] = run_example(run, source, nccl, packed.values())
            run.save()
    judge_runs(entry, {name: each["result"] for name, each in runs.items()})
    if not any(counted and counted["carried"] for each in runs.values() for counted in each["counted"].values()):
        raise NotPossible(f"nothing could be carried: {'; '.join(entry.get('skipped', ['no example has a collective']))}")
