"""Trains a small network with DistributedDataParallel, as any script for NCCL does: it knows nothing of Kolo."""
import hashlib
import json
import os

import torch
import torch.distributed as dist


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                                  torch.nn.Linear(512, 1)).to(device)
    model = torch.nn.parallel.DistributedDataParallel(network, device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(100 + rank)
    first = last = None
    for _ in range(20):
        inputs = torch.randn(256, 64, generator=data)
        targets = inputs.pow(2).sum(dim=1, keepdim=True) / 64
        loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach().clone())
        last = loss.item()
        first = last if first is None else first
    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest)
    if len(set(digests)) != 1:
        raise RuntimeError(f"the ranks have different parameters: {digests}")
    if rank == 0:
        print(json.dumps({"trained": True, "digest": digest, "firstLoss": round(first, 6), "lastLoss": round(last, 6)}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
