"""What a training starts from: its inputs, its network, and the checkpoint it may go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert import __version__, catalog, data
from smoothcert.contracts import Objective
from smoothcert.errors import DataError, OptionError, OutputError, RunError
from smoothcert.files import write_whole, writing
from smoothcert.noise import ScalableNoise
from smoothcert.training import checkpoints, foreign
from smoothcert.training.draws import filled
from smoothcert.training.published import nearest
from smoothcert.training.settings import Settings


def objective(settings: Settings) -> Objective:
    """The loss, with the values published for this σ where none are given."""
    part, _ = catalog.find("training.objectives", settings.objective)
    published = {} if settings.sigma is None else nearest(getattr(part, "PUBLISHED", {}), settings.sigma)
    built: Objective = catalog.build(
        "training.objectives", settings.objective, {**published, **settings.objective_options}
    )
    return built


def inputs(settings: Settings) -> tuple[data.Inputs, data.Inputs]:
    """The training split, and the inputs to watch: the test split where there is one, else the training split."""
    given: dict[str, Any] = {"value_range": settings.value_range, "image_size": settings.image_size}
    training = data.load(settings.data, "train", **given)
    if settings.labels is not None:
        training = relabelled(training, Path(settings.labels))
        return training, training
    watched = data.load(settings.data, "test", **given) if _has_test(settings.data) else training
    if watched.shape != training.shape:
        raise DataError(
            f"inputs of {settings.data} must have one shape; got {list(training.shape)} and {list(watched.shape)}"
        )
    return training, watched


def _has_test(spec: str) -> bool:
    folder = Path(spec).expanduser()
    return spec in catalog.names("data") or (folder / "test").is_dir() or (folder / "val").is_dir()


def config(settings: Settings, training: data.Inputs, objective: Objective, processes: int = 1) -> dict[str, Any]:
    """All of config.json that is known before the first step."""
    options = {**_normalisation(settings.data), **settings.arch_options}
    built = catalog.build("architectures", settings.arch, options)
    return {
        "smoothcert": __version__,
        "arch": settings.arch,
        "arch_options": {**options, "mean": list(built.mean), "std": list(built.std)},
        "shape": list(training.shape),
        "classes": training.classes or max(2, int(training.labels.max()) + 1),
        "data": settings.data,
        "data_digest": training.digest,
        "normalisation": {"mean": list(built.mean), "std": list(built.std)},
        "settings": settings.table(),
        "objective": {field.name: getattr(objective, field.name) for field in fields(objective) if field.init},  # type: ignore[arg-type]
        "processes": processes,
        "epoch": 0,
    }


def network(config: Mapping[str, Any], settings: Settings) -> nn.Module:
    """A network with weights drawn from the seed or taken from a checkpoint, laid out as convolutions like it."""
    part = catalog.build("architectures", config["arch"], config["arch_options"])
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        fresh: nn.Module = part.build(tuple(config["shape"]), config["classes"])
    if settings.start is not None:
        checkpoints.fill(fresh, checkpoints.read_any(settings.start).state_dict(), settings.start)
    return fresh.to(memory_format=torch.channels_last) if len(config["shape"]) == 3 else fresh  # type: ignore[call-overload]


def require_fit(network: nn.Module, shape: tuple[int, ...], objective: Objective) -> None:
    """A loss that restores images needs a network that gives images, and every other one a classifier."""
    was = network.training
    with torch.no_grad():
        answer = network.eval()(torch.zeros(1, *shape))
    network.train(was)
    restores = getattr(objective, "RESTORES", False)
    wanted = "a denoiser (dncnn)" if restores else "a classifier"
    if not (answer.shape[1:] == shape if restores else answer.ndim == 2):
        raise OptionError(
            f"arch of training must be {wanted} for this objective; "
            f"got a network with outputs {list(answer.shape[1:])} for inputs {list(shape)}"
        )


def require_noise(settings: Settings, objective: Objective, example: Tensor) -> None:
    """Losses that attack, or that climb a radius, cannot be had with every noise; nor can a level for every example."""
    noise = settings.build_noise()
    norms = getattr(objective, "NORMS", (noise.norm,))
    if noise.norm not in norms:
        raise OptionError(
            f"noise of {settings.objective} must be one of norm {' or '.join(norms)}; "
            f"got {settings.noise} ({noise.norm})"
        )
    if settings.sigma_per_example and not isinstance(noise, ScalableNoise):
        raise OptionError(f"noise of sigma_per_example must be gaussian or uniform; got {settings.noise}")
    if not isinstance(noise, ScalableNoise):  # it may ask for inputs on its grid
        filled(noise, example.unsqueeze(0), 1, 0)


def resumable(out: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state to go on from, or None to begin; a folder of something else is refused before any work is done."""
    held = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    if not held:
        return None
    if checkpoints.STATE not in held:
        raise OutputError(f"out of training must be an empty folder or a checkpoint; got '{out}' with {held[0]}")
    state = checkpoints.read_state(out)
    began = state["config"]
    defaults = Settings("", "").table()
    for name, value in config["settings"].items():
        if (before := began["settings"].get(name, defaults[name])) != value:
            raise RunError(f"{name} of the training in '{out}' must stay {before}; got {value}")
    if (before := began.get("processes", 1)) != config["processes"]:
        raise RunError(f"processes of the training in '{out}' must stay {before}; got {config['processes']}")
    if began["data_digest"] != config["data_digest"]:
        raise RunError(f"data of the training in '{out}' must be what it began with; got other values or labels")
    return state


def require_writable(out: Path) -> None:
    """Refuse what is no folder, and a full or locked disk, before any work is done."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"out of training must be a folder; got the file '{out}'")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".probe"
        write_whole(probe, b"whether there is room to write is asked before training, not after")
        probe.unlink()


def relabelled(training: data.Inputs, path: Path) -> data.Inputs:
    """Only the inputs that a file of `index` and `label` names, with its labels: what a selection network learns."""
    try:
        with np.load(path, allow_pickle=False) as file:
            indices, labels = file["index"].astype(np.int64), file["label"].astype(np.int64)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"labels of training must be an .npz of index and label; got '{path}' ({error})") from error
    if len(indices) != len(labels) or len(indices) == 0 or labels.min() < 0:
        raise DataError(f"labels in '{path}' must be one number of at least 0 an index; got {len(indices)} indices")
    if indices.min() < 0 or indices.max() >= len(training):
        raise DataError(f"indices in '{path}' must be below {len(training)}, the training inputs; got {indices.max()}")
    return training.chosen(indices, labels)


def _normalisation(name: str) -> dict[str, Any]:
    """A data set's own; that of ImageNet for a folder of this name."""
    if name not in (*catalog.names("data"), "imagenet"):
        return {}
    mean, std = foreign.IMAGENET if name == "imagenet" else catalog.find("data", name)[0].normalisation
    return {"mean": list(mean), "std": list(std)}
