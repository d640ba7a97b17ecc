"""PyTorch's own NCCL path: an unchanged script of DistributedDataParallel, with NCCL alone and with the door preloaded."""

import concurrent.futures
import json
import pathlib
import re
import socket

from light.machine import ask, last_line
from light.nccl import ClientLines, carriers, door_of, find_nccl, real_nccl, variables_for
from light.outcome import Failed, NotPossible

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "train.py"
RANKS = 2  # their sums have the same bits in any order
# All ranks share device 0, and NCCL refuses that inside of one host.
LAUNCH = 'NCCL_HOSTID=kolo-$RANK exec python3 "$0"'


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class TrainingLines(ClientLines):
    """Reads what the script prints, and what the door counted."""

    def __init__(self):
        super().__init__()
        self.trained, self.counts = None, []

    def __call__(self, line):
        if line.startswith('{"trained"'):
            self.trained = json.loads(line)
            return
        self.counted = None
        super().__call__(line)
        if self.counted and self.counted["carried"] + self.counted["forwarded"]:
            self.counts.append(self.counted)


def train(run, variables):
    lines = TrainingLines()
    code = run.stream(["python3", "-m", "torch.distributed.run", "--nnodes", 1, "--nproc-per-node", RANKS, "--master-addr",
                       "127.0.0.1", "--master-port", free_port(), "--no-python", "sh", "-c", LAUNCH, SCRIPT], lines,
                      variables={"NCCL_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                                 **variables})
    if code != 0 or not lines.trained:
        wrong = [line for line in lines.said if re.search("Error|error", line)]
        raise Failed(f"the script ended with {code}: {wrong[-1] if wrong else last_line(chr(10).join(lines.said))}")
    return lines


def run_ddp(run, entry):
    said = ask("python3", "-c", "import torch; print(torch.__version__, torch.cuda.is_available())")
    if run.driver != "cuda" or not said or "True" not in said:
        raise NotPossible("python3 has no torch for CUDA")
    nccl, packed = run.args.nccl and real_nccl(run) or find_nccl()[0], carriers(run, entry)
    if not nccl or not door_of(run).exists():
        raise NotPossible(f"there is no {door_of(run) if nccl else 'libnccl.so.2'}")
    entry["torch"] = said.split()[0]
    preloaded = variables_for(run, "preloaded", nccl, packed.values())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        alone, door = (pool.submit(train, run, variables) for variables in ({}, preloaded))
    entry["alone"], entry["preloaded"] = alone.result().trained, door.result().trained
    entry["counted"] = door.result().counts
    if entry["alone"]["digest"] != entry["preloaded"]["digest"]:
        raise Failed(f"the parameters differ: {entry['alone']} with NCCL alone, {entry['preloaded']} with the door")
    if not any(each["carried"] for each in entry["counted"]):  # rank 0 tells
        raise Failed(f"nothing was carried: {entry['counted']}")
