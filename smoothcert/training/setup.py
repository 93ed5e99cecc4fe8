"""What a training starts from: its inputs, its network, its objective, and the checkpoint it may go on from."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from smoothcert import __version__, catalog
from smoothcert.architectures import cost
from smoothcert.data import Inputs, Subset
from smoothcert.errors import THREADS, DataError, OptionError, OutputError, RunError, require_count, require_room
from smoothcert.files import write_whole, writing
from smoothcert.noise import ScalableNoise
from smoothcert.training import IMAGENET, Settings, checkpoints
from smoothcert.training.held_out import split
from smoothcert.training.noisy import filled
from smoothcert.training.objectives import Loss
from smoothcert.training.selection import relabelled

LISTING = "listing"  # what a digest of files is of: names, sizes, labels and indices, and not their contents


def objective(settings: Settings) -> Loss:
    """The loss, with the values published for the nearest σ (by ratio) where none are given."""
    own = _nearest(settings)[1]
    built: Loss = catalog.build("training.objectives", settings.objective, {**own, **settings.objective_options})
    return built


def borrowed(settings: Settings) -> str:
    """In a line, which values of the objective were published for another σ; nothing where none were."""
    sigma, values = _nearest(settings)
    taken = {name: value for name, value in values.items() if name not in settings.objective_options}
    if not taken or sigma == settings.sigma:
        return ""
    words = ", ".join(f"{name} {value:g}" for name, value in taken.items())
    return (
        f"{settings.objective} at sigma {settings.sigma:g} takes the values published for {sigma:g}: {words} "
        "(--set gives others)"
    )


def _nearest(settings: Settings) -> tuple[float | None, Mapping[str, Any]]:
    """The σ nearest by ratio for which values of this objective were published, and these; nothing where none were."""
    part: type[Loss] = catalog.find("training.objectives", settings.objective)[0]
    if not part.published or (sigma := settings.sigma) is None:
        return None, {}
    nearest = min(part.published, key=lambda known: abs(math.log(known / sigma)))
    return nearest, part.published[nearest]


class ChosenInputs(NamedTuple):
    """The inputs to train on, those to watch, and what config.json says of training inputs that were kept back."""

    training: Inputs
    watched: Inputs
    held_out: dict[str, Any] | None = None


def inputs(settings: Settings) -> ChosenInputs:
    """The training split, and the inputs to watch: the test split where there is one, else the training split."""

    def load(split: str) -> Inputs:
        return Subset(settings.data, split, value_range=settings.value_range, image_size=settings.image_size).load()

    training, held_out = load("train"), None
    if settings.labels is not None:
        if settings.hold_out is not None:
            raise OptionError(f"hold_out of training must be left out with labels; got {settings.hold_out}")
        training = relabelled(training, Path(settings.labels))
        return ChosenInputs(training, training)
    if settings.hold_out is not None:
        training, held_out = split(training, settings.hold_out)
    folder = Path(settings.data).expanduser()
    tested = settings.data in catalog.names("data") or (folder / "test").is_dir() or (folder / "val").is_dir()
    watched = load("test") if tested else training
    if watched.shape != training.shape:
        raise DataError(
            f"inputs of {settings.data} must have one shape; got {list(training.shape)} and {list(watched.shape)}"
        )
    return ChosenInputs(training, watched, held_out)


def config(settings: Settings, chosen: ChosenInputs, objective: Loss, processes: int = 1) -> dict[str, Any]:
    """All of config.json that is known before the first step."""
    training, held_out = chosen.training, {} if chosen.held_out is None else {"hold_out": chosen.held_out}
    options = {**_normalisation(settings.known_as), **settings.arch_options}
    built = catalog.build("architectures", settings.arch, options)
    step = min(settings.batch, len(training)) * math.prod(training.shape)
    require_room("training", objective.copies * step, copies=objective.copies)
    require_room("training", settings.sigma_draws * step, sigma_draws=settings.sigma_draws)
    normalisation = {"mean": list(built.mean), "std": list(built.std)}
    return {
        "smoothcert": __version__,
        "arch": settings.arch,
        "arch_options": {**options, **normalisation},
        "shape": list(training.shape),
        "classes": training.classes or max(2, int(training.labels.max()) + 1),
        "data": settings.data,
        "data_digest": training.listing_digest,
        "data_digest_of": LISTING if training.decoded else "values",
        **held_out,
        "normalisation": normalisation,
        "settings": settings.table(),
        "objective": objective.options,
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


def require_fit(settings: Settings, objective: Loss) -> None:
    """Refuse a network or a noise that this loss cannot be trained with."""
    part = catalog.build("architectures", settings.arch, settings.arch_options)
    if part.denoises != objective.denoises:
        wanted, got = ("a denoiser (dncnn)", "classifier") if objective.denoises else ("a classifier", "denoiser")
        raise OptionError(f"arch of training must be {wanted} for {settings.objective}; got {settings.arch}, a {got}")
    noise = settings.build_noise()
    if objective.norms is not None and noise.norm not in objective.norms:
        raise OptionError(
            f"noise of {settings.objective} must be one of norm {' or '.join(objective.norms)}; "
            f"got {settings.noise} ({noise.norm})"
        )
    if settings.sigma_per_example and not isinstance(noise, ScalableNoise):
        raise OptionError(f"noise of sigma_per_example must be gaussian or uniform; got {settings.noise}")


def require_grid(settings: Settings, example: Tensor) -> None:
    """A noise may ask for inputs on its grid."""
    noise = settings.build_noise()
    if not isinstance(noise, ScalableNoise):
        filled(noise, example.unsqueeze(0), 1, 0)


def resumable(out: Path, settings: Settings, processes: int = 1) -> dict[str, Any] | None:
    """The state to go on from, or None to begin; asked before anything is loaded. Other settings are refused."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"out of training must be a folder; got the file '{out}'")
    held = sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) if out.exists() else []
    if not held:
        return None
    if checkpoints.STATE not in held:
        raise OutputError(f"out of training must be an empty folder or a checkpoint; got '{out}' with {held[0]}")
    state = checkpoints.read_state(out)
    began = state["config"]
    settings.refuse_others(out, began["settings"])
    if (before := began.get("processes", 1)) != processes:
        raise RunError(f"processes of the training in '{out}' must stay {before}; got {processes}")
    return state


def require_writable(out: Path) -> None:
    """Refuse a full or locked disk before any work is done."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".probe"
        write_whole(probe, b"whether there is room to write is asked before training, not after")
        probe.unlink()


def _normalisation(name: str | None) -> dict[str, Any]:
    """That of a data set; the architecture's own where nobody said which one the data are."""
    if name is None:
        return {}
    mean, std = checkpoints.IMAGENET if name == IMAGENET else catalog.find("data", name)[0].normalisation
    return {"mean": list(mean), "std": list(std)}


def describe_training(settings: Settings, noise: str) -> list[str]:
    """What would be trained, under which noise, and at what cost, line by line."""
    loss = objective(settings)
    require_fit(settings, loss)
    chosen = inputs(settings)
    training = chosen.training
    require_grid(settings, training.tensor(0))
    facts = config(settings, chosen, loss)
    steps = math.ceil(len(training) / settings.batch)
    kept = f", {chosen.held_out['inputs']:,} kept back" if chosen.held_out is not None else ""
    mean, std = (" ".join(f"{value:g}" for value in facts["normalisation"][key]) for key in ("mean", "std"))
    whose = settings.known_as or "none was named: --as says which data set these are"
    rate = f"{settings.optimiser}, rate {settings.lr:g} by {settings.schedule}, {settings.epochs} epochs"
    return [
        f"{settings.arch} for {list(training.shape)}: {cost(network(facts, settings), training.shape)}",
        f"{settings.data}: {len(training):,} training inputs{kept}, {steps:,} steps an epoch",
        f"normalisation: mean {mean}, std {std} ({whose})",
        f"{settings.objective}: " + ", ".join(f"{name} {value}" for name, value in facts["objective"].items()),
        noise,
        rate + _drops(settings),
        f"momentum {settings.momentum:g}{' (Nesterov)' * (settings.optimiser == 'sgd' and settings.nesterov)}, "
        f"weight decay {settings.weight_decay:g}, augmentation {settings.augment}"
        f"{f', computed in {settings.precision}' * (settings.precision != 'float32')}",
    ]


def _drops(settings: Settings) -> str:
    return "" if settings.drops is None else f", ÷10 at {', '.join(map(str, settings.drops))}"


def use_threads(threads: int | None) -> None:
    """Torch with so many threads; None: as it is."""
    if threads is not None:
        require_count("training", most=THREADS, threads=threads)
        torch.set_num_threads(threads)


def torch_device(name: str) -> str:
    """A device that torch has here; auto: a GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise OptionError(f"device of training must be one torch has here; got '{name}'") from error
    return name
