"""What the tests of the door for NCCL programs share: plugins for the stand-in driver, and programs behind the door."""

import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["KOLO_BUILD"])
LIB = BUILD / "lib"
DOOR = os.environ.get("KOLO_TEST_DOOR", str(LIB / "libkolo_nccl.so"))
CLIENT = os.environ.get("KOLO_TEST_CLIENT", str(BUILD / "bin/kolo_nccl_client"))
STANDIN = os.environ.get("KOLO_TEST_NCCL", str(BUILD / "tests/nccl/standin/libnccl.so.2"))
ALGORITHMS = ("ringAllReduce", "ringAllGather", "ringReduceScatter", "directBroadcast", "directReduce", "directGather",
              "directScatter", "directAllToAll")
PLUGINS = tempfile.TemporaryDirectory(prefix="kolo-nccl-")


def compile_plugins(*names, folder=PLUGINS.name, path=None, protocol="bulk", meshes=tuple(f"rank={n}" for n in range(2, 9))):
    """For the stand-in driver, once. `path`: of the one plugin."""
    for name in names:
        plugin = str(path or os.path.join(folder, name + ".kolo.so"))
        if not os.path.exists(plugin):
            subprocess.run([BUILD / "bin/kolo_compile_for_standin", name, protocol, plugin, *meshes], check=True)


def run(*command, timeout=60, **environment):
    """With the door preloaded, unless `LD_PRELOAD` says otherwise. A value of None removes a variable."""
    env = {"LD_PRELOAD": DOOR, "KOLO_PLUGIN_PATH": PLUGINS.name, "KOLO_STATS": "1", "KOLO_TIMEOUT_MS": "20000",
           "KOLO_CUDA_DRIVER": str(LIB / "libkolo_test_standin.so"), "KOLO_STANDIN_THREADS": "2",
           "KOLO_STANDIN_RESIDENT": "256", **environment}
    env = {**os.environ, **env}
    return subprocess.run(command, env={name: value for name, value in env.items() if value is not None}, text=True,
                          capture_output=True, timeout=timeout, check=False)


def needed(variable):
    """A path that CMake has found, or a skip."""
    path = os.environ.get(variable, "")
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{variable}: not found here")
    return path


def build(folder, source, libraries, binding):
    program = os.path.join(folder, f"{source}.{binding}")
    include = [f"-I{path}" for path in os.environ.get("KOLO_NCCL_INCLUDE_DIR", "").split(";") if path]
    subprocess.run(["cc", "-o", program, pathlib.Path(__file__).with_name(source), *include, f"-L{libraries}", "-l:libnccl.so.2",
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs", f"-Wl,-z,{binding}"], check=True)
    return program
