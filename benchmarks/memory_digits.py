"""Where a memory is needed: digits in two dimensions, σ chosen for each input, certificates that contradict each other.

    python benchmarks/memory_digits.py [--inputs 500] [--n 2000] [--alpha 0.001]

The digits are reduced to their first two principal coordinates, scaled to [0,1]², and classified by their 15 nearest
training examples. For each test input σ is the best of a grid by 100 draws of its own; then 100 draws choose the class
and n more give Cohen's radius at that σ. Each such certificate is right about smoothing *at its σ*; the classifier that
chooses σ anew at every point is another function. Counted are contradictions among the certificates as they are, and
what the memory makes of them in the order of the data.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.special import ndtri
from sklearn.neighbors import KNeighborsClassifier

from certus.bounds import lower_bound
from certus.contracts import ABSTAIN
from certus.data import load
from certus.memory import Memory

SIGMAS = (0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16)
RADII = (0.0, 0.02, 0.04, 0.08)


def plane():
    """Training and test inputs in [0,1]², float32, with their labels."""
    train, test = load("digits", "train"), load("digits", "test")
    flat, new = (part.tensors().numpy().reshape(len(part), -1).astype(np.float64) for part in (train, test))
    ways = np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:2].T
    low, high = (flat @ ways).min(0), (flat @ ways).max(0)
    points = [np.clip((part @ ways - low) / (high - low), 0, 1).astype(np.float32) for part in (flat, new)]
    return points[0], train.labels, points[1], test.labels


def votes(model, x, sigma, draws, rng):
    return np.bincount(model.predict(x + sigma * rng.standard_normal((draws, 2))), minlength=10)


def certify(model, x, n, alpha, rng):
    """Label, radius and σ of one input."""
    guesses = [votes(model, x, sigma, 100, rng).max() for sigma in SIGMAS]
    sigma = max(zip(SIGMAS, guesses, strict=True), key=lambda pair: pair[0] * ndtri(min(pair[1] / 100, 0.98)))[0]
    label = int(votes(model, x, sigma, 100, rng).argmax())
    low = lower_bound(int(votes(model, x, sigma, n, rng)[label]), n, alpha)
    return (label, float(sigma * ndtri(low)), sigma) if low > 0.5 else (ABSTAIN, 0.0, sigma)


def contradictions(points, found):
    """Pairs of certified inputs of different labels: one in the other's ball, or their balls meeting."""
    labels, radii = (np.array([answer[i] for answer in found]) for i in (0, 1))
    away = np.linalg.norm(points[:, None].astype(np.float64) - points[None], axis=2)
    differ = (labels[:, None] != labels) & (labels[:, None] != ABSTAIN) & (labels != ABSTAIN)
    inside = differ & (away < radii[:, None])
    meet = np.triu(differ & (away < radii[:, None] + radii))
    return np.argwhere(inside), int(meet.sum())


def accuracy(found, truth):
    right = np.array([label for label, *_ in found]) == truth
    radii = np.array([radius for _, radius, *_ in found])
    curve = "  ".join(f"r={r:g} {100 * np.mean(right & (radii >= r)):.1f} %" for r in RADII)
    return f"{curve}  mean radius {np.mean(radii * right):.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--alpha", type=float, default=0.001)
    options = parser.parse_args()
    known, their_labels, points, truth = plane()
    points, truth = points[: options.inputs], truth[: options.inputs]
    model, rng = KNeighborsClassifier(15).fit(known, their_labels), np.random.default_rng(0)
    found = [certify(model, x, options.n, options.alpha, rng) for x in points]
    inside, meet = contradictions(points, found)
    print(f"{len(points)} inputs, {sum(label == ABSTAIN for label, *_ in found)} abstentions")
    print(f"sigma chosen: {dict(sorted(Counter(sigma for *_, sigma in found).items()))}")
    print(f"without memory: {meet} pairs of balls of different labels meet, {len(inside)} inputs in such a ball")
    print(f"  {accuracy(found, truth)}")
    with tempfile.TemporaryDirectory() as folder, Memory.create(Path(folder) / "m", "15 nearest", "l2", (2,)) as memory:
        settled = [memory.admit(x, label, radius) for x, (label, radius, _) in zip(points, found, strict=True)]
        print(f"with memory: {dict(Counter(s.conflict or 'no conflict' for s in settled))}, {len(memory)} regions,")
        print(f"  {sum(s.label != f[0] for s, f in zip(settled, found, strict=True))} answers changed,", end=" ")
        after, meet = contradictions(points, [(s.label, s.radius) for s in settled])
        print(f"{meet} pairs meet, {len(after)} inputs inside; check: {len(memory.check())} violations")
        print(f"  {accuracy(settled, truth)}")
        for one, other in inside[:1]:
            label, radius, sigma = found[one]
            print(
                f"example: input {one} (label {label}, radius {radius:.4f}, sigma {sigma:g}) and input {other} in its"
                f" ball (label {found[other][0]}, sigma {found[other][2]:g});"
                f" with memory {settled[one].label} and {settled[other].label}"
            )


if __name__ == "__main__":
    main()
