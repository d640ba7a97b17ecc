"""What is wrong is one clear error on every rank, in time; and what ends, ends without a word."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
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
        assert "kolo:all_reduce: " + ("Aborted" if asynchronous else "Mismatch") in said and "count" in said, said


def a_rank_dies(rank, size):
    dist.all_reduce(torch.ones(4))
    begin = time.monotonic()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said = message_of(lambda: [dist.all_reduce(torch.ones(1 << 20)) for _ in range(100)])
    assert "rank 1" in said and "PeerLost" in said, said
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
        for size in (2, 3):
            self.run_ranks(gloo_refuses, size=size)

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
