"""One small all-reduce on 16 hosts of one rank: every byte is right, and its messages and connections are counted.

many_test.py RANK_PROGRAM. Skipped where hosts cannot be made.
"""
import os
import subprocess
import sys
import tempfile

import hosts
import ranks

NUMBER = 16
ROUNDS = 4  # 2^4 hosts
CALLS = 5


def main():
    if reason := hosts.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="many-hosts-") as folder, hosts.Hosts(f"km{os.getpid()}-", NUMBER) as made:
        plugin = os.path.join(folder, "ring.so")
        subprocess.run([os.environ["KOLO"], "compile", "ringAllReduce", "--mesh", f"rank={NUMBER}", "--network", "rank",
                        "-o", plugin], check=True, stdout=subprocess.DEVNULL)
        launch = ranks.Launch(made, 1, [sys.argv[1], "count", plugin], {"KOLO_WAIT": "sleep"})
        try:
            said = [(launch.line(rank), launch.hear(rank).code) for rank in range(NUMBER)]
        finally:
            launch.end()
    # Each speaker sends one message in each round. Its neighbours are 1, 2, 4 and 8 hosts away; with each it has one
    # connection for data and one for mail. The ring needs no others.
    neighbours = {(sign * 2**round) % NUMBER for round in range(ROUNDS) for sign in (1, -1)}
    expected = (f"messages {CALLS * ROUNDS} new 0 connections {2 * len(neighbours)}\n", "Ok")
    if said != [expected] * NUMBER:
        raise AssertionError(f"not {expected} on every rank: {said}")


if __name__ == "__main__":
    main()
