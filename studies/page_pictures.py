"""The pictures at the top of docs/sampling.md, memory.md, performance.md and results.md.

    python studies/page_pictures.py [--only sampling memory performance results] [--docs docs] [--png FOLDER]

Their numbers are read from the tables of the page that shows them, so that a picture and its table cannot disagree; run
this again after a table has changed. Only the memory's answers are computed, by `smoothcert.memory`, and those that the
page has too are compared with it. Seconds.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

from smoothcert.memory import Memory

STYLE = {"svg.hashsalt": "smoothcert", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
         "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"], "axes.spines.top": False, "axes.spines.right": False,
         "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "grid.alpha": 0.25,
         "axes.axisbelow": True, "legend.frameon": False}  # fmt: skip
BLUE, RED, GREEN, ORANGE, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#9b59b6", "#6b7280"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def table(page, header):
    """The rows of the one table of the page whose header begins so, cell by cell, without bold type."""
    lines = page.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(header)]
    if len(places) != 1:
        raise SystemExit(f"the page has {len(places)} tables with the header {header}")
    rows = []
    for line in lines[places[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("**", "") for cell in line.strip("|").split("|")])
    return rows


def numbers(cell):
    """Every number of a cell."""
    return [float(found) for found in NUMBER.findall(cell)]


def sampling(page):
    """Mean draws ÷ Wald's bound, by scheme and radius: `python studies/page_pictures.py --only sampling`."""
    header = "| σ, r/σ | fixed | staged | anytime | spending | spending, leader |"
    rows, names = table(page, header), header.strip("| ").split(" | ")
    looks = [("o", GREY), ("s", RED), ("^", ORANGE), ("D", BLUE), ("v", GREEN)]
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.1), sharey=True, layout="constrained")
    for panel, sigma in zip(axes, ("0.25", "0.5"), strict=True):
        these = [row for row in rows if row[0].split(", ")[0] == sigma]
        for column, (marker, colour) in enumerate(looks, 1):
            values = [float(row[column]) for row in these]
            panel.plot(values, color=colour, marker=marker, markersize=5.5, linewidth=1, label=names[column])
        panel.axhline(1, color="black", linewidth=1, linestyle="--")
        panel.set(yscale="log", ylim=(0.7, 100), title=f"σ = {sigma}", xlabel="radius ÷ σ")
        panel.set(xticks=range(len(these)), xticklabels=[row[0].split(", ")[1] for row in these])
        panel.grid(axis="y")
    axes[0].set(ylabel="mean draws ÷ lower bound", yticks=(1, 2, 5, 10, 20, 50, 100))
    axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
    axes[0].minorticks_off()
    axes[0].text(0, 0.95, "Wald's lower bound", va="top", fontsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def ball(axes, x, radius, colour, label="", refused=False, at=(0, 0)):
    """A certified ball with its centre, and a label from there; a refused ball is dashed and empty."""
    face = "none" if refused else (*matplotlib.colors.to_rgb(colour), 0.16)
    line = "--" if refused else "-"
    axes.add_patch(plt.Circle(x, radius, facecolor=face, edgecolor=colour, linewidth=1.5, linestyle=line))
    axes.plot(*x, marker="o", color=colour, markersize=4.5)
    if label:
        arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkB": 3}
        axes.annotate(label, x, x + np.float32(at), color=colour, ha="center", va="center", arrowprops=arrow)


def memory(page):
    """Certificates that contradict each other, and a memory's answers: `python studies/page_pictures.py --only memory`.

    The two points, their labels and radii are those of the page. The third point is made up to show a ball that meets a
    region from outside.
    """
    header = "| | own σ | without a memory | with a memory that was asked about the input first |"
    (input_, _, without, kept), (neighbour, _, against, answer) = table(page, header)
    x, y = np.float32(numbers(input_)), np.float32(numbers(neighbour))
    (label, radius), (other, refused) = numbers(without), numbers(against)
    third, wanted = x + np.float32([-0.052, -0.036]), 0.030
    with tempfile.TemporaryDirectory() as folder, Memory.create(Path(folder) / "m", "network", "l2", (2,)) as regions:
        told = [
            regions.admit(*offer)
            for offer in ((x, int(label), radius), (y, int(other), refused), (third, int(other), wanted))
        ]
    for cell, one in ((kept, told[0]), (answer, told[1])):
        if not np.allclose(
            numbers(cell), (one.label, one.radius), atol=2e-4
        ):  # points and radii are rounded on the page
            raise SystemExit(f"the page says {cell!r}, the memory {one}")
    if (told[1].conflict, told[2].conflict) != ("switched", "shrunk"):
        raise SystemExit(f"the memory answers otherwise: {told}")
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.3), layout="constrained")
    blue, red = (f"label {int(one)}" for one in (label, other))
    for panel in axes:
        ball(panel, x, radius, BLUE, f"the input:\n{blue}", at=(0.008, -0.028))
    ball(axes[0], y, refused, RED, f"a neighbour:\n{red}", at=(-0.053, 0.036))
    ball(axes[1], y, refused, RED, refused=True)
    ball(axes[1], y, told[1].radius, BLUE, f"a neighbour:\n{blue}", at=(-0.053, 0.036))
    ball(axes[2], third, wanted, RED, refused=True)
    ball(axes[2], third, told[2].radius, RED, f"another input:\n{red}", at=(-0.018, 0.05))
    said = [
        ("Without a memory", "a neighbour inside the ball is\ncertified with another label"),
        ("With a memory", f"the ball of {red} is refused (dashed):\nthe region answers, no draw"),
        ("A ball that meets a region", "from outside: kept, but it ends\nwhere the region begins"),
    ]
    for panel, (title, below) in zip(axes, said, strict=True):
        panel.set(aspect="equal", title=title, xticks=[], yticks=[], xlabel=below)
        panel.set(xlim=(x[0] - 0.098, x[0] + 0.05), ylim=(x[1] - 0.071, x[1] + 0.055))
        panel.spines[:].set(visible=True, color="#c5c9d0")
    return figure


def interval(axes, place, cell, colour, filled=True, marker="o"):
    """A median with its range over rounds, as a table has it: 0.98 [0.61, 0.99]."""
    middle, low, high = numbers(cell)
    axes.plot((low, high), (place, place), color=colour, linewidth=2.4, alpha=0.45, solid_capstyle="butt")
    axes.plot(middle, place, marker, color=colour, markerfacecolor=colour if filled else "white", markersize=6.5)


def performance(page):
    """Speed against the bare network and against peers: `python studies/page_pictures.py --only performance`."""
    limit = table(page, "| network | threads | ÷ forward passes of the bare network | ÷ noise and forward passes |")
    peers = table(page, "| network | ÷ ART | ÷ eager loop |")
    printed = " ".join(" ".join(FENCE.findall(page)).split())
    for cell in [cell for row in limit for cell in row[2:]] + [cell for row in peers for cell in row[1:]]:
        if cell not in printed:
            raise SystemExit(f"{cell}: no output on the page has it")
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", gridspec_kw={"width_ratios": [1.15, 1]})
    for place, (_, _, forward, both) in enumerate(limit):
        interval(axes[0], place - 0.14, forward, BLUE)
        interval(axes[0], place + 0.14, both, GREY, filled=False)
    for place, (_, art, eager) in enumerate(peers):
        interval(axes[1], place - 0.14, art, RED)
        interval(axes[1], place + 0.14, eager, GREEN, marker="s")
    threads = [f"{row[0]}, {row[1]} thread{'s' if row[1] != '1' else ''}" for row in limit]
    axes[0].set(title="smoothcert ÷ the limit", yticks=range(len(limit)), yticklabels=threads, xlim=(0, 1.12))
    axes[1].set(
        title="smoothcert ÷ other software",
        yticks=range(len(peers)),
        yticklabels=[row[0] for row in peers],
        xlim=(0, 6.3),
    )
    for panel, names in zip(axes, (("forward passes", "noise and forward passes"), ("ART", "eager loop")), strict=True):
        panel.axvline(1, color="black", linewidth=1, linestyle="--")
        panel.invert_yaxis()
        panel.grid(axis="x")
        colours = (
            ((BLUE, "o", BLUE), (GREY, "o", "white")) if panel is axes[0] else ((RED, "o", RED), (GREEN, "s", GREEN))
        )
        dots = [plt.Line2D([], [], color=c, marker=m, markerfacecolor=f, linestyle="") for c, m, f in colours]
        panel.legend(dots, names, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, handletextpad=0.2)
    return figure


def results(page):
    """Certified accuracy at radii, of objectives and of votes: `python studies/page_pictures.py --only results`."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    header = "| objective | budget s | took s | epochs | ACR | sd | at 0 | 0.25 | 0.5 | 0.7 |"
    rows = [row for row in table(page, header) if row[1] == "120"]
    looks = {"gaussian": ("o", GREY), "consistency": ("D", BLUE), "smoothadv": ("s", GREEN), "smoothmix": ("v", ORANGE),
             "macer": ("^", RED), "advmacer": ("P", PURPLE)}  # fmt: skip
    for row in rows:
        marker, colour = looks[row[0]]
        values = [float(cell) for cell in row[6:]]
        axes[0].plot((0, 0.25, 0.5, 0.7), values, color=colour, marker=marker, linewidth=1.4, label=row[0])
    radii = np.array([0, 0.25, 0.5, 0.75])
    gains = {
        row[0]: row[2:]
        for row in table(page, "| gain (95 %, paired over inputs) | ACR | at 0, points | 0.25 | 0.5 | 0.75 |")
    }
    for name, marker, colour, aside in (
        ("soft 5 over the mean member", "D", BLUE, -0.012),
        ("soft 3 over its mean member", "s", GREEN, 0.012),
    ):
        middle, low, high = np.array([numbers(cell) for cell in gains[name]]).T
        axes[1].errorbar(
            radii + aside,
            middle,
            (middle - low, high - middle),
            color=colour,
            marker=marker,
            label=name,
            linewidth=1.4,
            elinewidth=1,
            capsize=2.5,
        )
    votes = {
        row[0]: np.array([numbers(cell)[0] for cell in row[2:]])
        for row in table(page, "| | ACR | at 0 | 0.25 | 0.5 | 0.75 |")[:5]
    }
    saved = votes["soft vote of 5"] - votes["… with 50 000 draws, computed"]
    axes[1].plot(
        radii,
        saved,
        "--",
        color=GREY,
        marker="o",
        linewidth=1.4,
        label="soft 5 over the strongest member\nwith five times the draws",
    )
    axes[0].set(title="Fashion-MNIST, 120 s of training", xticks=(0, 0.25, 0.5, 0.7), ylim=(50, 92))
    axes[0].set(ylabel="certified accuracy, %")
    axes[1].set(
        title="CIFAR-10: what a vote adds", xticks=radii, ylim=(0, 12.5), ylabel="certified accuracy, points gained"
    )
    for panel, place in zip(axes, ("lower left", "upper left"), strict=True):
        panel.set(xlabel="radius")
        panel.grid()
        panel.legend(loc=place, fontsize=8)
    return figure


PICTURES = {picture.__name__: picture for picture in (sampling, memory, performance, results)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=PICTURES)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--png", type=Path, help="a folder for the same pictures as PNG, to look at")
    options = parser.parse_args()
    for name in options.only:
        with plt.rc_context(STYLE):
            figure = PICTURES[name]((options.docs / f"{name}.md").read_text(encoding="utf-8"))
            out = options.docs / "img" / f"{name}.svg"
            figure.savefig(out, facecolor="white", metadata={"Date": None, "Creator": "smoothcert"})
            if options.png:
                figure.savefig(options.png / f"{name}.png", dpi=110, facecolor="white")
            plt.close(figure)
            print(f"wrote {out}")


if __name__ == "__main__":
    main()
