"""Collectives of blocks that differ in length: results, who carries them, and calls that follow each other."""
import functools
import itertools
import os
import random
import unittest
from unittest import mock

from collectives_test import LAYOUTS, MOVED, REDUCED, equal
from ranks import counts, dist, kolo_torch, run, torch

OF_GLOO = [dtype for dtype in REDUCED if dtype != torch.bfloat16]
KINDS = ("equal", "random", "one hot", "all zero", "one huge")


def draw(kind, number, generator):
    """So many lengths of blocks."""
    chosen = generator.randrange(number)
    return [{"equal": 5, "random": generator.choice((0, generator.randrange(9), generator.randrange(300))),
             "one hot": 7 * (index == chosen), "all zero": 0,
             "one huge": 20000 if index == chosen else index}[kind] for index in range(number)]


def cases(size, dtypes):
    """Draws the same on all ranks: (dtype, what follows the first dimension, lengths by giver and taker, what it is)."""
    generator = random.Random(size)
    for dtype, kind, shape in itertools.product(dtypes, KINDS, ((), (3,))):
        lengths = [draw(kind, size, generator) for _ in range(size)]
        yield dtype, shape, lengths, f"{kind} {dtype} {shape} {lengths}"


def values(giver, taker, length, shape, dtype):
    """Whole numbers, of which the sum of all ranks fits every type."""
    numbers = (torch.arange(length) + giver + 2 * taker) % (2 if dtype == torch.bool else 7)
    return numbers.to(dtype).reshape(-1, *[1] * len(shape)).expand(length, *shape).contiguous()


def parts(lengths, rank, shape, dtype):
    """What a rank gives to each, and what it takes of each."""
    return ([values(rank, peer, lengths[rank][peer], shape, dtype) for peer in range(len(lengths))],
            [values(peer, rank, lengths[peer][rank], shape, dtype) for peer in range(len(lengths))])


def all_carried(number):
    assert counts() == (number, 0), kolo_torch.statistics()


def check_lists(found, wanted, what):
    for peer, (one, other) in enumerate(zip(found, wanted)):
        equal(one, other, f"{what}, block {peer}")


def splits(rank, size):
    number = 0
    for number, (dtype, shape, lengths, what) in enumerate(cases(size, MOVED), 1):
        given, taken = parts(lengths, rank, shape, dtype)
        for asynchronous in (False, True):
            found = torch.zeros_like(torch.cat(taken))
            work = dist.all_to_all_single(found, torch.cat(given), [len(each) for each in taken],
                                          [len(each) for each in given], async_op=asynchronous)
            if asynchronous:
                work.wait()
            equal(found, torch.cat(taken), "all_to_all_single " + what)
    all_carried(2 * number)


def lists(rank, size):
    number = 0
    for number, (dtype, shape, lengths, what) in enumerate(cases(size, MOVED), 1):
        given, taken = parts(lengths, rank, shape, dtype)
        found = [torch.zeros_like(each) for each in taken]
        dist.all_to_all(found, given)
        check_lists(found, taken, "all_to_all " + what)
    all_carried(number)


def gathers(rank, size, dtypes=MOVED, isCarried=True):
    number = 0
    for number, (dtype, shape, (lengths, *_), what) in enumerate(cases(size, dtypes), 1):
        wanted = [values(peer, 0, lengths[peer], shape, dtype) for peer in range(size)]
        found = [torch.zeros_like(each) for each in wanted]
        dist.all_gather(found, wanted[rank])
        check_lists(found, wanted, "all_gather " + what)
        adjacent = torch.zeros_like(torch.cat(wanted))  # in which this rank's input lies already
        found = list(adjacent.split(lengths))
        found[rank].copy_(wanted[rank])
        dist.all_gather(found, found[rank], async_op=True).wait()
        equal(adjacent, torch.cat(wanted), "all_gather in place " + what)
    assert counts() == ((2 * number, 0) if isCarried else (0, 2 * number)), kolo_torch.statistics()


def complex_numbers(rank, size):
    """By the methods of the group: torch's functions turn them into real ones."""
    group, dtype = dist.distributed_c10d._get_default_group(), torch.complex128
    lengths = [[giver + 2 * taker for taker in range(size)] for giver in range(size)]
    given, taken = parts(lengths, rank, (2,), dtype)
    found = torch.zeros_like(torch.cat(taken))
    group.alltoall_base(found, torch.cat(given), [len(each) for each in taken], [len(each) for each in given]).wait()
    equal(found, torch.cat(taken), "alltoall_base")
    wanted = [values(peer, 0, 1 + peer, (), dtype) for peer in range(size)]
    gathered = [torch.zeros_like(each) for each in wanted]
    group.allgather([gathered], [wanted[rank]]).wait()
    check_lists(gathered, wanted, "allgather")
    all_carried(2)


def scatters(rank, size):
    number = 0
    for dtype, shape, (lengths, *_), what in cases(size, REDUCED):
        inputs = [[values(peer, taker, lengths[taker], shape, torch.int64) + 1 for taker in range(size)]
                  for peer in range(size)]
        for operation in ("SUM", "MAX", "AVG"):
            given = [each.to(dtype) for each in inputs[rank]]
            wanted = [each[rank] for each in inputs]
            if operation == "AVG":
                given = [(size * each).to(dtype) for each in given]
                wanted = [size * each for each in wanted]
            total = torch.stack(wanted)
            total = total.amax(0) if operation == "MAX" else total.sum(0) // (size if operation == "AVG" else 1)
            found = torch.zeros(lengths[rank], *shape, dtype=dtype)
            dist.reduce_scatter(found, given, getattr(dist.ReduceOp, operation))
            equal(found, total.to(dtype), f"reduce_scatter {operation} {what}")
            number += 1
    all_carried(number)


def some_give_splits(rank, size):
    """A rank whose own blocks are equal may give no splits, whatever the others do."""
    even = [2] * size
    for step in range(6):
        found, given = torch.zeros(2 * size), torch.full((2 * size,), float(rank))
        has_splits = rank % 2 == step % 2
        dist.all_to_all_single(found, given, even if has_splits else None, even if step > 2 and has_splits else None)
        equal(found, torch.arange(float(size)).repeat_interleave(2), "equal splits")
    lengths = [[2 if 0 in (giver, taker) else giver + 3 * taker for taker in range(size)] for giver in range(size)]
    given, taken = parts(lengths, rank, (), torch.float32)
    for step in range(3):
        found = torch.zeros_like(torch.cat(taken))
        sizes = [None if rank == 0 else [len(each) for each in blocks] for blocks in (taken, given)]
        dist.all_to_all_single(found, torch.cat(given), *sizes)
        equal(found, torch.cat(taken), "no splits on rank 0")
    all_carried(9)


def one_after_another(rank, size):
    """Many calls at once: the same splits again, others, and equal ones between them."""
    generator, works = random.Random(3), []
    known = [[draw(kind, size, generator) for _ in range(size)] for kind in KINDS]
    for step in range(60):
        lengths = generator.choice(known) if step % 3 else [draw("random", size, generator) for _ in range(size)]
        given, taken = parts(lengths, rank, (), torch.float32)
        found, gathered = [torch.zeros_like(each) for each in taken], [torch.zeros(each) for each in lengths[0]]
        works.append((dist.all_to_all(found, given, async_op=True), found, taken))
        wanted = [values(peer, 0, lengths[0][peer], (), torch.float32) for peer in range(size)]
        works.append((dist.all_gather(gathered, wanted[rank], async_op=True), gathered, wanted))
    generator.shuffle(works)
    for work, found, wanted in works:
        work.wait()
        check_lists(found, wanted, "one after another")
    all_carried(120)


def memory_of_every_kind(rank, size):
    """Another kind for every block: what lies between the elements stays."""
    lengths, between = [[1 + (giver + 2 * taker) % 4 for taker in range(size)] for giver in range(size)], []

    def lay(blocks, kinds, shift):
        laid = [kinds[(shift + index) % len(kinds)](each) for index, each in enumerate(blocks)]
        between.extend(itertools.chain(*(rest for _, rest in laid)))
        return [tensor for tensor, _ in laid]

    for shift in range(len(LAYOUTS)):
        given, taken = parts(lengths, rank, (3,), torch.float32)
        found = lay([torch.zeros_like(each) for each in taken], LAYOUTS[:3], shift)
        dist.all_to_all(found, lay(given, LAYOUTS, shift + rank))
        check_lists(found, taken, "all_to_all")
        wanted = [values(peer, 0, 2 + peer, (3,), torch.float32) for peer in range(size)]
        found = lay([torch.zeros_like(each) for each in wanted], LAYOUTS[:3], shift + rank)
        dist.all_gather(found, lay([wanted[rank]], LAYOUTS, shift)[0])
        check_lists(found, wanted, "all_gather")
        wanted = [values(0, taker, 2 + taker, (3,), torch.float32) for taker in range(size)]
        found = lay([torch.zeros_like(wanted[rank])], LAYOUTS[:3], shift)[0]
        dist.reduce_scatter(found, lay(wanted, LAYOUTS, shift + rank))
        equal(found, size * wanted[rank], "reduce_scatter")
    assert all(bool((each == 99).all()) for each in between)
    all_carried(3 * len(LAYOUTS))


def coalesced(rank, size):
    wanted = [[values(peer, index, peer + 3 * index, (2,), torch.float64) for index in range(3)] for peer in range(size)]
    found = [[torch.zeros_like(each) for each in ofRank] for ofRank in wanted]
    dist.all_gather_coalesced(found, wanted[rank])
    for peer in range(size):
        check_lists(found[peer], wanted[peer], f"all_gather_coalesced of rank {peer}")
    all_carried(1)


def different_counts(rank, size):
    """What is given and what is taken differ: an error of this call alone, on all ranks."""
    for call in (lambda: dist.all_to_all_single(torch.zeros(2 * size + (rank == 0)), torch.ones(2 * size),
                                                [2] * (size - 1) + [2 + (rank == 0)]),
                 lambda: dist.all_gather([torch.zeros(2 + peer + (rank != peer == 1)) for peer in range(size)],
                                         torch.ones(2 + rank)),
                 lambda: dist.all_gather([torch.zeros(2 + peer * (rank == 0)) for peer in range(size)],
                                         torch.ones(2))):
        try:
            call()
            raise AssertionError("no error")
        except RuntimeError as error:
            assert "Mismatch" in str(error) and "\n" not in str(error), error
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    equal(tensor, torch.full((2,), float(size)), "the group is still usable")


def one_size_alone(rank, size):
    """Gather and scatter take tensors of one size, as with Gloo and MPI: the root refuses others before it starts."""
    unequal = [torch.ones(1 + peer) for peer in range(size)]
    calls = {"gather": lambda: dist.gather(unequal[0], unequal), "scatter": lambda: dist.scatter(unequal[0], unequal)}
    for name, call in calls.items() if rank == 0 else ():
        try:
            call()
            raise AssertionError("no error")
        except (RuntimeError, ValueError) as error:
            assert f"{name}: the tensors of the list differ in size" in str(error), error
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    equal(tensor, torch.full((2,), float(size)), "the group is still usable")
    all_carried(1)


def without_tables(rank, size):
    """By a plugin whose programs take equal blocks alone."""
    lengths = [[giver + 2 * taker for taker in range(size)] for giver in range(size)]
    given, taken = parts(lengths, rank, (2,), torch.int32)
    found = [torch.zeros_like(each) for each in taken]
    dist.all_to_all(found, given)
    check_lists(found, taken, "all_to_all")
    single = torch.zeros_like(torch.cat(taken))
    dist.all_to_all_single(single, torch.cat(given), *([len(each) for each in blocks] for blocks in (taken, given)))
    equal(single, torch.cat(taken), "all_to_all_single")
    assert counts() == (0, 2) and "2 uneven sizes" in kolo_torch.statistics(), kolo_torch.statistics()
    single = torch.zeros(2 * size, 2)
    dist.all_to_all_single(single, torch.full((2 * size, 2), float(rank)))
    equal(single[:, 0], torch.arange(float(size)).repeat_interleave(2), "equal all_to_all_single")
    wanted = [values(peer, 0, 1 + 2 * peer, (2,), torch.complex128) for peer in range(size)]
    gathered = [torch.zeros_like(each) for each in wanted]
    dist.all_gather(gathered, wanted[rank])
    check_lists(gathered, wanted, "all_gather")
    reduced = torch.zeros(3 * rank, dtype=torch.float16)
    dist.reduce_scatter(reduced, [torch.full((3 * peer,), float(peer)).half() for peer in range(size)], dist.ReduceOp.AVG)
    equal(reduced, torch.full((3 * rank,), float(rank)).half(), "reduce_scatter")
    assert counts() == (3, 2), kolo_torch.statistics()


class Uneven(unittest.TestCase):
    def test_with_2_3_and_4_ranks(self):
        for size, body in itertools.product((2, 3, 4), (splits, lists, gathers, complex_numbers, scatters, some_give_splits,
                                                        one_after_another, memory_of_every_kind, coalesced,
                                                        different_counts, one_size_alone)):
            with self.subTest(size=size, body=body.__name__):
                run(body, size)

    def test_gloo_gathers(self):
        with mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ["KOLO_UNSELECTED"]):
            run(functools.partial(gathers, dtypes=OF_GLOO, isCarried=False), 3)

    def test_a_plugin_without_block_tables(self):
        with mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ["KOLO_WITHOUT_TABLES"]):
            for size in (2, 3, 4):
                with self.subTest(size=size):
                    run(without_tables, size)


if __name__ == "__main__":
    unittest.main(verbosity=2)
