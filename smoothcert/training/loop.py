"""The one training loop: data, noise, objective, optimiser, a checkpoint after each epoch.

Every random number of an epoch comes from (seed, epoch), and the learning rate from the settings and the place in
training. So weights, optimiser state, noise levels and epoch are all there is to resume, and a resumed training ends
bit for bit (on one thread) where an uninterrupted one does. Fabric carries it to other devices; started by
`torchrun`, each process takes its share of every batch.
"""

import logging
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from smoothcert.contracts import Batch, Noise
from smoothcert.data import Inputs
from smoothcert.errors import RunError, TrainingError
from smoothcert.training import Settings, checkpoints, setup
from smoothcert.training.feeding import BatchReader, batches, crop_flip, fed, require_augmentation, workers_for
from smoothcert.training.measure import certified_estimate, measured
from smoothcert.training.noisy import SigmaMap, generator, mixed
from smoothcert.training.objectives import Loss


class Watch:
    """What a training reports as it goes; this one ignores it all."""

    def started(self, done: int, epochs: int, steps: int) -> None:
        """Training begins after `done` of `epochs` epochs of `steps` steps each."""

    def stepped(self, terms: Mapping[str, float]) -> None:
        """A step is done, with these loss terms."""

    def finished(self, epoch: int, terms: Mapping[str, float], found: Mapping[str, float]) -> None:
        """An epoch is done and saved, with its mean loss terms and what was measured after it."""


@dataclass(frozen=True)
class Work:
    """All that an epoch needs."""

    settings: Settings
    inputs: Inputs
    fabric: Fabric
    network: nn.Module  # itself
    model: nn.Module  # the same, as Fabric wraps it
    optimiser: Any
    objective: Loss
    noise: Noise
    sigmas: SigmaMap
    average: AveragedModel | None
    workers: int = 0  # processes that decode inputs

    @classmethod
    def begun(
        cls, settings: Settings, inputs: Inputs, network: nn.Module, objective: Loss, fabric: Fabric, workers: int = 0
    ) -> "Work":
        """Before the first epoch."""
        model, optimiser = fabric.setup(network, _optimiser(network, settings))
        noise, sigmas = settings.build_noise(), SigmaMap.fresh(settings, len(inputs))
        average = _averaged(network, settings.ema) if settings.ema else None
        return cls(settings, inputs, fabric, network, model, optimiser, objective, noise, sigmas, average, workers)

    @property
    def steps(self) -> int:
        return math.ceil(len(self.inputs) / self.settings.batch)

    @property
    def result(self) -> nn.Module:
        """The network that training is for: the running average where one is kept."""
        return self.network if self.average is None else self.average.module


def train(
    settings: Settings, out: Path, watch: Watch | None = None, device: str = "cpu", workers: int | None = 0
) -> dict[str, Any]:
    """Train, or go on training, into the checkpoint folder `out`; its final config. Ctrl-C keeps the last epoch.

    `workers`: processes that decode images of a folder; None: as many as there are cores. Their number changes nothing.
    """
    fabric = joined(device, settings.precision)
    watch = watch if watch is not None and fabric.is_global_zero else Watch()
    found = setup.resumable(out, settings, fabric.world_size)
    objective = setup.objective(settings)
    setup.require_fit(settings, objective)
    chosen = setup.inputs(settings)
    inputs, watched = chosen.training, chosen.watched
    setup.require_grid(settings, inputs.tensor(0))
    require_augmentation(settings, inputs)
    decoders = workers_for(inputs, workers)
    config = setup.config(settings, chosen, objective, fabric.world_size)
    network = setup.network(config, settings)
    if fabric.is_global_zero:
        setup.require_writable(out)
    fabric.barrier()
    work = Work.begun(settings, inputs, network, objective, fabric, decoders)
    if found is not None:
        config = _restore(work, found, out)
    watch.started(config["epoch"], settings.epochs, work.steps)
    for epoch in range(config["epoch"], settings.epochs):
        # Layers with randomness of their own draw from torch's global state: that too must come from (seed, epoch).
        with torch.random.fork_rng():
            torch.manual_seed(mixed(settings.seed, epoch, "layers", fabric.global_rank))
            terms = run_epoch(work, epoch, watch)
        for name, tensor in network.state_dict().items():
            if not bool(torch.isfinite(tensor).all()):
                raise _diverged(epoch, f"weight {name}", math.nan)
        measures = measured(work.result, watched, settings, epoch)
        config |= {"epoch": epoch + 1, "loss": terms, **measures}
        if epoch + 1 == settings.epochs:
            config |= {"estimate": certified_estimate(work.result, watched, settings)}
        if fabric.is_global_zero:
            checkpoints.save(out, work.result, config, _state(work))
        watch.finished(epoch + 1, terms, measures)
    fabric.barrier()
    return config


def run_epoch(work: Work, epoch: int, watch: Watch) -> dict[str, float]:
    """One pass over the data in a fresh order; the mean of each loss term."""
    settings, inputs, rank, processes = work.settings, work.inputs, work.fabric.global_rank, work.fabric.world_size
    random = generator(settings.seed, epoch, "train")
    order = torch.randperm(len(inputs), generator=random).numpy()
    if processes > 1:
        random = generator(settings.seed, epoch, "train", rank + 1)
    totals, seen, levels = Counter[str](), 0, work.sigmas.values.clone()
    work.model.train()
    steps = [chosen for chosen in batches(order, settings.batch, rank, processes) if len(chosen)]
    read = fed(BatchReader(inputs, steps, settings, epoch), work.workers)
    for step, (chosen, x) in enumerate(zip(steps, read, strict=True)):
        if settings.augment == "crop_flip":
            x = crop_flip(x, random)
        x, y = x.to(work.fabric.device), torch.from_numpy(inputs.labels[chosen]).to(work.fabric.device)
        places = torch.from_numpy(chosen)
        batch = Batch(x, y, work.sigmas.values[places].to(x.device), random, epoch + step / work.steps, work.noise)
        if work.sigmas.moves(epoch):
            batch = work.sigmas.step(work.network, batch, places)
        terms = _step(work, batch)
        totals.update({name: value * len(chosen) for name, value in terms.items()})
        seen += len(chosen)
        watch.stepped(terms)
    if processes > 1 and work.sigmas.moves(epoch):
        work.sigmas.share(work.fabric, levels)
    return {name: total / seen for name, total in totals.items()}


def _step(work: Work, batch: Batch) -> dict[str, float]:
    for group in work.optimiser.param_groups:
        group["lr"] = work.settings.rate(batch.epoch)
    work.optimiser.zero_grad(set_to_none=True)
    terms = work.objective(work.model, batch)
    values = {name: float(term.detach()) for name, term in terms.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            raise _diverged(int(batch.epoch), f"loss term {name}", value)
    loss: Tensor = torch.stack(list(terms.values())).sum()
    work.fabric.backward(loss)
    if work.settings.clip:
        torch.nn.utils.clip_grad_norm_(work.network.parameters(), work.settings.clip)
    work.optimiser.step()
    if work.average is not None:
        work.average.update_parameters(work.network)
    return values


def joined(device: str, precision: str = "float32") -> Fabric:
    """One process here, or one of those that `torchrun` started."""
    kind = torch.device(device).type
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it would announce what was asked for
    numbers: Any = {"float32": "32-true", "bfloat16": "bf16-mixed"}[precision]
    if "LOCAL_WORLD_SIZE" in os.environ:
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ.get("WORLD_SIZE", here)) // here
        fabric = Fabric(accelerator=kind, strategy="ddp", devices=here, num_nodes=nodes, precision=numbers)
    else:
        index = torch.device(device).index
        devices = 1 if kind == "cpu" or index is None else [index]
        fabric = Fabric(accelerator=kind, devices=devices, precision=numbers)
    fabric.launch()
    return fabric


def _optimiser(network: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    weights, rate, decay = network.parameters(), settings.rate(0), settings.weight_decay
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(weights, rate, (settings.momentum, 0.999), weight_decay=decay)
    return torch.optim.SGD(weights, rate, settings.momentum, weight_decay=decay, nesterov=settings.nesterov)


def _averaged(network: nn.Module, decay: float) -> AveragedModel:
    average: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
    return AveragedModel(network, multi_avg_fn=average, use_buffers=True)


def _state(work: Work) -> dict[str, Any]:
    """All that is not in the published files and is needed to go on."""
    average = work.average.state_dict() if work.average is not None else None
    weights, optimiser = checkpoints.plain(work.network), work.optimiser.state_dict()
    return {"weights": weights, "optimiser": optimiser, "sigma": work.sigmas.values, "average": average}


def _restore(work: Work, found: Mapping[str, Any], out: Path) -> dict[str, Any]:
    config: dict[str, Any] = found["config"]
    listed = config.get("data_digest_of") == setup.LISTING
    if config["data_digest"] != (work.inputs.listing_digest if listed else work.inputs.digest):
        raise RunError(f"data of the training in '{out}' must be what it began with; got other values or labels")
    checkpoints.fill(work.network, found["weights"], str(out / checkpoints.STATE))
    work.optimiser.load_state_dict(found["optimiser"])
    if found.get("sigma") is not None:
        work.sigmas.values.copy_(found["sigma"])
    if work.average is not None:
        work.average.load_state_dict(found["average"])
    if work.fabric.is_global_zero:  # a kill may have come before they were written
        checkpoints.publish(out, checkpoints.plain(work.result), config)
    return config


def _diverged(epoch: int, what: str, value: float) -> TrainingError:
    kept = f"epoch {epoch} is kept" if epoch else "nothing is saved yet"
    return TrainingError(
        f"{what} of training must stay finite; got {value} in epoch {epoch + 1} ({kept}); "
        f"try a smaller --lr, --clip 1 or another --seed"
    )
