"""Parts that measure."""

import json
import time

from light.machine import clocks, find_nvcc, last_line
from light.outcome import Failed, NotPossible, OutOfTime
from light.plain import compile_plain


def plain_image(run, entry):
    """The plain kernel: compiled now if nvcc can, else the packed one. The report says which."""
    packed, image = run.args.plugins / "plain.image", run.args.work / "plain.cubin"
    entry["plainKernel"] = f"packed: {run.packed['plain']}" if packed.exists() else None
    if run.driver == "cuda" and find_nvcc():
        try:
            entry["plainKernel"] = compile_plain(image, run.report["device"]["architecture"], False)
            return image
        except Failed as problem:
            run.say(f"the plain kernel is not compiled here: {problem}")
    return packed


def measure(run, entry, part):
    figures, wrong, said = entry.setdefault("figures", []), [], []
    figures.clear()
    seconds = max(1.0, run.limit - time.monotonic() - 3)
    largest = 4096 if run.driver == "stand-in" else run.args.largest
    command = [run.binaries / "kolo_gpu_figures", part, "--largest", str(largest), "--seconds", f"{seconds:.1f}"]
    if part in ("limits", "rivals"):
        command += ["--plain", plain_image(run, entry)]

    def read(line):
        if not line.startswith("{"):
            said.append(line)
            return
        figure = json.loads(line)
        figures.append(figure)
        if "wrong" in figure:
            wrong.append(f"{figure.get('program', figure['figure'])}: {figure['wrong']}")
    entry["clocksBefore"] = clocks() if run.driver == "cuda" else None
    code = run.stream(command, read)
    entry["clocksAfter"] = clocks() if run.driver == "cuda" else None
    entry["missing"] = sorted({figure["missing"] for figure in figures if "missing" in figure})
    figures[:] = [figure for figure in figures if "missing" not in figure]
    if wrong:
        raise Failed(wrong[0])
    if code == 3:
        raise OutOfTime(f"its time was over after {len(figures)} figures")
    if code != 0:
        raise Failed(last_line("\n".join(said)))
    if not figures:
        raise NotPossible(f"not packed: {', '.join(entry['missing'])}")


def figures(part):
    return lambda run, entry: measure(run, entry, part)
