#!/usr/bin/env python3
"""Compiles programs that guesses misjudge, and random choreographies, for kolo_race_test: instrumented for the thread
sanitizer, with pipelines, each rank waiting for nobody but whom its credits name.

usage: compile_net.py KOLO WRITER FOLDER [SEED]

WRITER is kolo_write_choreographies. The seed is printed.
"""
import pathlib
import random
import shutil
import subprocess
import sys

SHIPPED = [("binomialScatter", "rank=7", 32), ("twoSlotRingAllReduce", "rank=5", 16), ("orderedAllReduce", "rank=4", 16),
           ("binomialReduce", "rank=6", 8), ("hierarchicalAllReduce", "node=2,gpu=3", 8)]
DEPTHS = [1, 2, 4, 8, 16, 32]
NUMBER, MOST_RANKS = 10, 6


def main():
    kolo, writer, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    print(f"seed {seed}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([writer, folder, str(seed), str(NUMBER), str(MOST_RANKS)], check=True)
    programs = [(name, ["--mesh", mesh], depth) for name, mesh, depth in SHIPPED]
    programs += [(path, [], DEPTHS[number % len(DEPTHS)]) for number, path in enumerate(sorted(folder.glob("*.mlir")))]
    for program, mesh, depth in programs:
        plugin = folder / f"{pathlib.Path(program).stem}.so"
        subprocess.run([kolo, "compile", program, *mesh, "--pipeline", str(depth), "--entry", "credits", "--sanitize", "thread",
                        "-o", plugin], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
