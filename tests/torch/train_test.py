"""DistributedDataParallel and ZeroRedundancyOptimizer train on Kolo: with 2 ranks bit for bit as on Gloo, with 4 alike on
all ranks."""
import hashlib
import os
import unittest

from ranks import counts, dist, run, torch

STEPS = int(os.environ.get("KOLO_TORCH_STEPS", "20"))


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                               torch.nn.Linear(64, 5))


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def train(rank, size, make_optimizer):
    # Buckets of 4 KiB: several all-reduces per step, which overlap with the backward pass.
    model = torch.nn.parallel.DistributedDataParallel(make_model(), bucket_cap_mb=4 / 1024)
    optimizer = make_optimizer(model.parameters())
    data = torch.Generator().manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        inputs, wanted = torch.randn(16, 20, generator=data), torch.randn(16, 5, generator=data)
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
    print(digest(model.module))
    if dist.get_backend().lower() == "kolo":
        carried, forwarded = counts()
        assert carried > STEPS and forwarded == 0, (carried, forwarded)


def ddp(rank, size):
    train(rank, size, lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))


def ddp_with_hook(rank, size):
    """DDP with a hook in Python, on the future of an all-reduce."""
    def halve(state, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda ended: ended.value()[0].div_(size))

    original = torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.DistributedDataParallel = lambda *args, **named: hooked(original(*args, **named))

    def hooked(model):
        model.register_comm_hook(None, halve)
        return model

    ddp(rank, size)


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    train(rank, size, lambda parameters: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.01))


def weights(body, size, backend):
    """The digest of the weights, which all ranks must have."""
    digests = {text.strip().splitlines()[-1] for text in run(body, size, backend)}
    assert len(digests) == 1, digests
    return digests.pop()


class Training(unittest.TestCase):
    def test_with_2_ranks_the_weights_are_those_of_gloo(self):
        for body in (ddp, ddp_with_hook, zero):
            with self.subTest(body=body.__name__):
                self.assertEqual(weights(body, 2, "kolo"), weights(body, 2, "gloo"))

    def test_with_4_ranks_all_have_equal_weights(self):
        for body in (ddp, zero):
            with self.subTest(body=body.__name__):
                weights(body, 4, "kolo")


if __name__ == "__main__":
    unittest.main(verbosity=2)
