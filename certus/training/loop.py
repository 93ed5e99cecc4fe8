"""The one training loop: data, noise, objective, SGD, a checkpoint after each epoch.

Every random number of an epoch comes from (seed, epoch), and the learning rate from the settings and the place in
training. So weights, optimiser state and epoch are all there is to resume, and a resumed training ends bit for bit
(on one thread) where an uninterrupted one does.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from certus import catalog, data
from certus.contracts import Batch, Objective
from certus.errors import TrainingError
from certus.training import checkpoints, setup
from certus.training.augment import crop_flip
from certus.training.forward import scores
from certus.training.settings import Settings

_WATCHED = 1000  # inputs that the accuracy after each epoch is over: a guide, not a result


class Watch:
    """What a training reports as it goes; this one ignores it all."""

    def started(self, done: int, epochs: int, steps: int) -> None:
        """Training begins after `done` of `epochs` epochs of `steps` steps each."""

    def stepped(self, terms: Mapping[str, float]) -> None:
        """A step is done, with these loss terms."""

    def finished(self, epoch: int, terms: Mapping[str, float], accuracy: float) -> None:
        """An epoch is done and saved, with its mean loss terms and the accuracy under noise."""


@dataclass(frozen=True)
class Work:
    """All that an epoch needs."""

    settings: Settings
    inputs: data.Inputs
    watched: data.Inputs
    network: nn.Module
    optimiser: torch.optim.SGD
    objective: Objective
    device: str

    @property
    def steps(self) -> int:
        return math.ceil(len(self.inputs) / self.settings.batch)


def train(settings: Settings, out: Path, watch: Watch | None = None, device: str = "cpu") -> dict[str, Any]:
    """Train, or go on training, into the checkpoint folder `out`; its final config. Ctrl-C keeps the last epoch."""
    watch = watch or Watch()
    objective = catalog.build("training.objectives", settings.objective, settings.objective_options)
    inputs, watched = setup.inputs(settings)
    config = setup.config(settings, inputs)
    network = setup.network(config, settings.seed).to(device)
    found = setup.resumable(out, config)
    optimiser = torch.optim.SGD(
        network.parameters(), settings.lr, settings.momentum, weight_decay=settings.weight_decay, nesterov=True
    )
    if found is not None:
        config = found["config"]
        checkpoints.fill(network, found["weights"], str(out / checkpoints.STATE))
        optimiser.load_state_dict(found["optimiser"])
        checkpoints.publish(out, found["weights"], config)  # a kill may have come before they were written
    done = int(config["epoch"])
    work = Work(settings, inputs, watched, network, optimiser, objective, device)
    watch.started(done, settings.epochs, work.steps)
    for epoch in range(done, settings.epochs):
        # Layers with randomness of their own draw from torch's global state: that too must come from (seed, epoch).
        with torch.random.fork_rng():
            torch.manual_seed(_seed(settings.seed, epoch, "layers"))
            terms = run_epoch(work, epoch, watch)
        _check_weights(network, epoch)
        accuracy = noisy_accuracy(work, epoch)
        config |= {"epoch": epoch + 1, "loss": terms, "noisy_accuracy": accuracy}
        checkpoints.save(out, network, config, optimiser.state_dict())
        watch.finished(epoch + 1, terms, accuracy)
    return config


def run_epoch(work: Work, epoch: int, watch: Watch) -> dict[str, float]:
    """One pass over the data in a fresh order; the mean of each loss term."""
    settings, inputs = work.settings, work.inputs
    generator = _generator(settings.seed, epoch, "train")
    order = torch.randperm(len(inputs), generator=generator).numpy()
    totals: Counter[str] = Counter()
    work.network.train()
    for step in range(work.steps):
        chosen = order[step * settings.batch : (step + 1) * settings.batch]
        x = inputs.tensors(chosen)
        if settings.augment == "crop_flip":
            x = crop_flip(x, generator)
        y = torch.from_numpy(inputs.labels[chosen]).to(work.device)
        sigma = torch.full((len(chosen),), settings.sigma, device=work.device)
        batch = Batch(x.to(work.device), y, sigma, generator, epoch + step / work.steps)
        terms = _step(work, batch)
        totals.update({name: value * len(chosen) for name, value in terms.items()})
        watch.stepped(terms)
    return {name: total / len(inputs) for name, total in totals.items()}


def _step(work: Work, batch: Batch) -> dict[str, float]:
    for group in work.optimiser.param_groups:
        group["lr"] = work.settings.rate(batch.epoch)
    work.optimiser.zero_grad(set_to_none=True)
    terms = work.objective(work.network, batch)
    values = {name: float(term.detach()) for name, term in terms.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            raise _diverged(int(batch.epoch), f"loss term {name}", value)
    loss: Tensor = torch.stack(list(terms.values())).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    work.optimiser.step()
    return values


@torch.inference_mode()
def noisy_accuracy(work: Work, epoch: int) -> float:
    """The share of (at most _WATCHED) inputs of which one noisy copy is classified rightly."""
    generator = _generator(work.settings.seed, epoch, "accuracy")
    every = torch.arange(0, len(work.watched), math.ceil(len(work.watched) / _WATCHED)).numpy()
    work.network.eval()
    right = 0
    for start in range(0, len(every), work.settings.batch):
        chosen = every[start : start + work.settings.batch]
        x = work.watched.tensors(chosen)
        noisy = x + work.settings.sigma * torch.randn(x.shape, generator=generator)
        answers = scores(work.network, noisy.unsqueeze(0).to(work.device))[0].argmax(dim=1).cpu()
        right += int((answers == torch.from_numpy(work.watched.labels[chosen])).sum())
    return right / len(every)


def _generator(seed: int, epoch: int, purpose: str) -> Generator:
    """On the CPU wherever the network is, so that every device sees the same noise."""
    return torch.Generator().manual_seed(_seed(seed, epoch, purpose))


def _seed(seed: int, epoch: int, purpose: str) -> int:
    """Torch keeps 32 bits of a seed, so mix them well. This is no evidence: certificates have streams of their own."""
    return int.from_bytes(hashlib.sha256(f"{seed} {epoch} {purpose}".encode()).digest()[:4], "big")


def _check_weights(network: nn.Module, epoch: int) -> None:
    for name, tensor in network.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise _diverged(epoch, f"weight {name}", math.nan)


def _diverged(epoch: int, what: str, value: float) -> TrainingError:
    kept = f"epoch {epoch} is kept" if epoch else "nothing is saved yet"
    return TrainingError(
        f"{what} of training must stay finite; got {value} in epoch {epoch + 1} ({kept}); "
        f"try a smaller --lr or another --seed"
    )
