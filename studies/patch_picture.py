"""The picture of docs/patches.md: a digit, a sticker on it, and the eight copies that vote.

    python studies/patch_picture.py [--out docs/img/patches.svg]

A small network is trained under bands 2 wide (seconds). Of the test digits the first is shown that is certified against
2 × 2 pixels with votes that are not all the same; the sticker lies where it is seen by as many copies as it can be, and
is what an audit's attack found worst there.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap

import smoothcert
from smoothcert.audit.patches import stick
from smoothcert.audit.search import Ball, Force, Target, weakest
from smoothcert.contracts import EVERY, Source, Stream
from smoothcert.data import load
from smoothcert.noise import HIDDEN
from smoothcert.training import Settings
from smoothcert.training.checkpoints import read_any
from smoothcert.training.loop import train

WIDTH, SIDE = 2, 2
SEEN, UNSEEN = "#c0392b", "#7f8c8d"
STYLE = {"svg.hashsalt": "smoothcert", "font.family": "DejaVu Sans", "font.size": 8}


def copies(noise, x):
    out = torch.empty(noise.cases, *x.shape)
    noise.fill(out, x, Stream(0, 0, EVERY), 0)
    return out


def example(network, noise, inputs):
    """A certified digit, and the worst sticker on it."""
    smoothed = smoothcert.Smoothed(network, noise, progress=False)
    for place in range(len(inputs)):
        x = inputs.tensor(place)
        found = smoothed.certify(x)
        if found.label == int(inputs.labels[place]) and found.radius >= SIDE and max(found.evidence.counts[0]) < 8:
            target = Target(Source(network, noise), place, x, found.label, Ball.of(noise, SIDE, exact=True))
            with torch.enable_grad():
                points = stick(target, network, Force(network, 20, 8, 0))
            return x, weakest(target, points, Stream(0, 0, EVERY))
    raise SystemExit("no such digit")


def drawn(axes, image, edge, title, below=""):
    hidden = image[0] == HIDDEN
    grey = plt.get_cmap("gray_r")
    axes.imshow(torch.where(hidden, torch.nan, image[0]).numpy(), cmap=grey, vmin=0, vmax=1)
    axes.imshow(torch.where(hidden, 0.0, torch.nan).numpy(), cmap=ListedColormap(["#d6eaf8"]))
    axes.set(xticks=[], yticks=[], title=title, xlabel=below)
    for spine in axes.spines.values():
        spine.set(edgecolor=edge, linewidth=2.2)


def picture(network, x, y, noise):
    """The input and the input with its sticker, then every copy of the latter with its vote before and after."""
    votes = [network(copies(noise, one)).argmax(dim=1).tolist() for one in (x, y)]
    changed = (copies(noise, x) != copies(noise, y)).flatten(1).any(dim=1).tolist()
    figure, axes = plt.subplots(1, 10, figsize=(10, 1.55), gridspec_kw={"width_ratios": [1.2, 1.2, *[1] * 8]})
    drawn(axes[0], x, "#2c3e50", "the input", f"says {max(set(votes[0]), key=votes[0].count)}")
    drawn(axes[1], y, "#2c3e50", "a sticker", f"says {max(set(votes[1]), key=votes[1].count)}")
    rows, columns = (x != y)[0].nonzero().unbind(dim=1)
    corner = int(columns.min()) - 0.5, int(rows.min()) - 0.5
    axes[1].add_patch(plt.Rectangle(corner, SIDE, SIDE, fill=False, edgecolor=SEEN, linewidth=1.8))
    for place, copy in enumerate(copies(noise, y)):
        before, after = votes[0][place], votes[1][place]
        told = f"{before} → {after}" if changed[place] else f"{before}"
        drawn(axes[2 + place], copy, SEEN if changed[place] else UNSEEN, "sees it" if changed[place] else "", told)
    figure.tight_layout(pad=0.4)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/img/patches.svg"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, plt.rc_context(STYLE):
        settings = Settings("digits", "digits_cnn", noise="band", noise_options={"width": WIDTH}, epochs=30, batch=64,
                            schedule="one_cycle")  # fmt: skip
        train(settings, Path(folder) / "net")
        network, inputs = read_any(str(Path(folder) / "net")).eval(), load("digits")
        noise = smoothcert.Band(WIDTH).fitted(inputs.shape)
        with torch.no_grad():
            figure = picture(network, *example(network, noise, inputs), noise)
        figure.savefig(options.out, metadata={"Date": None, "Creator": "smoothcert"})
        print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
