"""Random calls of ranks on devices of two hosts: over links that lose packets, and with ranks that are killed or stopped and links
that go down. Every element is right, or all other ranks return an error that names a rank and its host; nothing is left.

hosts_test.py RANK_PROGRAM COMPILE STANDIN SECONDS [SEED]. Skipped where hosts cannot be made.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "network/hosts"))
import hosts  # noqa: E402
import ranks  # noqa: E402

PROGRAM, COMPILE, STANDIN, SECONDS = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 30)
PLUGINS = (("hierarchicalAllReduce", "node=2,gpu=2"), ("railAllGather", "node=2,gpu=2"), ("ringAllReduce", "rank=4"),
           ("hierarchicalReduceScatter", "node=2,gpu=2"), ("directAllToAll", "rank=4"), ("binomialBroadcast", "rank=4"),
           ("directReduce", "rank=4"), ("directGather", "rank=4"), ("directScatter", "rank=4"))
PER_HOST, CALLS = 2, 40
FAULTS = {"kill": ("PeerLost", "Aborted"), "stop": ("Timeout", "PeerLost", "Aborted"), "down": ("Timeout", "PeerLost", "Aborted")}


def start(made, plugins, choice, calls, timeout_ms):
    return ranks.Launch(made, PER_HOST, [PROGRAM, str(choice.randrange(1 << 30)), str(calls), *plugins],
                        {"KOLO_CUDA_DRIVER": STANDIN, "KOLO_STANDIN_THREADS": "2", "KOLO_TIMEOUT_MS": str(timeout_ms)})


def expect_right(made, plugins, choice):
    launch = start(made, plugins, choice, CALLS, 25_000)
    try:
        for rank in range(launch.size):
            if (said := launch.hear(rank)).code != "Ok":
                raise AssertionError(f"rank {rank}: {said}")
    finally:
        launch.end()


def break_one(made, plugins, choice):
    """One fault while calls run, which are more than can be made until then."""
    launch = start(made, plugins, choice, 100_000, 5000)
    fault, victim = choice.choice(list(FAULTS)), choice.randrange(launch.size)
    try:
        time.sleep(choice.uniform(0, 1))
        if fault == "down":
            made.link(victim // PER_HOST, "down")
        else:
            launch.signal([victim], signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        for rank in range(launch.size):
            if rank == victim and fault != "down":
                continue
            said = launch.hear(rank)
            named = launch.names_host(said) and (fault == "down" or said.culprit == victim or fault == "stop")
            if said.code not in FAULTS[fault] or not named:
                raise AssertionError(f"{fault} of rank {victim}: rank {rank}: {said}")
    finally:
        if fault == "stop":
            launch.signal([victim], signal.SIGKILL)
        launch.end()
        if fault == "down":
            made.link(victim // PER_HOST, "up")
    made.expect_nothing_left(was_cut=fault == "down")
    return fault


def repeat(seconds, work):
    """What `work` returned each time."""
    until, done = time.monotonic() + seconds, []
    while not done or time.monotonic() < until:
        done.append(work())
    return done


def main():
    if reason := hosts.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    print(f"seed {SEED}", flush=True)
    choice = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="kolo-devices-") as folder:
        plugins = [os.path.join(folder, name + ".so") for name, _ in PLUGINS]
        for path, (name, mesh) in zip(plugins, PLUGINS):
            subprocess.run([COMPILE, name, "staged", path, mesh], check=True)
        with hosts.Hosts(f"kl{os.getpid()}-", 2, loss=1) as made:
            done = repeat(SECONDS / 2, lambda: expect_right(made, plugins, choice))
            print(f"{CALLS * len(done)} random calls over links that lose 1 % of the packets: right", flush=True)
        with hosts.Hosts(f"kf{os.getpid()}-", 2) as made:
            done = repeat(SECONDS / 2, lambda: break_one(made, plugins, choice))
            print(", ".join(f"{done.count(fault)} x {fault}" for fault in FAULTS) + ": named by all other ranks, nothing left")


if __name__ == "__main__":
    main()
