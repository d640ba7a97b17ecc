"""PyTorch's door to Kolo. `import kolo_torch`, then torch.distributed.init_process_group("kolo"); from torch 2.14 on
without the import. Serves tensors in the memory of the host."""
import atexit
import functools
import inspect
import sys

import torch
import torch.distributed as dist

from ._built_for import TORCH_VERSION

if torch.__version__ != TORCH_VERSION:
    raise ImportError(f"kolo_torch was built for torch {TORCH_VERSION}, and this is torch {torch.__version__}: build it "
                      "again for this one (docs/loading.md, PyTorch)")
if not dist.is_available() or not dist.is_gloo_available():
    raise ImportError(f"kolo_torch needs torch.distributed with Gloo, which this torch {torch.__version__} lacks")

from . import _C  # noqa: E402  only after the check: it is linked against one torch


def create(store, rank, size, timeout):
    """A process group. Torch calls it on every rank of the group."""
    _print_statistics_at_exit()
    if rank == 0:
        _print_notice()
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout=timeout)
    return _C.create(dist.PrefixStore("kolo", store), rank, size, timeout, gloo)


def statistics():
    """One line: calls that Kolo carried in this process, and calls that Gloo got, by reason."""
    return _C.statistics()


@functools.cache
def _print_notice():
    if _C.notice():
        print(f"kolo torch: {_C.notice()}", file=sys.stderr)


@functools.cache
def _print_statistics_at_exit():
    if _C.wants_statistics():
        atexit.register(lambda: print(statistics(), file=sys.stderr))


def register():
    """Makes "kolo" a backend of torch.distributed. Importing this package has done so."""
    if "KOLO" in dist.Backend._plugins:
        return
    options = {"devices": "cpu"} if "devices" in inspect.signature(dist.Backend.register_backend).parameters else {}
    dist.Backend.register_backend("kolo", create, **options)


register()
