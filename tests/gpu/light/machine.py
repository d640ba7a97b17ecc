"""What there is on this machine: programs that tell about it, CUDA, clocks."""

import json
import os
import pathlib
import shutil
import subprocess

from light.outcome import NotPossible


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"


def ask(*command):
    """The output of a program that tells about the machine; nothing if there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


CLOCKS = ("pstate", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
          "temperature.gpu", "utilization.gpu")


def clocks():
    said = ask("nvidia-smi", "--id=0", f"--query-gpu={','.join(CLOCKS)}", "--format=csv,noheader")
    return dict(zip(CLOCKS, said.split(", "))) if said else None


def cuda_folders():
    nvcc = shutil.which("nvcc")
    named = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda",
             nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))]
    return [pathlib.Path(folder) for folder in named if folder]


def find_nvcc():
    beside = [str(folder / "bin/nvcc") for folder in cuda_folders() if (folder / "bin/nvcc").exists()]
    return shutil.which("nvcc") or (beside[0] if beside else None)


def describe(run, entry):
    said = []
    if run.stream([run.binaries / "kolo_gpu_figures", "device"], said.append) != 0:
        raise NotPossible(said[-1] if said else "the program that looks at devices does not run")
    device = json.loads(said[-1])
    if device["name"].startswith("stand-in") != (run.driver == "stand-in"):
        raise NotPossible(f"the device is '{device['name']}', and --driver is {run.driver}")
    run.report["device"] = device
    entry["nvidia-smi"] = ask("nvidia-smi") if run.driver == "cuda" else None
