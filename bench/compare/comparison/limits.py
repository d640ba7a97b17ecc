"""What the machine can do at most, measured in the same rounds beside the cells that it limits, and how near Kolo comes."""

import statistics
from dataclasses import dataclass

LEAST_LARGE_BYTES = 16 << 20
MOST_SMALL_BYTES = 8
ROUND_TRIPS = 1000
ELEMENT_BYTES = 4
WANTED = {"share": "at least 0.8", "signals": "at most 3"}

# Of a limit: bytes that one rank reads and writes, in sizes of the vector.
MOVED_BY_LIMIT = {"copy": 2.0, "sum": 1.5}
# Of a collective on n ranks: the limit of what it does, and bytes that all ranks together have to read and write.
MOVED_BY_COLLECTIVE = {
    "all_gather": ("copy", lambda n: 2 * n),
    "broadcast": ("copy", lambda n: 2 * (n - 1)),
    "all_reduce": ("sum", lambda n: 2 * n),
}

NOTES = """\
Measured right after the cell's systems in every round, by `kolo-bench-limits` in the same harness, ranks pinned alike, on \
memory of the same kind as the system's: shared for windows, private for ordinary memory, both on huge pages if the kernel gives \
them. `copy`: every rank copies S bytes of its own to S bytes of its own; `sum`: every rank adds the halves of S bytes of its own \
and stores the S/2 bytes of sums; both by non-temporal stores, all N ranks at once. Their bandwidth is bytes read and bytes written of all \
ranks by the time of the operation: 2 N S and 1.5 N S. `signal`: a cache line goes to and fro between ranks 0 and 1; half of one \
round trip. `call`: an operation that does nothing, by the harness's rule.

With a vector of S bytes, the bytes that count for Kolo are those which the collective cannot do without, read and written by \
all ranks together: all_gather N S + N S, broadcast (N - 1) S + (N - 1) S, all_reduce N S + N S. The share is those bytes by \
Kolo's time, over the limit's bandwidth in the same round: for broadcast that of all ranks copying, the root too. Signals are \
(Kolo's time - the call's time) / the signal's. Medians over the rounds. Wanted: a share of at least 0.8, at most 3 signals."""


@dataclass(frozen=True)
class Limit:
    name: str  # as kolo-bench-limits calls it
    size_bytes: int  # that it is asked for


def limits_of(collective: str, ranks: int, size_bytes: int) -> tuple[Limit, ...]:
    """What limits a cell; nothing for most."""
    if ranks < 2 or collective not in MOVED_BY_COLLECTIVE:
        return ()
    if size_bytes >= LEAST_LARGE_BYTES:
        return (Limit(MOVED_BY_COLLECTIVE[collective][0], size_bytes),)
    if size_bytes <= MOST_SMALL_BYTES and collective != "all_gather":
        return (Limit("call", MOST_SMALL_BYTES), Limit("signal", ROUND_TRIPS * ELEMENT_BYTES))
    return ()


def median_of(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def reached(cell: dict, ours: list[float], times: dict[str, list[float]]) -> dict:
    """How one system does in a cell: its times and those of the cell's limits, a number per round. None where there is none."""
    if "signal" in times:
        one_way = [time / (2 * ROUND_TRIPS) for time in times["signal"]]
        signals = [(time - call) / signal for time, call, signal in zip(ours, times["call"], one_way)]
        return {"signalUs": median_of(one_way), "callUs": median_of(times["call"]), "signals": median_of(signals)}
    (name, limit_times), = times.items()
    size, ranks = cell["bytes"], cell["ranks"]
    most = MOVED_BY_LIMIT[name] * ranks * size
    least = MOVED_BY_COLLECTIVE[cell["collective"]][1](ranks) * size
    shares = [least / time / (most / limit) for time, limit in zip(ours, limit_times)]
    return {"limit": name, "limitGBps": median_of([most / limit / 1e3 for limit in limit_times]), "share": median_of(shares)}
