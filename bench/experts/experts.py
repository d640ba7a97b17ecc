#!/usr/bin/env python3
"""Tokens to experts and back: Kolo beside index_select and all_to_all_single on Gloo, in turns, results compared.

  bench/experts/experts.py BUILD [--tokens 128,4096] [--ranks 8] [--rounds 3] [--python PYTHON]

BUILD is a build folder; PYTHON one that has torch. Prints one line for each number of tokens and each part: the medians of
both in microseconds, over the rounds, their ranges, and the ratio of the medians.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = {"hidden": 7168, "experts": 64, "per-token": 8}


def read(text):
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()}


def run_kolo(given, plugin, tokens, iterations, folder):
    command = [given.build / "bin/kolo-bench-experts", plugin, f"rank={given.ranks}", tokens, *SHAPE.values(), iterations, folder]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kolo-bench-experts: {done.stderr}")
    return read(done.stdout)


def run_gloo(given, tokens, iterations, folder):
    words = [given.python, HERE / "gloo.py", "--tokens", tokens, "--iterations", iterations, "--folder", folder,
             *(word for name, value in SHAPE.items() for word in (f"--{name}", value))]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555", "WORLD_SIZE": str(given.ranks)}
    ranks = [subprocess.Popen([str(word) for word in words], env={**environment, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE) for rank in range(given.ranks)]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit("gloo.py failed")
    return read(said[0])


def compare(kolo, gloo, ranks):
    for rank in range(ranks):
        if (pathlib.Path(kolo) / str(rank)).read_bytes() != (pathlib.Path(gloo) / str(rank)).read_bytes():
            sys.exit(f"rank {rank}: results differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--tokens", default="128,4096")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plugin = os.path.join(folder, "experts.so")
        subprocess.run([given.build / "bin/kolo", "compile", "directAllToAll", "--mesh", f"rank={given.ranks}", "-o", plugin],
                       check=True, stdout=subprocess.DEVNULL)
        for tokens in map(int, given.tokens.split(",")):
            iterations = 5 if tokens <= 1024 else 2
            times = {"kolo": [], "gloo": []}
            for round_ in range(given.rounds):
                folders = {name: os.path.join(folder, f"{name}-{tokens}-{round_}") for name in times}
                for each in folders.values():
                    os.mkdir(each)
                times["kolo"].append(run_kolo(given, plugin, tokens, iterations, folders["kolo"]))
                times["gloo"].append(run_gloo(given, tokens, iterations, folders["gloo"]))
                compare(folders["kolo"], folders["gloo"], given.ranks)
            for part in ("dispatch", "combine"):
                columns, medians = [], {}
                for name, rounds in times.items():
                    each = [found[part] for found in rounds]
                    medians[name] = statistics.median(each)
                    columns.append(f"{name} {medians[name]:.0f} [{min(each):.0f}-{max(each):.0f}] us")
                print(f"{tokens} tokens, {part}: {', '.join(columns)}, ratio {medians['gloo'] / medians['kolo']:.2f}", flush=True)


if __name__ == "__main__":
    main()
