"""Take a finished training into the zoo: copy it, certify it, and write down how it is made and what it reaches.

    python zoo/add.py models/cifar10-resnet8-gaussian-0 --run runs/cifar10-resnet8-gaussian-0

The folder's name becomes the network's. Nothing in smoothcert/zoo/zoo.toml is typed by hand: the command that makes the
network again comes from its config.json, the figures from the run, which is continued if it exists. Without --run the
network is entered as it is, to be certified another time.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from safetensors.torch import load as tensors_of
from safetensors.torch import save as to_bytes

from smoothcert import zoo
from smoothcert.catalog import fields
from smoothcert.classifiers import digest
from smoothcert.errors import OptionError
from smoothcert.files import write_whole
from smoothcert.report.metrics import figures, radius_name
from smoothcert.runs.store import read
from smoothcert.training import PRECISIONS, RATES, Settings, recipes
from smoothcert.training.checkpoints import CONFIG, WEIGHTS, read_config

RADII, WHOLE_RADII = (0.0, 0.25, 0.5, 0.75), tuple(map(float, range(9)))
HEADER = "# Written by zoo/add.py; every figure comes from the run of its `measured.command`.\n\n"

# Fields of Settings as options of `smoothcert train`; the others bear their own names.
OPTION = {"start": "--from", "value_range": "--range", "data_set": "--as"}
SEPARATE = ("recipe",)  # every setting is said by itself


def main() -> None:
    """Add one network, then say what it reaches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--run", type=Path, help="folder of the certification run")
    parser.add_argument("--n", type=int, default=10_000, help="draws of that run")
    parser.add_argument("--skip", type=int, default=20, help="it takes every SKIP-th test input")
    parser.add_argument("--half", action="store_true", help="keep matrices and convolutions in half precision")
    given = parser.parse_args()
    name = given.checkpoint.resolve().name
    config = read_config(given.checkpoint)
    check(name, config)
    for file in (CONFIG, WEIGHTS):
        target = zoo.FOLDER / name / file
        target.parent.mkdir(exist_ok=True)
        content = (given.checkpoint / file).read_bytes()
        write_whole(target, halved(content) if given.half and file == WEIGHTS else content)
    enter(name, entry(name, config))
    if given.run is None:
        return
    command = certification(name, config["settings"], given.skip, given.n)
    subprocess.run([sys.executable, "-m", *command, "--threads", "1", "--out", str(given.run)], check=True)
    enter(name, {**entry(name, config), "measured": measured(name, given.run, command)})
    subprocess.run([sys.executable, "-m", "smoothcert", "zoo", name], check=True)


def halved(weights: bytes) -> bytes:
    """Matrices and convolutions in half precision, in half the bytes.

    Loading makes single precision of them, and the figures of the zoo are those of what is loaded.
    """
    tensors = tensors_of(weights)
    large = [name for name, own in tensors.items() if own.ndim > 1 and not name.startswith("normalise.")]
    return to_bytes({**tensors, **{name: tensors[name].half() for name in large}}, metadata={"format": "pt"})


def check(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a training that is not finished, or a name that says something else."""
    settings = config["settings"]
    if config["epoch"] != settings["epochs"]:
        sys.exit(f"training of {name} must be finished; got epoch {config['epoch']} of {settings['epochs']}")
    under = settings["noise"] if settings["objective"] == "gaussian" else settings["objective"]
    start = f"{settings['data']}-{settings['arch']}-{under}"
    if name != start and not name.startswith(f"{start}-"):
        sys.exit(f"name of the checkpoint folder must begin with {start}; got {name}")


def entry(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a network is, and the figures it already has if its files are the same."""
    files = {file: hashlib.sha256((zoo.FOLDER / name / file).read_bytes()).hexdigest() for file in (CONFIG, WEIGHTS)}
    command = training(config["settings"], f"models/{name}", config.get("processes", 1))
    known = zoo.networks().get(name)
    kept = {"measured": _table(known)["measured"]} if known and known.measured and known.sha256 == files else {}
    return {"about": about(config), "command": shlex.join(command), "sha256": files, **kept}


def training(settings: Mapping[str, Any], out: str, processes: int = 1) -> list[str]:
    """The command that makes these settings: every option that is not at its default."""
    defaults = {**Settings("", "").table(), "lr": RATES[settings.get("optimiser", "sgd")]}
    several = ["torchrun", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    words = [*several, "smoothcert", "train"]
    for name, value in settings.items():
        if value == defaults[name] or value is None or name in SEPARATE:
            continue
        if name in ("arch_options", "objective_options", "noise_options"):
            # A name that the noise has as well must say that it is not the noise's.
            shared = fields("noise", settings["noise"]) if name != "noise_options" else set()
            named = {f"{name.removesuffix('_options')}.{one}" if one in shared else one: value[one] for one in value}
            words += [word for option, inner in named.items() for word in ("--set", f"{option}={_text(inner)}")]
        else:
            flag = OPTION.get(name, f"--{name.replace('_', '-')}")
            switch = flag if value is True else flag.replace("--", "--no-", 1)
            words += [switch] if isinstance(value, bool) else [flag, _text(value)]
    return [*words, "--threads", "1", "--out", out]  # one thread: the same bits again


def about(config: Mapping[str, Any]) -> str:
    """Every setting that is not the published one, in a sentence."""
    settings = Settings(**config["settings"])
    name = recipes.OF.get(settings.objective)
    if settings.sigma is None:
        what = f"{settings.objective} on {settings.data} under {settings.build_noise().words}"
        return f"No recipe has {what}: {settings.epochs} {settings.schedule} epochs."
    try:
        published = recipes.find(name or "").training(settings.data, settings.objective, settings.level)
    except OptionError:
        what = f"{settings.objective} on {settings.data} at sigma {settings.level:g}"
        return f"No recipe has {what}: {settings.epochs} {settings.schedule} epochs."
    found = [departure.words for departure in published.departures(settings.table(), config["objective"])]
    if settings.precision != PRECISIONS[0]:  # no published training computed in half precision
        found.append(f"precision {settings.precision} (published: {PRECISIONS[0]})")
    return f"Recipe {name}, but {', '.join(found)}." if found else f"Recipe {name}, as published."


def certification(name: str, settings: Mapping[str, Any], skip: int, n: int) -> list[str]:
    """The command that measures a network: every case of its noise where they are few, else n draws."""
    options = [("data", settings["data"])]
    if settings["sigma"] is None:
        options += [("noise", settings["noise"])]
        options += [("set", f"{key}={_text(value)}") for key, value in settings["noise_options"].items()]
    else:
        options += [("sigma", settings["sigma"])]
    counted = Settings(**settings).build_noise().counted
    options += [("skip", skip), *([] if counted else [("n", n)])]
    return ["smoothcert", "certify", name, *(word for key, value in options for word in (f"--{key}", f"{value}"))]


def measured(name: str, run: Path, command: list[str]) -> dict[str, Any]:
    """The figures of a finished run of that very network."""
    record = read(run)
    whole = record.asked.noise.whole
    found, question = figures(record, WHOLE_RADII if whole else RADII), record.asked.tables()
    if found.inputs != found.asked or question["model_digest"] != digest(name).hex:
        sys.exit(
            f"run {run} must be a finished one of {name}; got another model, or {found.inputs} of {found.asked} inputs"
        )
    return {
        "command": shlex.join([*command, "--out", f"runs/{name}"]),
        **{key: question[key] for key in ("data", "split", "skip", "inputs", "seed")},
        "n0": question["procedure"]["n0"],
        "n": question["sampling"].get("n", record.asked.noise.cases),
        "alpha": record.asked.alpha,
        "norm": record.asked.norm,
        "acr": found.acr,
        "acr_interval": list(found.acr_interval or ()),
        "certified_accuracy": {radius_name(r): share.value for r, share in found.certified_accuracy.items() if share},
    }


def enter(name: str, table: Mapping[str, Any]) -> None:
    """Write the table of the zoo with this entry."""
    tables = {known: _table(network) for known, network in zoo.networks().items()} | {name: table}
    text = HEADER + tomli_w.dumps({known: tables[known] for known in sorted(tables)})
    write_whole(zoo.FOLDER / zoo.TABLE, text.encode())


def _table(network: zoo.Network) -> dict[str, Any]:
    table = dataclasses.asdict(network)
    del table["name"]
    return {key: value for key, value in table.items() if value is not None}


def _text(value: Any) -> str:
    """A value as the command line reads it."""
    if isinstance(value, list):
        return ",".join(_text(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
