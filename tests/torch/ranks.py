"""Ranks for tests: forked processes that join one process group of torch. Import it before torch."""
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("USE_LIBUV", "0")
warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import kolo_torch  # noqa: E402

torch.set_num_threads(1)


def counts():
    """(carried, forwarded) calls of this process."""
    words = kolo_torch.statistics().split()
    return int(words[words.index("carried") - 1]), int(words[words.index("forwarded") - 1].strip(","))


def _one(body, rank, size, backend, path, timeout):
    from datetime import timedelta
    dist.init_process_group(backend, init_method="file://" + path, rank=rank, world_size=size,
                            timeout=timedelta(seconds=timeout))
    body(rank, size)
    if dist.is_initialized():
        dist.destroy_process_group()


def start(body, size, backend="kolo", timeout=20, per_host=None):
    """Forks the ranks. Returns (process ids, files with what each printed). `per_host`: Kolo takes so many ranks each for
    those of one host."""
    directory = tempfile.mkdtemp(prefix="tests-of-torch-")
    pids, outputs = [], []
    for rank in range(size):
        outputs.append(f"{directory}/{rank}")
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)  # with what the rank may fork
            if per_host:
                os.environ["KOLO_HOSTID"] = f"host{rank // per_host}"
            out = os.open(outputs[-1], os.O_WRONLY | os.O_CREAT)
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = 1
            try:
                _one(body, rank, size, backend, directory + "/join", timeout)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        pids.append(pid)
    return pids, outputs


def wait(pids, outputs, seconds=60):
    """By rank: the exit status (a negative signal number) and what the rank printed. Kills ranks that take longer, and removes
    the files."""
    ends, deadline = {}, time.monotonic() + seconds
    while len(ends) < len(pids):
        for pid in set(pids) - set(ends):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ends[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)  # then the rank ends, and is waited for
        time.sleep(0.005)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    texts = []
    for path in outputs:
        with open(path) as file:
            texts.append(file.read())
    shutil.rmtree(os.path.dirname(outputs[0]))
    return [(ends[pid], text) for pid, text in zip(pids, texts)]


def run(body, size, backend="kolo", timeout=20, per_host=None):
    """Runs `body(rank, size)` on every rank. AssertionError with the output of the ranks that failed."""
    ends = wait(*start(body, size, backend, timeout, per_host))
    wrong = [f"rank {rank}: exit {code}\n{text}" for rank, (code, text) in enumerate(ends) if code != 0]
    if wrong:
        raise AssertionError("\n".join(wrong))
    return [text for _, text in ends]
