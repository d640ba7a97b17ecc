"""torch's own distributed tests, out of its package, on Kolo: suite.py WORLD_SIZE [--only NAME,NAME...] [--floor NUMBER] [--like BACKEND].

A test that runs with Kolo and passes with Gloo must pass with Kolo, but for those of EXCEPTIONS. Skips are counted by
reason. The tests are collected as for Gloo, so every test that Gloo runs is run. `--like mpi` collects them as for MPI, the only
backend for which torch tests all-to-all on hosts."""
import argparse
import collections
import io
import logging
import os
import shutil
import sys
import tempfile
import types
import unittest
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

# Pass with Gloo and cannot pass with Kolo: the start of the name, what torch must say, and the reason.
EXCEPTIONS = (
    ("test_monitored_barrier", "monitored_barrier is only implemented for GLOO backend",
     "torch's monitored_barrier refuses every backend that is not named gloo"),
    ("test_accumulate_gradients_no_sync", "variable 'ddp_model'",
     "the test makes its model only for backends named gloo, mpi or nccl"),
    ("test_ddp_logging_data_cpu", "'custom' != 'kolo'", "from torch 2 DDP logs every backend that torch does not know as custom"),
)


def reason_to_fail(name, text):
    """Why this test cannot pass with Kolo, if it failed in the way that EXCEPTIONS says; else nothing."""
    return next((reason for start, said, reason in EXCEPTIONS if name.startswith(start) and said in text), None)


def provide_expecttest():
    """torch imports it, and Debian 12 lacks it. The distributed tests use no expected text."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        module = types.ModuleType("expecttest")
        module.TestCase, module.ACCEPT = unittest.TestCase, False
        sys.modules["expecttest"] = module


def tell_tables(tests, common):
    """What torch's tables say of Gloo holds for Kolo."""
    for backends in common.DistTestCases.backend_feature.values():
        if "gloo" in backends:
            backends.add("kolo")
    tests.PROFILING_SUPPORTED_BACKENDS.append("kolo")  # not for send and recv, which Gloo carries under its own name


def suite_class(world_size, backend, like):
    """The test class. Its ranks are forked, because to import torch anew takes longer than most tests."""
    directory = tempfile.mkdtemp(prefix="tests-of-torch-")
    os.environ.update(BACKEND=like, WORLD_SIZE=str(world_size), TEMP_DIR=directory, MASTER_ADDR="127.0.0.1",
                      INIT_METHOD="file://" + directory + "/join", OMP_NUM_THREADS="1", USE_LIBUV="0")
    provide_expecttest()
    import kolo_torch  # noqa: F401
    import torch
    from torch.testing._internal import common_distributed as common
    from torch.testing._internal.distributed import distributed_test as tests
    torch.set_num_threads(1)
    tell_tables(tests, common)
    os.environ["BACKEND"] = tests.BACKEND = backend

    class Suite(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite, directory


def run(suite, names):
    """By name: what became of the test, and why."""
    outcomes = {}
    for name in names:
        result = unittest.TestResult()
        real, sys.stdout = sys.stdout, io.StringIO()
        try:
            suite(name).run(result)
        finally:
            sys.stdout = real
        if result.skipped:
            outcomes[name] = ("skip", result.skipped[0][1])
        elif result.errors or result.failures:
            outcomes[name] = ("fail", (result.errors + result.failures)[0][1].strip())
        else:
            outcomes[name] = ("pass", "")
        print(f"{outcomes[name][0]} {name} {outcomes[name][1]}", flush=True)
    return outcomes


def in_own_process(arguments, backend, names):
    """torch reads the backend once per process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        suite, directory = suite_class(arguments.world_size, backend, arguments.like)
        outcomes = run(suite, names or sorted(name for name in dir(suite) if name.startswith("test_")))
        shutil.rmtree(directory, ignore_errors=True)
        with os.fdopen(write, "w") as out:
            out.write(repr(outcomes))
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return eval(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("world_size", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--floor", type=int, default=0)
    parser.add_argument("--backend", default="kolo")
    parser.add_argument("--like", default="gloo")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name]
    outcomes = in_own_process(arguments, arguments.backend, names)
    by_kind = collections.defaultdict(dict)
    for name, (kind, why) in outcomes.items():
        by_kind[kind][name] = why
    excused = {name: reason_to_fail(name, text) for name, text in by_kind["fail"].items()}
    failed = [name for name, reason in excused.items() if not reason]
    worse = []
    if failed and arguments.backend != "gloo":
        print("with Gloo:")
        gloo = in_own_process(arguments, "gloo", failed)
        worse = [name for name in failed if gloo[name][0] == "pass"]
    for why, number in collections.Counter(by_kind["skip"].values()).most_common():
        print(f"skipped {number}: {why}")
    for why, number in collections.Counter(filter(None, excused.values())).items():
        print(f"cannot pass {number}: {why}")
    print(f"{len(outcomes)} tests: {len(by_kind['pass'])} pass, {len(by_kind['fail'])} fail, "
          f"{len(by_kind['skip'])} skipped; fail with Kolo alone: {' '.join(worse) or 'none'}")
    return 1 if worse or len(by_kind["pass"]) < max(arguments.floor, 1) else 0


if __name__ == "__main__":
    sys.exit(main())
