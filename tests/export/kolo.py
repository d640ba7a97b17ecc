"""Runs `kolo export`, and reads and replays what it writes."""
import concurrent.futures
import json
import os
import subprocess

from reader import Algorithm
from replay import Replay

KOLO = os.environ["KOLO"]


def run(*arguments):
    """Exit code, standard output, standard error."""
    done = subprocess.run([KOLO, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def export(algorithm, mesh, *flags, profile="rccl-6.1"):
    return run("export", algorithm, "--mesh", mesh, "--format", "msccl-xml", "--profile", profile, *flags)


def shipped():
    """Algorithms with a collective that RCCL takes from XML: name, names of the mesh's dimensions, those that it runs over."""
    found = []
    for row in json.loads(run("list", "--json")[1]):
        collective, _, over = row["collective"].partition(" over ")
        if collective in ("all_gather", "all_reduce", "all_to_all", "reduce_scatter"):
            found.append((row["name"], row["mesh"], over.split(",") if over else row["mesh"]))
    return found


def factorisations(size, numDims):
    if numDims == 1:
        return [(size,)]
    return [(first, *rest) for first in range(1, size + 1) if size % first == 0
            for rest in factorisations(size // first, numDims - 1)]


def mesh(dims, over, size):
    """A mesh of so many ranks, all of which collect with each other, with dimensions of like sizes."""
    shape = min(factorisations(size, len(over)), key=lambda sizes: max(sizes) - min(sizes))
    sizes = dict(zip(over, shape))
    return ",".join(f"{name}={sizes.get(name, 1)}" for name in dims)


def replay(text, profile="rccl-6.1", inPlace=False, **options):
    Replay(Algorithm(text, profile), inPlace, **options).run()


def inParallel(function, items):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return list(pool.map(function, items, chunksize=4))
