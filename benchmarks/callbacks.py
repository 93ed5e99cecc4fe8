"""What certified accuracy while a network trains costs: a draw against a training example, and draws a call.

    python benchmarks/callbacks.py [--rounds 5] [--inputs 100]

The network is digits_cnn on the embedded digits, on one thread. Ratios are measured in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.nn.functional import cross_entropy

from smoothcert import catalog
from smoothcert.architectures import Normalise
from smoothcert.callbacks import certified_accuracy
from smoothcert.data import load

SIGMA = 0.25
CAPS = (2000, 120_000)


def epoch(network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, optimiser: torch.optim.Optimizer) -> float:
    """Seconds of one epoch under noise."""
    begun = time.perf_counter()
    for rows in torch.randperm(len(x)).split(64):
        loss = cross_entropy(network(x[rows] + SIGMA * torch.randn_like(x[rows])), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inputs", type=int, default=100)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, test = load("digits", split="train"), load("digits", max=asked.inputs)
    x, y = train.tensors(), torch.from_numpy(train.labels)
    shape = (1, 8, 8)
    network = catalog.build("architectures", "digits_cnn").network(Normalise((0.3,), (0.4,), shape), shape, 10)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(10):
        epoch(network, x, y, optimiser)
    ratios, calls = [], []
    for _ in range(asked.rounds):
        example = epoch(network, x, y, optimiser) / len(x)
        begun = time.perf_counter()
        found = certified_accuracy(network, test.tensors(), test.labels, sigma=SIGMA, radius=SIGMA)
        calls.append(time.perf_counter() - begun)
        ratios.append(calls[-1] / found.draws / example)
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"a draw ÷ a training example: {spread}; a call of {asked.inputs} inputs at r = σ: {min(calls):.2f} s")
    for radius in (SIGMA, 2 * SIGMA):
        for cap in CAPS:
            options = {"sigma": SIGMA, "radius": radius, "cap": cap}
            found = certified_accuracy(network, test.tensors(), test.labels, **options)
            print(f"radius {radius}, cap {cap}: {found.certified} of {found.of} certified, {found.draws:,} draws")


if __name__ == "__main__":
    main()
