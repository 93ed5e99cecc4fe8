"""What the loop and its losses add to the forward and backward passes they cannot do without.

    python benchmarks/training.py [--arch resnet20] [--objectives gaussian,macer] [--rounds 5] [--steps 4] [--batch 64]

For every objective, ours is a step of the training loop; by hand is a plain loop of the same passes with plain
cross-entropies: for an attack, as many passes with a gradient to the input; then one (smoothmix: two) with a gradient
to the weights, and an SGD step. Measured in turn; printed are the median over rounds of ours ÷ by hand, its range, and,
in the last line, gaussian by hand in contiguous layout ÷ ours in channels_last. Few copies and steps, the same on both
sides: the ratio hardly depends on them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.training import Settings, loop, setup

SHAPE, CLASSES = (3, 32, 32), 10
# copies of a batch, passes with a gradient to the input, passes with a gradient to the weights
PASSES = {
    "gaussian": (1, 0, 1), "consistency": (2, 0, 1), "macer": (2, 0, 1),
    "smoothadv": (2, 2, 1), "advmacer": (2, 2, 1), "smoothmix": (2, 2, 2),
}  # fmt: skip


def prepare(arch, objective, batch, folder):
    """A loop's work for one step on random images, as `train` sets it up."""
    path = folder / "random.npz"
    if not path.exists():
        random = np.random.default_rng(0)
        np.savez(path, x=random.random((batch, *SHAPE), dtype=np.float32), y=np.arange(batch) % CLASSES)
    copies, attacks, _ = PASSES[objective]
    options = {"copies": copies, **({"steps": attacks} if attacks else {})}
    settings = Settings(str(path), arch, objective, epochs=1, batch=batch, lr=0.01, objective_options=options)
    chosen = setup.inputs(settings)
    loss = setup.objective(settings)
    network = setup.network(setup.config(settings, chosen, loss), settings).train()
    work = loop.Work.begun(settings, chosen.training, network, loss, loop.joined("cpu"))
    x, y = chosen.training.tensors(), torch.from_numpy(chosen.training.labels)
    return work, Batch(x, y, torch.full((batch,), 0.25), torch.Generator().manual_seed(0), 0.0, work.noise)


def ours(work, batch, steps):
    for _ in range(steps):
        loop._step(work, batch)


def by_hand(network, batch, steps, objective, layout=torch.channels_last):
    """The same passes with nothing around them."""
    copies, attacks, passes = PASSES[objective]
    optimiser = torch.optim.SGD(network.parameters(), 0.01, 0.9, weight_decay=1e-4, nesterov=True)
    y = batch.y.repeat(copies)
    for _ in range(steps):
        x = batch.x.repeat(copies, 1, 1, 1)
        x = (x + 0.25 * torch.randn(x.shape)).contiguous(memory_format=layout)
        network.eval()
        for _ in range(attacks):
            x.requires_grad_()
            (gradient,) = torch.autograd.grad(F.cross_entropy(network(x), y), x)
            x = (x + 0.1 * gradient).detach()
        network.train()
        optimiser.zero_grad(set_to_none=True)
        sum(F.cross_entropy(network(x), y) for _ in range(passes)).backward()
        optimiser.step()


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="resnet20")
    parser.add_argument("--objectives", default=",".join(PASSES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    print(f"{options.arch}, batch {options.batch}, {options.rounds} rounds of {options.steps} steps, ", end="")
    print(f"{torch.get_num_threads()} threads")
    with TemporaryDirectory() as folder:
        for objective in options.objectives.split(","):
            work, batch = prepare(options.arch, objective, options.batch, Path(folder))
            compare(f"{objective}: ours ÷ by hand", options.rounds,
                    (ours, work, batch, options.steps),
                    (by_hand, work.network, batch, options.steps, objective))  # fmt: skip
        work, batch = prepare(options.arch, "gaussian", options.batch, Path(folder))
        plain, _ = prepare(options.arch, "gaussian", options.batch, Path(folder))
        contiguous = plain.network.to(memory_format=torch.contiguous_format)
        compare("contiguous by hand ÷ ours", options.rounds,
                (by_hand, contiguous, batch, options.steps, "gaussian", torch.contiguous_format),
                (ours, work, batch, options.steps))  # fmt: skip


def compare(title, rounds, first, second):
    for one in (first, second):
        seconds(*one)  # warm caches
    ratios = [seconds(*first) / seconds(*second) for _ in range(rounds)]
    print(f"  {title:<32}{statistics.median(ratios):>7.3f}  [{min(ratios):.3f}, {max(ratios):.3f}]", flush=True)


if __name__ == "__main__":
    main()
