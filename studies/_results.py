"""What the studies share: a result is one JSON file, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from smoothcert.cli.main import run
from smoothcert.report.metrics import figures
from smoothcert.runs.store import read


def write(path, result):
    """Keep the result; a reader never finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    part.replace(path)


def load(path, default=None):
    """The result that is there already."""
    return json.loads(Path(path).read_text()) if Path(path).exists() else default


def command(*words):
    """One command of smoothcert, printed; what it had done before is kept. A failure ends the study."""
    line = [str(word) for word in words]
    print("$ smoothcert", *line, flush=True)
    if code := run(line):
        raise SystemExit(code)


def certified(folder, model, options, *words):
    """A run of `smoothcert certify` on the inputs of the options, finished."""
    inputs = ["--data", options.data, *subset(options)]
    command("certify", model, *inputs, "--sigma", options.sigma, "--threads", options.threads, "--out", folder, *words)
    return read(folder)


def subset(options):
    """INPUTS test inputs, every SKIP-th."""
    return ["--skip", options.skip, "--max", options.skip * options.inputs]


def accuracies(record, radii):
    """Certified accuracy at each radius, in per cent, with its exact 95 % interval."""
    found = figures(record, radii).certified_accuracy
    return {f"{radius:g}": share(found[radius]) for radius in radii}


def share(found):
    """A share of inputs in per cent, with its exact 95 % interval."""
    return {"hits": found.hits, "of": found.of, "percent": 100 * found.value, "interval": percents(found.interval)}


def percents(interval):
    return [100 * end for end in interval]


def change(found):
    """A paired difference of shares, in points, with its interval."""
    return {"points": 100 * found.value, "interval": percents(found.interval), "p": found.p_value}


def shown(percent, interval):
    """`48.2 (46.1 to 50.3)`."""
    return f"{percent:.1f} ({interval[0]:.1f} to {interval[1]:.1f})"


def table(head, lines):
    """A Markdown table."""
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(map(str, cells)) + " |")


def inputs_of(parser, inputs=500, skip=20, data="cifar10"):
    """Options that every study of certified inputs has."""
    parser.add_argument("--data", default=data)
    parser.add_argument("--inputs", type=int, default=inputs, help="how many test inputs")
    parser.add_argument("--skip", type=int, default=skip, help="every SKIP-th of them")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="folder of runs and of result.json")
