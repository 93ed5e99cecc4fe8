"""Certificates against patches beside those of the Adversarial Robustness Toolbox: equal answers, and the time of both.

    python benchmarks/patches.py [--model FOLDER --data cifar10 --inputs 200] [--noise band --size 4] [--rounds 3]

ART's `PyTorchDeRandomizedSmoothing` (levine2020: columns or blocks, votes above a threshold) and `smoothcert` are given
one network, trained under bands or blocks by `smoothcert train`, and the same inputs. ART hides a pixel by giving the
network x and 1 − x, both 0 where it is hidden; a layer before the network makes of that the −1 that it was trained
with, so that both ask it about the same copies. Without --model a small network is first trained on digits.

Printed: of how many inputs the votes are equal, class by class; of how many the certificates are, at every size that
anybody certifies, and why where they are not. ART compares the leader with one runner-up: where two are level with each
other and 2Δ behind, a tie may go to the other one, so that it may certify too much; the rule here looks at all of them.
ART's newer rule (salman2021) has no ties at all, and so certifies less. Then seconds for all inputs, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import smoothcert
from smoothcert.data import load
from smoothcert.noise import HIDDEN
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.training import Settings
from smoothcert.training.checkpoints import read_any

THRESHOLD = 0.3  # as published for CIFAR-10
KINDS = {"band": ("column", smoothcert.Band), "block": ("block", smoothcert.Block)}


class FromPairs(nn.Module):
    """Images with x and 1 − x as channels, both 0 where a pixel is hidden → images with −1 there → scores."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pairs):
        image, rest = pairs.chunk(2, dim=1)
        return self.network(torch.where(image + rest > 0.5, image, HIDDEN))


def trained(noise, size, folder):
    """A small network for digits."""
    from smoothcert.training.loop import train

    option = {"band": "width", "block": "side"}[noise]
    settings = Settings("digits", "digits_cnn", noise=noise, noise_options={option: size}, epochs=12, batch=64,
                        schedule="one_cycle")  # fmt: skip
    train(settings, folder)
    return folder


def art_smoothing(network, shape, classes, kind, size):
    from art.estimators.certification.derandomized_smoothing import PyTorchDeRandomizedSmoothing

    return PyTorchDeRandomizedSmoothing(
        model=FromPairs(network).eval(), loss=nn.CrossEntropyLoss(), input_shape=shape, nb_classes=classes,
        ablation_size=size, ablation_type=kind, algorithm="levine2020", threshold=THRESHOLD, logits=True,
        clip_values=(0, 1), device_type="cpu", verbose=False,
    )  # fmt: skip


def art_votes(art, x):
    """Votes of each class [inputs, classes]; `predict` adds up one-hot answers over all places."""
    return np.rint(art.predict(x.copy(), batch_size=len(x))).astype(np.int64)


def reason(votes, moved, newer):
    """Why ART and the rule of the paper differ for these votes: who is level with whom."""
    label = int(votes.argmax())
    rivals = [c for c in range(len(votes)) if c != label and votes[label] - votes[c] == 2 * moved]
    if newer:
        return "no ties in salman2021" if rivals and min(rivals) > label else "?"
    return "two runners-up level" if len(rivals) > 1 and min(rivals) < label < max(rivals) else "?"


def compare(art, votes, found, noise, labels):
    """Certificates of both, size by size, from ART's own rule and from ours."""
    older = art.ablator.algorithm
    largest = max(1, int(max(one.radius for one in found)) + 1)
    for name in (older, "salman2021"):
        art.ablator.algorithm = name
        equal, why = 0, {}
        for size in range(1, largest + 1):
            theirs, _, _ = art.ablator.certify(votes, size, labels)
            for i, one in enumerate(found):
                if bool(theirs[i]) == (one.radius >= size):
                    equal += 1
                    continue
                more = "ART certifies" if theirs[i] else "smoothcert certifies"
                told = f"{more}: {reason(votes[i], noise.moved(size), name == 'salman2021')}"
                why[told] = why.get(told, 0) + 1
        others = "".join(f"; {number} × {words}" for words, number in why.items())
        print(f"  certificates by {name}: {equal:,} of {largest * len(found):,} equal{others}")
    art.ablator.algorithm = older


def timed(work):
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        work()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a checkpoint folder, trained under this noise")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--noise", choices=KINDS, default="band")
    parser.add_argument("--size", type=int, default=2, help="width of a band, side of a block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="of ART: inputs, each at one place at a time")
    asked = parser.parse_args()
    kind, part = KINDS[asked.noise]
    with tempfile.TemporaryDirectory() as folder:
        place = asked.model or trained(asked.noise, asked.size, Path(folder) / "net")
        network = read_any(str(place)).eval()
        inputs = load(asked.data, max=asked.inputs)
        x, labels = inputs.tensors(), inputs.labels
        noise = part(asked.size).fitted(x.shape[1:])
        smoothed = smoothcert.Smoothed(network, noise, progress=False)
        scheme = Exhaustive(threshold=THRESHOLD)
        found = smoothed.certify_all(list(x), sampling=scheme)
        art = art_smoothing(network, tuple(x.shape[1:]), inputs.classes or int(labels.max()) + 1, kind, asked.size)
        votes, own = art_votes(art, x.numpy()), np.array([one.evidence.counts[0] for one in found])
        same = int((votes == own).all(axis=1).sum())
        print(f"{asked.data}, {len(x)} inputs, {noise.words}, votes above {THRESHOLD:g}")
        print(f"  votes of every class: equal for {same} of {len(x)} inputs")
        compare(art, own, found, noise, labels)
        seconds = {"smoothcert": [], "ART": []}
        for _ in range(asked.rounds):
            seconds["smoothcert"].append(timed(lambda: smoothed.certify_all(list(x), sampling=scheme)))
            seconds["ART"].append(timed(lambda: art.eval_and_certify(x.numpy(), labels, 1, asked.batch, verbose=False)))
        ratio = statistics.median(b / a for a, b in zip(seconds["smoothcert"], seconds["ART"], strict=True))
        for name, each in seconds.items():
            print(f"  {name:10} {statistics.median(each):8.2f} s [{min(each):.2f}, {max(each):.2f}]")
        print(f"  ART ÷ smoothcert: {ratio:.2f}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
