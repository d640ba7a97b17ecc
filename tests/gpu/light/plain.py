"""The plain kernel: compiled where Kolo is built, or where the GPU is."""

import os
import pathlib
import subprocess

from light.machine import find_nvcc, last_line
from light.outcome import Failed


SOURCE = pathlib.Path(__file__).resolve().parents[1] / "plain.cu"


def compile_plain(output, architecture, for_stand_in):
    """How the plain kernel was compiled; nothing if it was not. Raises Failed."""
    nvcc = find_nvcc()
    if for_stand_in:
        command = [os.environ.get("CXX", "c++"), "-x", "c++", "-std=c++17", "-O2", "-shared", "-fPIC"]
    elif nvcc:
        command = [nvcc, "-O3", "-cubin", f"-arch={architecture}"]
    else:
        return None
    done = subprocess.run([*command, SOURCE, "-o", output], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {last_line(done.stderr + done.stdout)}")
    return " ".join(command)
