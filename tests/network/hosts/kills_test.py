"""Ranks are killed at random times: all others name rank and host, and nothing is left.

kills_test.py RANK_PROGRAM PLUGIN NUMBER [SEED]. Skipped where hosts cannot be made. Prints how long the ranks took.
"""
import os
import random
import signal
import sys
import time

import hosts
import ranks

PROGRAM, PLUGIN, NUMBER = sys.argv[1], sys.argv[2], int(sys.argv[3])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
MOST_SECONDS = 5  # a second, on a machine that is not loaded
# (hosts, ranks on each): where a host has one rank, the victim is its host's last one.
LAYOUTS = [(2, 2), (3, 1)]


def check(launch, victim):
    """The seconds that the slowest rank took."""
    killed = time.monotonic()
    launch.signal([victim], signal.SIGKILL)
    slowest = 0
    for rank in range(launch.size):
        if rank == victim:
            continue
        said = launch.hear(rank)
        # Aborted: the rank was in no call when the communicator ended; the message has the cause.
        if said.code not in ("PeerLost", "Aborted") or said.culprit != victim or not launch.names_host(said):
            raise AssertionError(f"rank {rank}, of the death of rank {victim}: {said}")
        slowest = max(slowest, said.time - killed)
        launch.ranks[rank].wait(10)
    launch.ranks[victim].wait(10)
    return slowest


def kill_some(layout, number, choice):
    number_of_hosts, per_host = layout
    times = []
    with hosts.Hosts(f"kk{os.getpid()}-", number_of_hosts) as made:
        for _ in range(number):
            mode, wait = choice.choice(["traffic", "idle"]), choice.choice(["auto", "yield", "sleep"])
            victim = choice.choice([0, choice.randrange(number_of_hosts * per_host)])
            delay = choice.uniform(0, 0.3)
            launch = ranks.Launch(made, per_host, [PROGRAM, mode, PLUGIN], {"KOLO_WAIT": wait})
            try:
                time.sleep(delay)
                taken = check(launch, victim)
            except Exception as error:
                raise AssertionError(f"{mode}, {wait}, rank {victim} after {delay:.3f} s: {error}") from error
            finally:
                launch.end()
            if taken > MOST_SECONDS:
                raise AssertionError(f"{mode}, {wait}, rank {victim} after {delay:.3f} s: {taken:.1f} s")
            times.append(taken)
            made.expect_nothing_left()
    return times


def main():
    if reason := hosts.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    print(f"seed {SEED}", flush=True)
    choice, before = random.Random(SEED), set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
    times = []
    for index, layout in enumerate(LAYOUTS):
        times += kill_some(layout, (NUMBER + index) // len(LAYOUTS), choice)
    mine = f"kk{os.getpid()}-"
    left = [name for name in set(os.listdir("/run/netns")) - before if name.startswith(mine)]
    if left:
        raise AssertionError(f"namespaces left: {left}")
    times.sort()
    late = sum(each > 1 for each in times)
    print(f"{len(times)} kills: median {times[len(times) // 2] * 1e3:.0f} ms, slowest {times[-1] * 1e3:.0f} ms, "
          f"{late} slower than a second")


if __name__ == "__main__":
    main()
