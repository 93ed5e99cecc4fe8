"""Why a σ for every input needs a memory: an input, and a neighbour inside its ball that gets another label.

    python studies/why_memory.py --out study/why-memory [--inputs 100] [--points 64] [--n 100000]

Digits in two dimensions, a small network, σ chosen for every point by votes. Each input is certified at its σ; points
are drawn at random inside its ball, and each is asked as any input would be: its own σ first, then its label there. The
point whose other label is surest is certified in earnest, with n fresh draws. Both certificates are right about
smoothing at their own σ; as statements about one classifier they contradict each other. Then both go through a memory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import _plane
import torch

from smoothcert import load
from smoothcert.contracts import Certificate, Job, Source, Stream, input_key
from smoothcert.data import load as load_data
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.memory import Memory
from smoothcert.noise.gaussian import Gaussian
from smoothcert.preparation.per_input_sigma import PerInputSigma
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed

START, QUICK = Gaussian(0.04), 1000
SEARCH = PerInputSigma(search="votes", draws=50, evaluations=1000)


class Found(NamedTuple):
    """A point, its own noise, and what smoothing under that says of it."""

    x: torch.Tensor
    noise: Gaussian
    certificate: Certificate

    def __str__(self):
        label, radius = self.certificate.label, self.certificate.radius
        at = ", ".join(f"{value:.4f}" for value in self.x.tolist())
        return f"({at}): σ = {self.noise.sigma:.4f}, label {label}, radius {radius:.4f}"


def asked(model, points, n):
    """Each point at its own σ, chosen first; then certified there with n draws."""
    streams = [Stream(0, input_key(x), "sigma") for x in points]
    noises = SEARCH(model, START, torch.stack(points), streams)
    procedure = Certify(100, Fixed(n))
    sources = [Source(model, noise) for noise in noises]
    jobs = (Job(i, x, procedure(source, len(x))) for i, (x, source) in enumerate(zip(points, sources, strict=True)))
    found = {outcome.index: outcome.result for outcome in Engine(Threads(256)).run(jobs)}
    return [Found(x, noise, found[i]) for i, (x, noise) in enumerate(zip(points, noises, strict=True))]


def inside(x, radius, count, generator):
    """Points drawn evenly from the ball, in float32 and truly inside."""
    way = torch.randn(count, len(x), generator=generator)
    share = torch.rand(count, 1, generator=generator) ** (1 / len(x))
    points = (x + 0.999 * radius * share * way / way.norm(dim=1, keepdim=True)).clamp(0.0, 1.0)
    return [point for point in points if float((point.double() - x.double()).norm()) < radius]


def contradicted(model, first, options, generator):
    """Of points in the ball: how many were asked, and those with another label that their own draws prove."""
    points = inside(first.x, first.certificate.radius, options.points, generator)
    found = asked(model, points, QUICK) if points else []
    return len(points), [f for f in found if f.certificate.label not in (-1, first.certificate.label)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100, help="test inputs whose balls are searched")
    parser.add_argument("--points", type=int, default=64, help="points in each ball")
    parser.add_argument("--n", type=int, default=100_000, help="draws of the two certificates that are shown")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data, network = _plane.make(options.out / "plane")
    model, inputs = load(network), load_data(str(data), max=options.inputs)
    firsts = [f for f in asked(model, list(inputs.tensors()), QUICK) if f.certificate.radius > 0]
    generator, total, balls, best = torch.Generator().manual_seed(0), 0, 0, None
    others = []
    for first in firsts:
        count, found = contradicted(model, first, options, generator)
        total, balls = total + count, balls + bool(found)
        others += found
        surest = max(found, key=lambda f: f.certificate.evidence.low, default=None)
        if surest and (best is None or surest.certificate.evidence.low > best[1].certificate.evidence.low):
            best = first, surest
    print(f"{len(firsts)} certified inputs, {total} points in their balls (n = {QUICK}, alpha = 0.001):")
    print(f"{len(others)} points are certified with another label, in the balls of {balls} inputs")
    if best is None:
        raise SystemExit("no contradiction was found: try more --inputs or --points")
    show(model, *(f.x for f in best), options.n)


def show(model, x, y, n):
    """The two certificates in earnest, without and with a memory."""
    one, other = asked(model, [x, y], n)
    away = float((x.double() - y.double()).norm())
    print(f"\nthe input  {one}\nneighbour  {other}\nthey are {away:.4f} apart (n = {n}, alpha = 0.001)")
    contradict = away < one.certificate.radius and other.certificate.label not in (-1, one.certificate.label)
    print("contradiction without a memory:", "yes" if contradict else "no")
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "m", "network", "l2", tuple(x.shape))
        kept = memory.settle(x, one.certificate)
        region = memory.query(y)
        print(f"with a memory: the input gets label {kept.label}, radius {kept.radius:.4f} ({kept.guarantee});")
        print(
            f"the neighbour, without a draw, label {region.label} (region {region.number}), radius {region.radius:.4f};"
        )
        print(
            f"and its own certificate, offered to the memory, becomes label {memory.settle(y, other.certificate).label}"
        )
        memory.close()


if __name__ == "__main__":
    main()
