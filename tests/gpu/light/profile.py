"""NVIDIA's own tools on Kolo's kernels: compute-sanitizer looks for wrong accesses, ncu tells where the time goes."""

import shutil

from light.outcome import Failed, NotPossible
from light.tests import run_tests

# What is profiled: the arguments of `kolo_gpu_figures once`.
KERNELS = {"small": ("oneShotAllReduce", "ll", 8 << 10, 8, 256), "large": ("twoShotAllReduce", "bulk", 256 << 20, 16, 512)}
CALLS_BEFORE = 2  # of `once`


def find(run, tool):
    found = shutil.which(tool)
    if run.driver != "cuda" or not found:
        raise NotPossible(f"there is no {tool}" if run.driver == "cuda" else f"{tool} is for GPUs")
    return found


def sanitize(run, entry):
    """The part `start` again, watched."""
    wrapper = [find(run, "compute-sanitizer"), "--tool", "memcheck", "--error-exitcode", "9"]
    run_tests(run, entry, "All/DeviceAlgorithms.GiveTheReferences*/ringAllGather", 1, wrapper)


def profile(run, entry):
    """A text for each kernel beside the report: the sections of ncu, and every instruction with its samples."""
    ncu, done = find(run, "ncu"), entry.setdefault("kernels", {})
    for name, (program, protocol, size, lanes, threads) in KERNELS.items():
        if name in done or not run.plugin(f"{program}.{protocol}").exists():
            continue
        record = run.args.work / f"{name}.ncu-rep"
        command = [run.binaries / "kolo_gpu_figures", "once", "--program", program, "--protocol", protocol, "--largest", size,
                   "--lanes", lanes, "--threads", threads]
        # The card's clocks stay as they are.
        if run.stream([ncu, "--set", "full", "--clock-control", "none", "--launch-skip", CALLS_BEFORE, "--launch-count", 1,
                       "--force-overwrite", "--export", record, *command]) != 0:
            raise Failed(f"ncu fails on {name}: see the log")
        for page, options in (("details", ()), ("source", ("--print-source", "sass", "--csv"))):
            lines = []
            code = run.stream([ncu, "--import", record, "--page", page, *options], lines.append, is_logged=False)
            (run.args.out / f"{name}-{page}.txt").write_text("\n".join(lines) + "\n")
            done[name] = "passed" if code == 0 else f"ncu --page {page} ends with {code}"
        run.save()
    if not done:
        raise NotPossible("no such plugin was packed")
