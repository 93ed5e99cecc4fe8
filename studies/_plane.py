"""Digits in two dimensions, and a small network for them: where certified balls of different labels are close.

The digits are reduced to their first two principal coordinates, scaled to [0,1]²; the network is trained under Gaussian
noise by `smoothcert train`, little of it, so that its regions are not simple.
"""

from __future__ import annotations

import numpy as np

from smoothcert.cli.main import run
from smoothcert.data import load

TRAINING = ("--arch", "mlp256", "--sigma", 0.02, "--epochs", 200, "--batch", 64, "--schedule", "one_cycle")


def make(folder):
    """Test inputs as a file, and the network's folder; what is there already is kept."""
    train, test, network = folder / "train.npz", folder / "test.npz", folder / "network"
    if not test.exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = load("digits", "train"), load("digits", "test")
        flat = [part.tensors().numpy().reshape(len(part), -1).astype(np.float64) for part in parts]
        ways = np.linalg.svd(flat[0] - flat[0].mean(0), full_matrices=False)[2][:2].T
        low, high = (flat[0] @ ways).min(0), (flat[0] @ ways).max(0)
        for path, values, part in zip((train, test), flat, parts, strict=True):
            np.savez(path, x=np.clip((values @ ways - low) / (high - low), 0, 1).astype(np.float32), y=part.labels)
    words = ["train", "--data", train, *TRAINING, "--threads", 1, "--out", network]
    if run([str(word) for word in words]):
        raise SystemExit("the network could not be trained")
    return test, network
