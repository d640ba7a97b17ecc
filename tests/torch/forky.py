"""The door of PyTorch on the newest torch of Debian: forky.py SOURCE BUILD. Makes a root of Debian forky in BUILD/forky (2.2 GB,
kept for the next run), builds the runtime and the door there, and runs the tests and clients of tests/torch.
KOLO_FORKY_ROOT names another root. Exits with 77, a skip, where no root can be made: mmdebstrap, root, a network."""
import os
import shutil
import subprocess
import sys

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
ROOT = os.environ.get("KOLO_FORKY_ROOT", BUILD + "/forky")
PACKAGES = ["cmake", "g++", "libfmt-dev", "libtorch-dev", "ninja-build", "nlohmann-json3-dev", "pybind11-dev", "python3-dev",
            "python3-expecttest", "python3-numpy", "python3-torch"]
PLUGINS = {name: os.environ[name].split(":") for name in ("KOLO_PLUGIN_PATH", "KOLO_UNSELECTED", "KOLO_WITHOUT_TABLES")}
ENVIRONMENT = ["PATH=/usr/bin:/bin", "HOME=/root", "OMP_NUM_THREADS=1", "USE_LIBUV=0", "KOLO_WITHOUT_COMPILER=1",
               "PYTHONPATH=/kolo/build/lib/kolo/python",
               *(name + "=" + ":".join("/kolo/plugins/" + os.path.basename(path) for path in paths)
                 for name, paths in PLUGINS.items())]
WITHOUT_IMPORT = """
import os, sys, tempfile, torch, torch.distributed as dist
path = tempfile.mktemp()
rank = 0 if os.fork() else 1
dist.init_process_group("cpu:kolo,cuda:gloo", init_method="file://" + path, rank=rank, world_size=2)
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [2.0] * 3 and " 1 carried" in sys.modules["kolo_torch"].statistics()
dist.destroy_process_group()
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def make_root():
    if os.path.exists(ROOT + "/usr/lib/python3/dist-packages/torch"):
        return
    if not shutil.which("mmdebstrap"):
        skip("mmdebstrap is not installed")
    shutil.rmtree(ROOT, ignore_errors=True)
    made = subprocess.run(["mmdebstrap", "--variant=apt", '--aptopt=Acquire::Check-Valid-Until "false"',
                           "--include=" + ",".join(PACKAGES), "forky", ROOT], text=True, stderr=subprocess.PIPE)
    if made.returncode != 0:
        shutil.rmtree(ROOT, ignore_errors=True)
        skip("no root of Debian forky: " + made.stderr.strip().splitlines()[-1])


def inside(*command):
    """Runs a command in the root, with the mounts of this process's own namespace."""
    print("$", *command, flush=True)
    subprocess.run(["chroot", ROOT, "env", "-i", *ENVIRONMENT, *command], check=True)


def main():
    if os.geteuid() != 0:
        skip("needs root")
    if "KOLO_FORKY_PRIVATE" not in os.environ:  # a namespace of mounts that end with it
        os.execvpe("unshare", ["unshare", "-m", sys.executable, *sys.argv], {**os.environ, "KOLO_FORKY_PRIVATE": "1"})
    make_root()
    for folder in ("kolo/source", "kolo/build", "kolo/plugins", "proc", "dev", "sys"):
        os.makedirs(f"{ROOT}/{folder}", exist_ok=True)
    for path in sum(PLUGINS.values(), []):
        shutil.copy(path, ROOT + "/kolo/plugins/")
    for source, target in ((SOURCE, "kolo/source"), ("/proc", "proc"), ("/dev", "dev"), ("/sys", "sys")):
        subprocess.run(["mount", "--rbind", source, f"{ROOT}/{target}"], check=True)
    inside("cmake", "-G", "Ninja", "-S", "/kolo/source", "-B", "/kolo/build", "-DCMAKE_BUILD_TYPE=Release", "-DKOLO_COMPILER=OFF",
           "-DKOLO_TESTS=OFF", "-DKOLO_BENCHMARKS=OFF")
    inside("ninja", "-C", "/kolo/build", "kolo_torch")
    inside("python3", "-c", WITHOUT_IMPORT)
    for test in ("collectives", "uneven", "failure", "train"):
        inside("python3", "-B", f"/kolo/source/tests/torch/{test}_test.py")
    for ranks in ("2", "3"):
        inside("python3", "-B", "/kolo/source/tests/torch/suite.py", ranks, "--floor", "62")


if __name__ == "__main__":
    main()
