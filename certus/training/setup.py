"""What a training starts from: its inputs, its network, and the checkpoint it may go on from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from certus import __version__, catalog, data
from certus.architectures._normalise import BY_DATA
from certus.errors import DataError, OutputError, RunError
from certus.files import write_whole, writing
from certus.training import checkpoints
from certus.training.settings import Settings


def inputs(settings: Settings) -> tuple[data.Inputs, data.Inputs]:
    """The training split, and the inputs to watch: the test split where there is one, else the training split."""
    given: dict[str, Any] = {"value_range": settings.value_range, "image_size": settings.image_size}
    training = data.load(settings.data, "train", **given)
    watched = data.load(settings.data, "test", **given) if _has_test(settings.data) else training
    if watched.shape != training.shape:
        raise DataError(
            f"inputs of {settings.data} must have one shape; got {list(training.shape)} and {list(watched.shape)}"
        )
    return training, watched


def _has_test(spec: str) -> bool:
    folder = Path(spec).expanduser()
    return spec in catalog.names("data") or (folder / "test").is_dir() or (folder / "val").is_dir()


def config(settings: Settings, training: data.Inputs) -> dict[str, Any]:
    """All of config.json that is known before the first step."""
    options = {**_normalisation(settings.data), **settings.arch_options}
    built = catalog.build("architectures", settings.arch, options)
    return {
        "certus": __version__,
        "arch": settings.arch,
        "arch_options": {**options, "mean": list(built.mean), "std": list(built.std)},
        "shape": list(training.shape),
        "classes": training.classes or max(2, int(training.labels.max()) + 1),
        "data": settings.data,
        "data_digest": training.digest,
        "normalisation": {"mean": list(built.mean), "std": list(built.std)},
        "settings": settings.table(),
        "epoch": 0,
    }


def network(config: Mapping[str, Any], seed: int) -> nn.Module:
    """A fresh network with weights drawn from the seed, laid out as convolutions like it."""
    part = catalog.build("architectures", config["arch"], config["arch_options"])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh: nn.Module = part.build(tuple(config["shape"]), config["classes"])
    return fresh.to(memory_format=torch.channels_last) if len(config["shape"]) == 3 else fresh  # type: ignore[call-overload]


def resumable(out: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state to go on from, or None to begin; a folder of something else is refused before any work is done."""
    _require_writable(out)
    held = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    if not held:
        return None
    if checkpoints.STATE not in held:
        raise OutputError(f"out of training must be an empty folder or a checkpoint; got '{out}' with {held[0]}")
    state = checkpoints.read_state(out)
    began = state["config"]
    for name, value in config["settings"].items():
        if began["settings"].get(name) != value:
            raise RunError(f"{name} of the training in '{out}' must stay {began['settings'].get(name)}; got {value}")
    if began["data_digest"] != config["data_digest"]:
        raise RunError(f"data of the training in '{out}' must be what it began with; got other values or labels")
    return state


def _require_writable(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"out of training must be a folder; got the file '{out}'")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".probe"
        write_whole(probe, b"whether there is room to write is asked before training, not after")
        probe.unlink()


def _normalisation(name: str) -> dict[str, Any]:
    if name not in BY_DATA:
        return {}
    mean, std = BY_DATA[name]
    return {"mean": list(mean), "std": list(std)}
