"""Tokens to experts and back, as PyTorch programs write it: index_select and all_to_all_single on Gloo. Started by experts.py.

Prints what kolo-bench-experts prints, of the same tokens, experts and weights.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist


def draw(seed):
    """As in ExpertsTime.cpp, of a tensor of numbers below 2^32."""
    mask = 0xFFFFFFFF
    seed = (seed ^ 61) ^ (seed >> 16)
    seed = seed * 9 & mask
    seed = seed ^ (seed >> 4)
    seed = seed * 0x27D4EB2D & mask
    return seed ^ (seed >> 15)


class Layer:
    """One rank's part."""

    def __init__(self, given):
        self.rank, self.size, self.per_token = dist.get_rank(), dist.get_world_size(), given.per_token
        self.per_rank = given.experts // self.size
        number = torch.arange(given.tokens * given.experts) + self.rank * given.tokens * given.experts
        drawn = draw(number & 0xFFFFFFFF).view(given.tokens, given.experts)
        self.experts = torch.sort(drawn, dim=1, stable=True).indices[:, :given.per_token].contiguous()
        token, i = torch.arange(given.tokens).view(-1, 1), torch.arange(given.hidden).view(1, -1)
        self.tokens = ((self.rank * 7 + token * 3 + i) % 5).to(torch.bfloat16)
        self.weights = torch.full((given.tokens, given.per_token), 1 / given.per_token)

    def exchange(self, rows, given, taken):
        out = torch.empty((sum(taken), rows.shape[1]), dtype=rows.dtype)
        dist.all_to_all_single(out.view(torch.uint8), rows.view(torch.uint8), taken, given)  # of bytes, for Gloo knows no bf16
        return out

    def dispatch(self):
        flat = self.experts.flatten()
        self.order = torch.argsort(flat, stable=True)
        counts = torch.bincount(flat, minlength=self.per_rank * self.size)
        taken = torch.empty_like(counts)
        dist.all_to_all_single(taken, counts)
        self.given = counts.view(self.size, -1).sum(1).tolist()
        self.taken = taken.view(self.size, -1).sum(1).tolist()
        rows = self.exchange(self.tokens.index_select(0, self.order // self.per_token), self.given, self.taken)
        # What came from each rank is in the order of the experts; each expert wants its tokens of all ranks together.
        expert = torch.arange(self.per_rank).repeat(self.size).repeat_interleave(taken)
        self.by_expert = torch.argsort(expert, stable=True)
        return rows.index_select(0, self.by_expert)

    def combine(self, rows):
        back = torch.empty_like(self.by_expert)
        back[self.by_expert] = torch.arange(len(back))
        answers = self.exchange(rows.index_select(0, back), self.taken, self.given)
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(len(place))
        answers = answers.index_select(0, place).view(len(self.tokens), self.per_token, -1)
        return torch.bmm(self.weights.to(torch.bfloat16).unsqueeze(1), answers).squeeze(1)


def report(what, times):
    times = sorted(times)
    print(what, *(f"{each * 1e6:.1f}" for each in (times[len(times) // 2], times[0], times[-1])))


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("tokens", 128), ("hidden", 7168), ("experts", 64), ("per-token", 8), ("iterations", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layer = Layer(given)
    dispatches, combines = [], []
    for iteration in range(-1, given.iterations):  # the first one is not counted
        dist.barrier()
        start = time.perf_counter()
        rows = layer.dispatch()
        dist.barrier()
        middle = time.perf_counter()
        output = layer.combine(rows)
        dist.barrier()
        end = time.perf_counter()
        del rows
        if iteration >= 0:
            dispatches.append(middle - start)
            combines.append(end - middle)
    if given.folder:
        with open(os.path.join(given.folder, str(layer.rank)), "wb") as file:
            file.write(output.contiguous().view(torch.int16).numpy().tobytes())
    if layer.rank == 0:
        report("dispatch", dispatches)
        report("combine", combines)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
