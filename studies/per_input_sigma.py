"""Fixed σ against a σ for every input, with and without a memory: certified accuracy, ACR, and conflicts.

    python studies/per_input_sigma.py --out study/own-sigma [--inputs 500] [--n 10000] [--fixed 0.25] [--searches …]
    python studies/per_input_sigma.py --out study/own-sigma --learned        # DS²: the network learns with own σ, too
    python studies/per_input_sigma.py --out study/own-sigma-plane --plane

The first: a network of the zoo (CIFAR-10, trained at σ = 0.25). --learned adds a network trained in the same way, but
with a σ for every example, and holds it against the first under the same searches. The third: digits in two dimensions,
where certified balls of different labels are close and the memory has something to settle. A search is named as
--sigma-search: ascent with the published settings, ascent-K with K steps, votes with 20 levels of 50 copies. Every run
is one of `smoothcert certify`, looked at again by `smoothcert verify`: what is there already is kept, so that a stopped
study goes on. Differences are paired over inputs, with 95 % intervals of a bootstrap. "No certificate": what smoothing
at the inputs' own σ alone had said.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections import Counter
from pathlib import Path

import _plane
import torch

from smoothcert import zoo
from smoothcert.cli.main import run
from smoothcert.data import load
from smoothcert.memory import Memory
from smoothcert.report.compare import compare
from smoothcert.report.metrics import figures, radius_name
from smoothcert.report.sections.memory import gains, level, own_levels, words
from smoothcert.report.tables import class_name, decimal, percent
from smoothcert.runs.remember import ORDERS, ordered
from smoothcert.runs.store import read
from smoothcert.training.checkpoints import STATE

SEARCHES = {
    "ascent": [],  # as published: 900 steps of 1e-4 with one copy
    "grid": ["--sigma-search", "grid"],
    "votes": ["--sigma-search", "votes", "--draws", 50, "--evaluations", 1000],
}
RADII = {"cifar10": (0.0, 0.25, 0.5, 0.75, 1.0), "plane": (0.0, 0.02, 0.04, 0.08, 0.12, 0.16)}


def words_of(search):
    """The options of a search by its name; `ascent-300` takes so many steps."""
    name, _, steps = search.partition("-")
    return [*SEARCHES[name], *(["--steps", steps] if steps else [])]


def command(*words_):
    if code := run([str(word) for word in words_]):
        raise SystemExit(code)


def certified(options, model, name, sigma, *more):
    """A run of the study, verified."""
    folder = options.out / name
    inputs = ["--data", options.data, "--skip", options.skip, "--max", options.skip * options.inputs]
    draws = ["--sigma", sigma, "--n", options.n, "--threads", options.threads]
    command("certify", model, *inputs, *draws, "--out", folder, *more)
    command("verify", folder, "--redraw", 1)
    return read(folder)


def line(name, record, radii, *cells):
    run_ = figures(record, radii)
    shares = [percent(run_.certified_accuracy[radius]) for radius in radii]
    return [name, decimal(run_.acr), percent(run_.abstained), *shares, *cells]


def table(fixed, own, radii):
    """Markdown: runs and figures; then gains of each run with a memory."""
    lines = [["run", "ACR", "abstained %", *(radius_name(radius) for radius in radii), "switched / shrunk / answered"]]
    lines += [line(f"fixed σ = {level(record):g}", record, radii, "") for record in fixed]
    for name, record in own.items():
        (found,) = own_levels([record])
        counts = found.how_settled()
        settled = " / ".join(str(counts.get(kind, 0)) for kind in ("switched", "shrunk", "answered"))
        lines.append(line(f"own σ, {name}: no certificate", found.alone, radii, ""))
        lines.append(line(f"own σ, {name}, with memory", record, radii, settled))
    yield from rows(lines)
    lines = [["gain", "ACR", *(f"{radius_name(radius)}, points" for radius in radii)]]
    for name, record in own.items():
        (found,) = own_levels([record, *fixed])
        for gain in gains(found, radii):
            cells = ["{} ({})".format(*part.told(2)) for part in gain.shares.values()]
            acr = "{} ({})".format(*gain.acr.told())
            lines.append([f"{name}, with memory, over σ = {level(gain.over):g}", acr, *cells])
    yield ""
    yield from rows(lines)


def rows(lines):
    yield "| " + " | ".join(lines[0]) + " |"
    yield "|" + "---|" * len(lines[0])
    yield from ("| " + " | ".join(cells) + " |" for cells in lines[1:])


def wide(record, start):
    """Whether large levels are those at which the network says one class of everything."""
    some = [row for row in record.rows if row.sigma >= 2 * start and row.predicted >= 0]
    classes = Counter(class_name(record, row.predicted) for row in some).most_common(3)
    told = ", ".join(f"{name} {count}" for name, count in classes)
    return f"σ of at least {2 * start:g}: {len(some)} certified inputs, most often {told or 'none'}"


def learned(options):
    """The network's own recipe once more, with a σ for every example.

    As published a quarter of the epochs have the common σ. Steps are longer as epochs are fewer, so that a σ can go as
    far as in 150 published epochs of 1e-4.
    """
    words_ = shlex.split(zoo.networks()[options.model].command)[1:]
    epochs, folder = int(words_[words_.index("--epochs") + 1]), options.out / "learned"
    words_[words_.index("--out") + 1] = str(folder)
    warmup = epochs // 4
    step = ["--sigma-warmup", warmup, "--sigma-step", f"{150e-4 / (epochs - warmup):g}"]
    command(*words_, "--sigma-per-example", *step)
    reached = torch.load(folder / STATE)["sigma"].quantile(torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0])).tolist()
    print(f"levels of training, least, 10 %, median, 90 %, largest: {', '.join(f'{one:.3f}' for one in reached)}")
    return folder


def orders(record, options):
    """The same certificates through fresh memories in every order."""
    inputs = load(str(options.data), skip=options.skip, max=options.skip * options.inputs)
    places = {index: position for position, index in enumerate(inputs.indices.tolist())}
    for order in ORDERS:
        with tempfile.TemporaryDirectory() as folder, Memory.create(f"{folder}/m", "x", "l2", inputs.shape) as memory:
            rows_ = ordered([row.smoothed for row in record.rows], order, 0)
            found = [(row, memory.admit(inputs.tensor(places[row.index]), row.predicted, row.radius)) for row in rows_]
        counts = Counter(settled.conflict for _, settled in found)
        acr = sum(settled.radius for row, settled in found if settled.label == row.label) / len(found)
        yield f"order {order}: {counts['switched']} switched, {counts['shrunk']} shrunk, ACR {acr:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plane", action="store_true", help="digits in two dimensions instead of CIFAR-10")
    parser.add_argument("--model", default="cifar10-resnet8-gaussian-0")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--sigma", type=float, help="where the searches begin  [0.25; plane: 0.04]")
    parser.add_argument("--fixed", help="fixed levels  [0.25; plane: 0.02,0.04,0.08]")
    parser.add_argument("--searches", default="ascent,votes")
    parser.add_argument("--learned", action="store_true", help="also a network that learns with a σ for every example")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.plane:
        (options.data, options.model), options.skip = _plane.make(options.out / "plane"), 1
    sigma = options.sigma or (0.04 if options.plane else 0.25)
    levels = options.fixed or ("0.02,0.04,0.08" if options.plane else "0.25")
    fixed = [certified(options, options.model, f"fixed-{one}", one) for one in levels.split(",")]
    own, networks = {}, {"": options.model}
    if options.learned:
        networks["learned-"] = learned(options)
    for prefix, model in networks.items():
        for search in options.searches.split(","):
            name = prefix + search
            memory = ["--memory", options.out / f"{name}.sqlite"]
            own[name] = certified(options, model, f"own-{name}", sigma, "--sigma-per-input", *words_of(search), *memory)
            command("memory", "check", options.out / f"{name}.sqlite")
    print(f"\n{len(fixed[0].rows)} inputs, n = {options.n}, alpha = 0.001, searches begin at {sigma:g}\n")
    print("\n".join(table(fixed, own, RADII["plane" if options.plane else "cifar10"])), "\n")
    for name, record in own.items():
        for said in [*words(own_levels([record])[0]), wide(record, sigma), *orders(record, options)]:
            print(f"- {name}: {said}")
    for search in options.searches.split(",") if options.learned else []:
        print(f"\n{search}: DS² against DS\n\n{compare(own[search], own[f'learned-{search}'], RADII['cifar10'])}")


if __name__ == "__main__":
    main()
