"""Builds the programs that the machine with a GPU runs, without a compiler of its own: the runtime and the tests."""

import pathlib
import re
import shutil
import subprocess

from light.nccl import flags_for_cmake
from light.outcome import Failed

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = ("kolo_gpu_packed_tests", "kolo_gpu_figures")
CLIENT, DOOR = "kolo_gpu_nccl", "kolo_nccl"
# Every machine has these, or they come with what is tested. All other libraries go into the folder.
ELSEWHERE = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|nccl)\.so|ld-linux|linux-vdso|libkolo_")


def run_or_fail(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if re.search(r"\berror\b(?!:\d)", line, re.I)]
        raise Failed(f"{command[0]}: {lines[0] if lines else f'it ended with {done.returncode}'}")
    return done.stdout


def copy_libraries(target):
    """Libraries that the programs need and the other machine may lack, to where the programs look."""
    for binary in [*(target / "bin").iterdir(), *(target / "lib").glob("*.so*")]:
        for name, path in re.findall(r"(\S+) => (/\S+)", run_or_fail(["ldd", binary])):
            if not ELSEWHERE.match(name) and not (target / "lib" / name).exists():
                shutil.copy(path, target / "lib" / name)


def build_programs(tree, target, jobs):
    """Into `target`/bin and `target`/lib, which may be moved together. Raises Failed."""
    flags = ["-DKOLO_COMPILER=OFF", "-DKOLO_BENCHMARKS=OFF", "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_BUILD_RPATH=$ORIGIN;$ORIGIN/../lib;$ORIGIN/../..", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON", *flags_for_cmake()]
    if shutil.which("ninja"):
        flags.append("-GNinja")
    run_or_fail(["cmake", "-S", SOURCE, "-B", tree, *flags])
    run_or_fail(["cmake", "--build", tree, "-j", jobs, "--target", *PROGRAMS, DOOR,
                 *([CLIENT] if flags_for_cmake() else [])])
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(tree / "lib", target / "lib", symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    (target / "bin").mkdir()
    for name in (*PROGRAMS, CLIENT):
        if (tree / "bin" / name).exists():
            shutil.copy(tree / "bin" / name, target / "bin" / name)
    copy_libraries(target)
