"""Every collective of torch on Kolo: results, who carries what, and asynchronous calls."""
import functools
import itertools
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from ranks import counts, dist, kolo_torch, run, torch

REDUCED = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64]
MOVED = REDUCED + [torch.bool, torch.int16, torch.complex64, torch.complex128]
OPERATIONS = {
    "SUM": lambda values: sum(values), "AVG": lambda values: sum(values) // len(values), "MIN": min, "MAX": max,
    "PRODUCT": lambda values: values[0] * (values[1] if len(values) > 1 else 1) * (values[2] if len(values) > 2 else 1),
}


def value(rank, index, size):
    """Small integers that differ by rank; their sum is divisible by `size`."""
    return 1 + (rank + index) % size if size != 2 else 1 + 2 * ((rank + index) % 2)


def block(rank, count, size, dtype, first=0):
    return torch.tensor([value(rank, first + i, size) for i in range(count)]).to(dtype)


def reduced(count, size, dtype, operation, first=0):
    return torch.tensor([OPERATIONS[operation]([value(rank, first + i, size) for rank in range(size)])
                         for i in range(count)]).to(dtype)


def equal(found, wanted, what):
    assert found.dtype == wanted.dtype and torch.equal(found, wanted), f"{what}: {found} is not {wanted}"


def strided(tensor):
    """The same values, every other one in memory."""
    out = torch.zeros(2 * tensor.numel(), dtype=tensor.dtype)[::2]
    out.copy_(tensor)
    return out


def reductions(rank, size):
    for dtype, operation, count in itertools.product(REDUCED, OPERATIONS, (0, 1, 7, 5000)):
        what = f"{operation} of {count} {dtype}"
        op = getattr(dist.ReduceOp, operation)
        tensor = block(rank, count, size, dtype)
        dist.all_reduce(tensor, op)
        equal(tensor, reduced(count, size, dtype, operation), "all_reduce " + what)
        root = count % size
        tensor = block(rank, count, size, dtype)
        dist.reduce(tensor, root, op)
        equal(tensor, reduced(count, size, dtype, operation) if rank == root else tensor, "reduce " + what)
        mine = torch.empty(count, dtype=dtype)
        dist.reduce_scatter(mine, list(block(rank, size * count, size, dtype).chunk(size)) if count else [mine] * size, op)
        equal(mine, reduced(count, size, dtype, operation, rank * count), "reduce_scatter " + what)
        dist._reduce_scatter_base(mine.zero_(), block(rank, size * count, size, dtype), op)
        equal(mine, reduced(count, size, dtype, operation, rank * count), "_reduce_scatter_base " + what)
    assert counts()[1] == 0, kolo_torch.statistics()


def moves(rank, size):
    for dtype, count in itertools.product(MOVED, (0, 1, 7, 5000)):
        what, root = f"of {count} {dtype}", count % size
        blocks = [block(peer, count, size, dtype) for peer in range(size)]
        tensor = blocks[rank].clone()
        dist.broadcast(tensor, root)
        equal(tensor, blocks[root], "broadcast " + what)
        lists = [torch.zeros_like(tensor) for _ in range(size)]
        dist.all_gather(lists, blocks[rank])
        whole = torch.zeros(size * count, dtype=dtype)
        dist._all_gather_base(whole, blocks[rank])
        equal(whole, torch.cat(blocks), "_all_gather_base " + what)
        for peer in range(size):
            equal(lists[peer], blocks[peer], "all_gather " + what)
            lists[peer].zero_()
        dist.gather(blocks[rank], lists if rank == root else None, root)
        for peer in range(size) if rank == root else ():
            equal(lists[peer], blocks[peer], "gather " + what)
        dist.scatter(tensor.zero_(), blocks if rank == root else None, root)
        equal(tensor, blocks[rank], "scatter " + what)
        sent = [block(rank, count, size, dtype, peer) for peer in range(size)]
        wanted = [block(peer, count, size, dtype, rank) for peer in range(size)]
        dist.all_to_all_single(whole, torch.cat(sent))
        equal(whole, torch.cat(wanted), "all_to_all_single " + what)
    assert counts()[1] == 0, kolo_torch.statistics()


def strides(rank, size):
    tensor = strided(block(rank, 40, size, torch.float32))
    dist.all_reduce(tensor)
    equal(tensor, reduced(40, size, torch.float32, "SUM"), "strided all_reduce")
    tensor = block(rank, 24, size, torch.int64).reshape(4, 6).t()
    dist.broadcast(tensor, 1)
    equal(tensor, block(1, 24, size, torch.int64).reshape(4, 6).t(), "transposed broadcast")
    whole = torch.zeros(size, 10)
    dist.all_gather(list(whole), strided(block(rank, 10, size, torch.float32)))  # adjacent rows: no copy
    equal(whole, torch.stack([block(peer, 10, size, torch.float32) for peer in range(size)]), "rows")
    leaf = torch.nn.Parameter(block(rank, 8, size, torch.float32))
    dist.all_reduce(leaf.data)
    equal(leaf.data, reduced(8, size, torch.float32, "SUM"), "parameter")
    assert counts()[1] == 0, kolo_torch.statistics()


def in_order(values):
    return values.clone(), []


def every_other(values):
    base = torch.full((values.shape[0], 2 * values.shape[1]), 99, dtype=values.dtype)
    base[:, ::2] = values
    return base[:, ::2], [base[:, 1::2]]


def transposed(values):
    base = torch.full((values.shape[1] + 1, values.shape[0]), 99, dtype=values.dtype)
    base[:-1] = values.t()
    return base[:-1].t(), [base[-1]]


def negated(values):
    """Imaginary parts of conjugates: torch negates them when somebody reads them."""
    base = torch.complex(torch.full_like(values, 99), -values)
    assert base.conj().imag.is_neg()
    return base.conj().imag, [base.real]


LAYOUTS = (in_order, every_other, transposed, negated)


def end_at_once(work):
    work.wait()


def end_by_looking(work):
    while not work.is_completed():
        time.sleep(0.0001)


def end_by_future(work):
    work.get_future().wait()


def layouts(isCarried, rank, size):
    """Memory of every kind, another one on every rank: what is written, and what lies between it."""
    def make(shift, fill, kinds=LAYOUTS[:3]):  # torch itself loses what is written to the last one
        tensor, between = kinds[(shift + rank) % len(kinds)](fill)
        made.append(between)
        return tensor

    def read(shift, fill):
        return make(shift, fill, LAYOUTS)

    shape = (3, 4)
    mine = [(torch.arange(12.0).reshape(shape) + 1) * (peer + 1) for peer in range(size)]
    total, zeros = sum(mine), torch.zeros(shape)
    for shift, end in itertools.product(range(len(LAYOUTS)), (end_at_once, end_by_looking, end_by_future)):
        made, root = [], shift % size
        values = make(shift, mine[rank])
        end(dist.all_reduce(values, async_op=True))
        equal(values, total, "all_reduce")
        values = make(shift, mine[rank])
        end(dist.broadcast(values, root, async_op=True))
        equal(values, mine[root], "broadcast")
        values = make(shift, mine[rank])
        end(dist.reduce(values, root, async_op=True))
        equal(values if rank == root else total, total, "reduce")
        found = [make(shift + peer, zeros) for peer in range(size)]
        end(dist.all_gather(found, read(shift, mine[rank]), async_op=True))
        equal(torch.stack(found), torch.stack(mine), "all_gather")
        found = [make(shift + peer, zeros) for peer in range(size)] if rank == root else None
        end(dist.gather(read(shift, mine[rank]), found, root, async_op=True))
        equal(torch.stack(found or mine), torch.stack(mine), "gather")
        values = make(shift, zeros)
        if isCarried:  # Gloo has none
            end(dist.reduce_scatter(values, [read(shift + peer, mine[rank] + peer) for peer in range(size)], async_op=True))
            equal(values, total + size * rank, "reduce_scatter")
        values = make(shift, zeros)
        end(dist.scatter(values, [read(shift + peer, mine[peer]) for peer in range(size)] if rank == root else None, root,
                         async_op=True))
        equal(values, mine[rank], "scatter")
        found = [make(shift + peer, zeros) for peer in range(size)]
        end(dist.all_to_all(found, [read(shift + peer, mine[rank] + peer) for peer in range(size)], async_op=True))
        equal(torch.stack(found), torch.stack([each + rank for each in mine]), "all_to_all")
        values = make(shift, torch.zeros(3 * size, 4))
        end(dist.all_to_all_single(values, read(shift + 1, torch.cat([mine[rank] + peer for peer in range(size)])),
                                   async_op=True))
        equal(values, torch.cat([each + rank for each in mine]), "all_to_all_single")
        for between in itertools.chain(*made):
            assert bool((between == 99).all()), f"between the elements: {between}"
    assert (counts()[1] == 0) == isCarried and (counts()[0] == 0) != isCarried, kolo_torch.statistics()
    values, between = LAYOUTS[rank % 2 + 1](mine[rank])
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(values, 1 - rank)
        equal(values, mine[0], "send and recv")
        assert bool((between[0] == 99).all()), between


def lists_of_uneven_blocks(takesTables, rank, size):
    """Of every type and in memory of every kind; rank 1 sends five rows to rank 0, and all else is two."""
    amount = [[5 if (src, dst) == (1, 0) else 2 for dst in range(size)] for src in range(size)]
    for dtype, layout in itertools.product(MOVED, LAYOUTS[:3]):
        found = [layout(torch.zeros(amount[peer][rank], 3).to(dtype))[0] for peer in range(size)]
        sent = [torch.full((amount[rank][peer], 3), (10 * rank + peer) % 2 if dtype == torch.bool else 10 * rank + peer).to(dtype)
                for peer in range(size)]
        dist.all_to_all(found, [layout(each)[0] for each in sent])
        for peer in range(size):
            wanted = (10 * peer + rank) % 2 if dtype == torch.bool else 10 * peer + rank
            equal(found[peer], torch.full((amount[peer][rank], 3), wanted).to(dtype), f"{dtype} of rank {peer}")
    number = 3 * len(MOVED)
    assert counts() == ((number, 0) if takesTables else (0, number)), kolo_torch.statistics()
    assert takesTables or f"{number} uneven sizes" in kolo_torch.statistics(), kolo_torch.statistics()


def mixed_order(rank, size):
    """Gloo pairs calls by their order, in which an all-to-all comes late: it is not Gloo's until the ranks agree."""
    generator = random.Random(rank)
    for step in range(100):
        blocks = [torch.full((2 + (peer == step % size),), float(rank)) for peer in range(size)]
        found = [torch.empty(2 + (rank == step % size)) for _ in range(size)]
        flags = [torch.full((3,), 1 << rank) for _ in range(3)]
        works = [dist.all_to_all(found, blocks, async_op=True)]
        time.sleep(generator.choice((0, 0, 0.0002, 0.001)))
        works += [dist.all_reduce(flag, dist.ReduceOp.BOR, async_op=True) for flag in flags]
        generator.shuffle(works)
        for work in works:
            work.wait()
        equal(torch.stack(found)[:, 0], torch.arange(float(size)), "all_to_all")
        equal(torch.cat(flags), torch.full((9,), (1 << size) - 1), "bit operation")


def exchanges(takesTables, rank, size):
    """Splits that one rank alone cannot know to be uneven: rank 1 sends 5 to rank 0, and all else is 2."""
    amount = [[5 if (src, dst) == (1, 0) else 2 for dst in range(size)] for src in range(size)]
    sent = [torch.full((amount[rank][peer],), 10.0 * rank + peer) for peer in range(size)]
    wanted = torch.cat([torch.full((amount[peer][rank],), 10.0 * peer + rank) for peer in range(size)])
    for asynchronous in (False, True):
        found = torch.zeros_like(wanted)
        work = dist.all_to_all_single(found, torch.cat(sent), [amount[peer][rank] for peer in range(size)], amount[rank],
                                      async_op=asynchronous)
        if asynchronous:
            work.wait()
        equal(found, wanted, "uneven all_to_all_single")
    assert counts() == ((2, 0) if takesTables else (0, 2)), kolo_torch.statistics()
    found, even = torch.zeros(2 * size), [2] * size
    dist.all_to_all_single(found, torch.full((2 * size,), float(rank)), even, even if rank else None)
    equal(found, torch.arange(float(size)).repeat_interleave(2), "even splits")
    assert counts() == ((3, 0) if takesTables else (1, 2)), kolo_torch.statistics()


def forwarded(rank, size):
    tensor = torch.full((3,), 1 << rank)
    dist.all_reduce(tensor, dist.ReduceOp.BOR)
    equal(tensor, torch.full((3,), (1 << size) - 1), "bit operation")
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(tensor.fill_(rank), 1 - rank)
        equal(tensor, torch.zeros(3, dtype=torch.int64), "send and recv")
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    equal(sparse.to_dense(), torch.ones(size), "sparse")
    assert counts() == (0, 3 if rank < 2 else 2) and "1 operation" in kolo_torch.statistics(), kolo_torch.statistics()


def asynchronous(rank, size):
    tensors = [block(rank, 1 + 50 * call, size, torch.float32) for call in range(40)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    told = []
    future = works[3].get_future().then(lambda ended: told.append(ended.value()[0].numel()))
    random.Random(1).shuffle(works)
    for work in works:
        assert work.wait() and work.is_completed()
    for tensor in tensors:
        equal(tensor, reduced(tensor.numel(), size, torch.float32, "SUM"), "asynchronous")
    future.wait()
    assert told == [151], told
    tensor = torch.ones(4)
    works = [dist.all_reduce(tensor, async_op=True) for _ in range(5)]
    works[-1].wait()
    equal(tensor, torch.full((4,), float(size) ** 5), "in order")
    assert torch.equal(works[0].result()[0], tensor)
    # A callback that makes a call and waits for it, as PowerSGD's hook does.
    inner = works[0].get_future().then(
        lambda _: dist.all_reduce(tensor, async_op=True).get_future().wait()[0]).wait()
    equal(inner, torch.full((4,), float(size) ** 6), "inside a callback")


def groups(rank, size):
    subsets = [list(subset) for n in range(1, size + 1) for subset in itertools.combinations(range(size), n)]
    made = [(subset, dist.new_group(subset)) for subset in subsets for _ in range(2)]
    works = []
    for subset, group in made:
        if rank in subset:
            tensor = torch.full((5,), float(rank + 1))
            works.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, subset))
    for work, tensor, subset in reversed(works):
        work.wait()
        equal(tensor, torch.full((5,), float(sum(peer + 1 for peer in subset))), f"group {subset}")
    random.Random(2).shuffle(made)
    for subset, group in made[::2]:
        if rank in subset:
            dist.destroy_process_group(group)
    for subset, group in made[1::2]:
        if rank in subset:
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            equal(tensor, torch.full((1,), float(len(subset))), f"group {subset} after others")


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 100 * rank})
    assert [entry["rank"] for entry in gathered] == list(range(size))
    entries = [("from", 0)] if rank == 0 else [None]
    dist.broadcast_object_list(entries, 0)
    assert entries == [("from", 0)]


def alike(rank, size):
    """Rounded sums have the same bits on all ranks, for counts that divide evenly and that do not."""
    for dtype, count in itertools.product((torch.float32, torch.float16), (5, 1000, 1537, 100000)):
        tensor = torch.rand(count, generator=torch.Generator().manual_seed(rank)).to(dtype)
        dist.all_reduce(tensor)
        found = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(found, tensor)
        for peer in range(size):
            equal(found[peer], tensor, f"all_reduce of {count} {dtype} on rank {peer}")


def coalesced(rank, size):
    tensors = [block(rank, count, size, torch.float64) for count in (3, 1000, 1)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        equal(tensor, reduced(tensor.numel(), size, torch.float64, "SUM"), "all_reduce_coalesced")
    lists = [[torch.zeros(count) for count in (2, 3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [block(rank, count, size, torch.float32) for count in (2, 3)])
    for peer in range(size):
        for found, count in zip(lists[peer], (2, 3)):
            equal(found, block(peer, count, size, torch.float32), "all_gather_coalesced")
    assert counts() == (2, 0), kolo_torch.statistics()


def rounding(rank, size, isCarried, isLossy):
    """Who carries a sum, and whether all of its bits are there."""
    inputs = [torch.randn(5000, generator=torch.Generator().manual_seed(peer)) for peer in range(size)]
    tensor, exact = inputs[rank].clone(), sum(inputs)
    dist.all_reduce(tensor)
    assert counts() == ((1, 0) if isCarried else (0, 1)), kolo_torch.statistics()
    assert isCarried or "1 no program" in kolo_torch.statistics(), kolo_torch.statistics()
    assert torch.equal(tensor, exact) != isLossy
    assert torch.allclose(tensor, exact, atol=0.1)


SHIPPED = os.environ["KOLO_PLUGIN_PATH"].split(":")[0]
TOOL = pathlib.Path(SHIPPED).parents[2] / "bin" / "kolo"


@unittest.skipIf("KOLO_WITHOUT_COMPILER" in os.environ, "the compiler, which makes the plugins, is not built here")
class Lossy(unittest.TestCase):
    """Plugins that lose bits are taken where their table says so, and nowhere else."""

    def compile(self, folder, **fields):
        """Of a table whose only program rounds, or of that program alone."""
        plugin, table = os.path.join(folder, "lossy.kolo.so"), os.path.join(folder, "table.json")
        what = ["quantisedTwoShotAllReduce", "--mesh", "rank=2"]
        if fields:
            entries = [{"collective": "all_reduce", "ranks": 2, "memory": memory, "upToBytes": None,
                        "algorithm": what[0], **fields} for memory in ("windows", "ordinary")]
            pathlib.Path(table).write_text(json.dumps({"entries": entries}))
            what = ["--table", table]
        subprocess.run([TOOL, "compile", *what, "-o", plugin], check=True, stdout=subprocess.DEVNULL)
        return plugin

    def test_only_what_a_table_allows_loses_bits(self):
        for fields, is_lossy in (({}, False), ({"lossy": False}, False), ({"lossy": True, "tag": "dp"}, False),
                                 ({"lossy": True}, True)):
            for others in ([], [SHIPPED]):
                with self.subTest(fields=fields, others=others), tempfile.TemporaryDirectory() as folder:
                    path = ":".join([self.compile(folder, **fields), *others])
                    with mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=path):
                        run(functools.partial(rounding, isCarried=is_lossy or bool(others), isLossy=is_lossy), 2)


def on_hosts(isCarried, rank, size):
    tensor = torch.arange(1000.0) * (rank + 1)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.arange(1000.0) * sum(range(size + 1)))
    assert counts() == ((1, 0) if isCarried else (0, 1)), kolo_torch.statistics()
    gathered = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(gathered, torch.full((3,), float(rank)))
    assert [each[0].item() for each in gathered] == list(range(size))
    assert "no program" in kolo_torch.statistics(), kolo_torch.statistics()
    dist.barrier()


@unittest.skipIf("KOLO_WITHOUT_COMPILER" in os.environ, "the compiler, which makes the plugin, is not built here")
class Hosts(unittest.TestCase):
    def test_calls_are_carried_where_the_plugin_is_for_a_network(self):
        entries = [{"collective": "all_reduce", "mesh": {"node": 2, "gpu": 2}, "memory": memory, "upToBytes": None,
                    "algorithm": "hierarchicalAllReduce"} for memory in ("windows", "ordinary")]
        for network in (["--network", "node"], []):
            with self.subTest(network=network), tempfile.TemporaryDirectory() as folder:
                plugin, table = os.path.join(folder, "hosts.kolo.so"), os.path.join(folder, "table.json")
                pathlib.Path(table).write_text(json.dumps({"entries": entries}))
                subprocess.run([TOOL, "compile", "--table", table, *network, "-o", plugin], check=True,
                               stdout=subprocess.DEVNULL)
                with mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=plugin, KOLO_WAIT="yield"):
                    run(functools.partial(on_hosts, bool(network)), 4, per_host=2)


class Collectives(unittest.TestCase):
    def test_memory_of_every_kind_whoever_carries(self):
        for size, path in itertools.product((2, 3, 5), ("KOLO_PLUGIN_PATH", "KOLO_UNSELECTED")):
            with self.subTest(size=size, path=path), mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ[path]):
                run(functools.partial(layouts, path == "KOLO_PLUGIN_PATH"), size)

    def test_calls_that_gloo_gets_are_in_one_order(self):
        for path in ("KOLO_PLUGIN_PATH", "KOLO_WITHOUT_TABLES"):
            with self.subTest(path=path), mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ[path]):
                run(mixed_order, 3)

    def test_uneven_blocks_whoever_carries(self):
        for size, path, body in itertools.product((2, 3), ("KOLO_PLUGIN_PATH", "KOLO_WITHOUT_TABLES"),
                                                  (lists_of_uneven_blocks, exchanges)):
            with self.subTest(size=size, path=path), mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ[path]):
                run(functools.partial(body, path == "KOLO_PLUGIN_PATH"), size)

    def test_with_2_and_3_ranks(self):
        for size, body in itertools.product((2, 3), (reductions, moves, strides, forwarded, asynchronous, groups,
                                                     objects, alike, coalesced)):
            with self.subTest(size=size, body=body.__name__):
                if body is groups and size == 2:
                    continue
                run(body, size)


if __name__ == "__main__":
    unittest.main(verbosity=2)
