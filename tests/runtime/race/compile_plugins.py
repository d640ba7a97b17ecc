#!/usr/bin/env python3
"""Compiles all shipped algorithms, instrumented for the thread sanitizer, for kolo_race_test.

usage: compile_plugins.py KOLO FOLDER

FOLDER/*.so      what ships, by its own credits, with ranks that enter together, with inputs published, in packets, and some in
                 lines; must have no races
FOLDER/racy/     programs that lack a signal or a credit inside of a call
FOLDER/eager/    programs that lack a credit for the entry to a call
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FILES = HERE.parents[1] / "cli" / "files"
# By number of dimensions: the meshes of choice, then those for algorithms that need powers of two.
MESHES = {1: [[(2,), (3,), (4,)], [(2,), (4,)]], 2: [[(2, 2), (2, 3)]], 3: [[(2, 1, 2), (2, 2, 2)]]}


def compile_to(kolo, path, *arguments):
    command = [kolo, "compile", *arguments, "--sanitize", "thread", "-o", str(path)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


SCHEDULES = {"": ["--entry", "credits"], ".together": ["--entry", "together"], ".published": ["--protocol", "published"],
             ".ll": ["--entry", "credits", "--protocol", "ll"]}
# Of these alone, since memory is used again in the same order as with packets: a ring, many senders, and one that needs credits.
LL128 = {"ringAllReduce", "allPairsAllGather", "binomialBroadcast"}
# What the compiler says of an algorithm that a protocol does not suit.
UNSUITED = {"published": ["from which nothing is sent here"],
            "ll": ["this sends to slots that hold something of the same call", "this sends to slots that packets cannot stand for"]}


def compile_shipped(kolo, folder, name, dims):
    """Returns the number of plugins."""
    schedules = dict(SCHEDULES)
    if name in LL128:
        schedules[".ll128"] = ["--entry", "credits", "--protocol", "ll128"]
    return sum(compile_schedule(kolo, folder / f"{name}{suffix}.so", name, dims, options) for suffix, options in schedules.items())


def compile_schedule(kolo, path, name, dims, options):
    for meshes in MESHES[len(dims)]:
        texts = [",".join(f"{dim}={size}" for dim, size in zip(dims, sizes)) for sizes in meshes]
        outcome = compile_to(kolo, path, name, *options, *(word for text in texts for word in ("--mesh", text)))
        if outcome.returncode == 0:
            return 1
        if not any(words in outcome.stderr for words in ("must be a power of two", " needs a power ", " needs powers ")):
            break
    if any(words in outcome.stderr for words in UNSUITED.get(options[-1], [])):
        return 0
    sys.exit(outcome.stderr)


def compile_racy(kolo, folder, source):
    folder.mkdir(exist_ok=True)
    outcome = compile_to(kolo, folder / (source.stem + ".so"), str(source), "--unproved")
    if outcome.returncode != 0:
        sys.exit(outcome.stderr)


def main():
    kolo, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shipped = json.loads(subprocess.run([kolo, "list", "--json"], check=True, capture_output=True, text=True).stdout)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(compile_shipped, kolo, folder, entry["name"], entry["mesh"]) for entry in shipped]
        jobs.append(pool.submit(compile_racy, kolo, folder / "racy", FILES / "racy.mlir"))
        jobs.append(pool.submit(compile_racy, kolo, folder / "racy", HERE / "reused.mlir"))
        jobs.append(pool.submit(compile_racy, kolo, folder / "eager", FILES / "eager.mlir"))
        numPlugins = sum(job.result() or 0 for job in jobs)
    print(f"{len(shipped)} algorithms are in {folder}, {numPlugins} plugins")


if __name__ == "__main__":
    main()
