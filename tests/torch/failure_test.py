"""What is wrong is one clear error on every rank, in time; and what ends, ends without a word."""
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from datetime import timedelta

from ranks import dist, kolo_torch, run, start, torch, wait

PACKAGE = os.path.dirname(kolo_torch.__file__)


def message_of(call):
    """The one line of the RuntimeError that the call must raise."""
    try:
        call()
    except RuntimeError as error:
        assert "\n" not in str(error), error
        return str(error)
    raise AssertionError("no error")


def different_counts(rank, size):
    dist.all_reduce(torch.ones(4))
    for asynchronous in (False, True):
        said = message_of(lambda: dist.all_reduce(torch.ones(4 + rank), async_op=asynchronous).wait())
        assert "kolo:all_reduce: Mismatch" in said and "count" in said, said
        tensor = torch.ones(4)
        dist.all_reduce(tensor)  # the group is still usable
        assert torch.equal(tensor, torch.full((4,), float(size))), tensor
    tensors = [torch.ones(3), torch.ones(3 + rank)]
    said = message_of(lambda: dist.all_reduce_coalesced(tensors))
    assert "Mismatch" in said and tensors[1][0] == 1, said
    dist.barrier()


def a_rank_dies(rank, size):
    dist.all_reduce(torch.ones(4))
    begin = time.monotonic()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said = message_of(lambda: [dist.all_reduce(torch.ones(1 << 20)) for _ in range(100)])
    # Who calls after another rank has noticed the loss is told of that.
    assert "rank 1 has ended or left" in said and ("PeerLost" in said or "Aborted" in said), said
    assert time.monotonic() - begin < 10
    print("told", flush=True)
    os._exit(0)  # the group cannot be destroyed together


def a_rank_stays_away(rank, size):
    if rank == 0:
        said = message_of(lambda: dist.all_reduce(torch.ones(4)))
        assert "Timeout" in said and "rank 1" in said, said
    else:
        time.sleep(4)


def a_wait_ends(rank, size):
    if rank == 1:
        time.sleep(1)
    work = dist.barrier(async_op=True)
    if rank == 0:
        said = message_of(lambda: work.wait(timedelta(milliseconds=50)))
        assert "kolo:barrier: not done within 50 ms" in said, said
    assert work.wait()


def wrong_arguments(rank, size):
    for call in (lambda: dist.all_gather([torch.ones(1)] * (size - 1), torch.ones(1)),
                 lambda: dist.all_gather([torch.ones(2)] * size, torch.ones(1)),
                 lambda: dist._all_gather_base(torch.ones(3 * size + 1), torch.ones(3)),
                 lambda: dist.gather(torch.ones(1), [torch.ones(1)] * (size + 1), rank),
                 lambda: dist.all_to_all([torch.ones(1)] * (size + 1), [torch.ones(1)] * (size + 1)),
                 lambda: dist.all_to_all([torch.ones(1)] * size, [torch.ones(1)] * (size - 1) + [torch.ones(1).int()]),
                 lambda: dist.all_to_all([torch.ones(1).int()] * size, [torch.ones(1)] * size),
                 lambda: dist.all_to_all_single(torch.ones(size).int(), torch.ones(size)),
                 lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size)),
                 lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [1] * size, [1] * (size + 1)),
                 lambda: dist.all_to_all_single(torch.ones(2 * size), torch.ones(2 * size), [1] * size, [1] * size),
                 lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [1] * size, [-1, 3] + [0] * (size - 2)),
                 lambda: dist.all_to_all([torch.ones(1).expand(2)] * size, [torch.ones(2)] * size),
                 lambda: dist.broadcast(torch.ones(1).expand(3), 0),
                 lambda: dist.all_reduce(torch.ones(1).expand(3)),
                 lambda: dist.all_reduce(torch.ones(1).int().expand(3), dist.ReduceOp.BOR),
                 lambda: dist.all_gather([torch.ones(1).expand(3)] * size, torch.ones(3))):
        try:
            call()
            raise AssertionError("no error")
        except (ValueError, RuntimeError) as error:
            assert "\n" not in str(error), error
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # the group is still usable
    assert tensor.item() == size


def gloo_refuses(rank, size):
    """At once, or later if a call before it may be Gloo's: the group is usable afterwards."""
    for _ in range(10):
        if rank == 1:
            time.sleep(0.01)
        sizes = [3 if (rank, peer) == (0, 1) else 2 for peer in range(size)]
        found = [torch.empty(3 if (rank, peer) == (1, 0) else 2) for peer in range(size)]
        work = dist.all_to_all(found, [torch.full((each,), float(rank)) for each in sizes], async_op=True)
        try:
            dist.all_reduce(torch.ones(2), dist.ReduceOp.BOR, async_op=True).wait()
            raise AssertionError("no error")
        except (ValueError, RuntimeError) as error:
            assert "BOR" in str(error), error
        work.wait()
        assert [block[0].item() for block in found] == list(range(size)), found
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def a_child_ends(rank, size):
    """As the workers of a DataLoader: a fork that uses no group of its parent, and ends."""
    tensor = torch.ones(1)
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    child = os.fork()
    if child == 0:
        os._exit(int(tensor.item()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == size
    dist.all_reduce(tensor)
    assert tensor.item() == size * size


def shared_bytes():
    """Of this process: its own and what it maps of its peers."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssShmem:"))


def many_groups(rank, size):
    """In turn: each takes memory for its calls, and together they hold a bounded amount."""
    groups = [dist.new_group(list(range(size))) for _ in range(60)]
    for number in range(120):
        tensor = torch.arange(40000.) + rank
        dist.all_reduce(tensor, group=groups[number * 7 % 60])
        assert torch.equal(tensor, torch.arange(40000.) * size + size * (size - 1) // 2), number
    assert 0 < shared_bytes() < size * (16 << 20), shared_bytes()
    assert kolo_torch.statistics().count("0 forwarded"), kolo_torch.statistics()


def groups_at_a_limit(rank, size):
    """At the same time: Gloo takes the calls for which there is no memory, in one order on all ranks."""
    groups = [dist.new_group(list(range(size))) for _ in range(8)]
    for number in range(12):
        tensors = [[torch.arange(60000.) + rank + each for _ in range(3)] for each in range(8)]
        flags = [torch.tensor([1 << rank]).int() for _ in range(8)]
        works = []
        for group, own, flag in zip(groups, tensors, flags):
            works += [dist.all_reduce(own[0], group=group, async_op=True),
                      dist.all_reduce(flag, dist.ReduceOp.BOR, group=group, async_op=True),
                      dist.all_reduce_coalesced(own[1:], group=group, async_op=True)]
        for work in works:
            work.wait()
        for each, (own, flag) in enumerate(zip(tensors, flags)):
            wanted = (torch.arange(60000.) + each) * size + size * (size - 1) // 2
            assert all(torch.equal(tensor, wanted) for tensor in own) and flag.item() == (1 << size) - 1, number
    print(kolo_torch.statistics(), flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


SCRIPT = """
import sys, torch, torch.distributed as dist
if "import" in sys.argv: import kolo_torch
dist.init_process_group("kolo")
tensor = torch.ones(1000)
work = dist.all_reduce(tensor, async_op=True)
group = dist.new_group([0, 1])
dist.all_reduce(tensor, group=group)
if "destroy" in sys.argv: dist.destroy_process_group()
"""


class Failures(unittest.TestCase):
    def run_ranks(self, body, size=2, timeout=20):
        run(body, size, timeout=timeout)

    def test_different_counts(self):
        self.run_ranks(different_counts)

    def test_a_rank_dies(self):
        ends = wait(*start(a_rank_dies, 3))
        self.assertEqual([code for code, _ in ends], [0, -signal.SIGKILL, 0], ends)
        for _, text in (ends[0], ends[2]):
            self.assertTrue(text.endswith("told\n"), text)

    def test_a_rank_stays_away(self):
        self.run_ranks(a_rank_stays_away, timeout=2)

    def test_a_wait_ends(self):
        self.run_ranks(a_wait_ends)

    def test_wrong_arguments(self):
        self.run_ranks(wrong_arguments)

    def test_gloo_refuses(self):
        for size, path in itertools.product((2, 3), ("KOLO_PLUGIN_PATH", "KOLO_WITHOUT_TABLES")):
            with unittest.mock.patch.dict(os.environ, KOLO_PLUGIN_PATH=os.environ[path]):
                self.run_ranks(gloo_refuses, size=size)

    def test_many_groups_hold_a_bounded_amount_together(self):
        self.run_ranks(many_groups, size=4)

    def test_groups_at_a_limit(self):
        with unittest.mock.patch.dict(os.environ, KOLO_MEMORY_MIB="1"):
            ends = wait(*start(groups_at_a_limit, 4))
        self.assertEqual([code for code, _ in ends], [0] * 4, ends)
        self.assertRegex(ends[0][1], r"[1-9]\d* no memory or descriptors for Kolo")

    def test_a_child_ends(self):
        self.run_ranks(a_child_ends)

    def python(self, *arguments, **environment):
        return subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, text=True,
                              capture_output=True, timeout=60)

    def test_bad_plugin_path(self):
        script = ("import kolo_torch, torch.distributed as d\n"
                  "d.init_process_group('kolo', init_method='file:///' + __import__('tempfile').mktemp(), rank=0, world_size=1)")
        done = self.python("-c", script, KOLO_PLUGIN_PATH="/nowhere/x.so")
        self.assertRegex(done.stderr.strip().splitlines()[-1], r"\ARuntimeError: kolo: .*KOLO_PLUGIN_PATH.*/nowhere/x.so")

    def test_another_torch(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(PACKAGE, directory + "/kolo_torch")
            with open(directory + "/kolo_torch/_built_for.py", "w") as file:
                file.write('TORCH_VERSION = "1.0.0"\n')
            done = self.python("-c", "import kolo_torch", PYTHONPATH=directory)
        self.assertRegex(done.stderr.strip().splitlines()[-1],
                         r"\AImportError: kolo_torch was built for torch 1.0.0, and this is torch ")

    def test_torchrun(self):
        # Redirects are given because torch 1.13 fails on their default with Python 3.11.
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script, tempfile.TemporaryDirectory() as logs:
            script.write(SCRIPT)
            script.flush()
            for words in (["destroy"], []):
                done = self.python("-m", "torch.distributed.run", "--nproc_per_node=2", "--redirects=1", "--tee=1", "--log_dir=" + logs,
                                   "--master_addr=127.0.0.1", f"--master_port={free_port()}", script.name, "import", *words,
                                   KOLO_STATS="1")
                if "use_libuv was requested" in done.stderr:
                    self.skipTest("torchrun needs libuv, and this torch is built without it")
                self.assertEqual(done.returncode, 0, done.stderr)
                # Both ranks write to one stream, so line ends may be swapped.
                self.assertEqual(done.stderr.count("kolo torch: 2 calls: 2 carried (8000 bytes), 0 forwarded"), 2, done.stderr)
                self.assertEqual(done.stderr.lower().count("kolo"), 2, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
