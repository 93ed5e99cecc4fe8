"""How fast networks learn and answer: images a second of a training step and of ONNX Runtime, side by side.

    python benchmarks/networks.py [airbench64 resnet20 …] [--threads 1,2] [--rounds 5] [--batch 128]

The networks take turns, so that other work on the machine troubles them alike. Training is a forward and a backward
pass and a step of SGD in channels_last; answering is a forward pass of the exported network. Printed are the best of
the rounds by wall time, the least processor time an image, and what part of the first network's processor time that is.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.nn import functional as F

from smoothcert import catalog
from smoothcert.architectures import cost
from smoothcert.classifiers.onnx import from_network

SHAPE, CLASSES = (3, 32, 32), 10


def training(network, x, y):
    network = network.to(memory_format=torch.channels_last).train()
    x = x.contiguous(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), 0.01, 0.9, nesterov=True)

    def step():
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(network(x), y).backward()
        optimiser.step()

    return step


def answering(network, x, threads):
    exported = from_network(network, x[0], threads=threads)
    return lambda: exported(x)


def build(name):
    torch.manual_seed(0)
    return catalog.build("architectures", name).build(SHAPE, CLASSES)


def measure(parts, rounds):
    """By name, the least seconds of wall and of processor time; the parts take turns."""
    least = {name: (float("inf"), float("inf")) for name in parts}
    for part in parts.values():
        part()  # warm caches
    for _ in range(rounds):
        for name, part in parts.items():
            wall, processor = time.perf_counter(), time.process_time()
            part()
            took = time.perf_counter() - wall, time.process_time() - processor
            least[name] = min(least[name][0], took[0]), min(least[name][1], took[1])
    return least


def show(title, least, images):
    print(title)
    first = next(iter(least.values()))[1]
    for name, (wall, processor) in least.items():
        told = f"{images / wall:8.0f} images/s {1e3 * processor / images:8.3f} ms of processor an image"
        print(f"  {name:<14}{told}   × {processor / first:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["resnet20", "airbench64"])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    x, y = torch.rand(options.batch, *SHAPE), torch.arange(options.batch) % CLASSES
    for name in options.networks:
        print(f"{name}: {cost(build(name), SHAPE)}")
    for threads in map(int, options.threads.split(",")):
        torch.set_num_threads(threads)
        steps = {name: training(build(name), x, y) for name in options.networks}
        show(f"training, {threads} threads", measure(steps, options.rounds), options.batch)
        asked = {name: answering(build(name), x, threads) for name in options.networks}
        show(f"ONNX Runtime, {threads} threads", measure(asked, options.rounds), options.batch)


if __name__ == "__main__":
    main()
