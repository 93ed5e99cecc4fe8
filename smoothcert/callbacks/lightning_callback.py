"""Certified accuracy as a callback of PyTorch Lightning, under either of its names."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from smoothcert.arguments import checked
from smoothcert.callbacks.grown import Grown, installed
from smoothcert.callbacks.question import CAP, CertifiedShare, TrainingQuestion, kind, pairs
from smoothcert.contracts import Noise
from smoothcert.errors import DataError, OptionError, require_count

GIVE = "give them: CertifiedAccuracyCallback(x, y, …)"


class CertifiedAccuracyCallback(Grown):
    """For a Trainer of `lightning` or `pytorch_lightning`: certified accuracy of some inputs, every so many epochs.

    >>> Trainer(callbacks=[CertifiedAccuracyCallback(x, y, sigma=0.25, radius=0.5, every=5, inputs=100)])

    Logs `certified_accuracy_l2_0.5`, `abstained_l2_0.5` (a share, too) and `draws_l2_0.5`, after the first epoch and
    then after every fifth: at its validation where there is one, else at its end. `last` keeps the latest with its
    interval.

    `inputs` of x are taken, evenly spread, the same in each epoch; without x and y those of the validation loader's
    data set. `network` names the part of the module that gives the scores, if it is not the module itself. Other
    options are those of `certified_accuracy`.
    """

    @checked
    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        *,
        sigma: float | Noise,
        radius: float,
        every: int = 5,
        inputs: int = 100,
        network: Any = "",
        cap: int = CAP,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
    ) -> None:
        super().__init__()
        require_count("CertifiedAccuracyCallback", every=every, inputs=inputs)
        if not isinstance(network, str):
            raise OptionError(
                f"network of CertifiedAccuracyCallback must be the name of a part, such as 'net'; got {kind(network)}"
            )
        if (x is None) != (y is None):
            raise OptionError("CertifiedAccuracyCallback must have x and y, or neither for those of the validation")
        self.last: CertifiedShare | None = None
        self._every, self._inputs, self._network = every, inputs, network
        self._question = TrainingQuestion(sigma, radius, cap, alpha, seed, batch)
        self._given = None if x is None else _spread(pairs(x, y), inputs)
        self._read: tuple[list[Tensor], list[int]] | None = None  # from the validation loader of this fit
        self._epochs = 0  # that had been trained at the latest measurement of this fit

    @classmethod
    def bases(cls) -> tuple[type, ...]:
        """The class of every package that is in use; one with both as bases suits either's Trainer."""
        names = ("lightning.pytorch", "pytorch_lightning")
        loaded = [module for name in names if (module := sys.modules.get(name)) is not None]
        return tuple(module.Callback for module in loaded or [installed("CertifiedAccuracyCallback", *names)])

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin anew: another fit may have other data."""
        self._read, self._epochs = None, 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Ask about one input, so that what cannot be certified is refused before the first epoch."""
        if self._given is None and not trainer.enable_validation:
            raise DataError(f"CertifiedAccuracyCallback must have x and y where nothing is validated; {GIVE}")
        if self._given is not None or trainer.val_dataloaders is not None:
            x, y = self._data(trainer)
            self._question.answer(self._part(pl_module), x[:1], y[:1])

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure in `trainer.validate`, and in a fit when it is due."""
        if trainer.sanity_checking:
            return
        if trainer.state.fn != "fit" or self._due(trainer):
            self._measure(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure here where there is no validation: callbacks that monitor a figure come later."""
        if not trainer.enable_validation and self._due(trainer):
            self._measure(trainer, pl_module)

    def _due(self, trainer: Any) -> bool:
        """After the first epoch, as those who monitor a figure ask for it then, and at each multiple of `every`.

        Where validations are rarer, at the first one after it.
        """
        now = int(trainer.current_epoch) + 1
        due = self._epochs == 0 or now // self._every > self._epochs // self._every
        self._epochs = now if due else self._epochs
        return due

    def _measure(self, trainer: Any, pl_module: Any) -> None:
        asked = self.last = self._question.answer(self._part(pl_module), *self._data(trainer))
        figures = {"certified_accuracy": asked.share, "abstained": asked.abstained / asked.of, "draws": asked.draws}
        for name, value in figures.items():
            # Every process measures the same inputs with the same noise. Where networks differ in batch statistics
            # their mean is logged, so that callbacks that stop or save decide alike.
            pl_module.log(
                f"{name}_{self._question.name}",
                float(value),
                on_step=False,
                on_epoch=True,
                prog_bar=name == "certified_accuracy",
                batch_size=1,
                sync_dist=True,
            )

    def _part(self, pl_module: Any) -> nn.Module:
        try:
            part: nn.Module = pl_module.get_submodule(self._network)
        except AttributeError as error:
            parts = ", ".join(name for name, _ in pl_module.named_children())
            raise OptionError(
                f"network of CertifiedAccuracyCallback must be a part of {type(pl_module).__name__} ({parts}); "
                f"got '{self._network}'"
            ) from error
        return part

    def _data(self, trainer: Any) -> tuple[list[Tensor], list[int]]:
        """Those that were given, or the validation loader's, read once."""
        if self._given is not None:
            return self._given
        if self._read is None:
            with _random_numbers_kept():
                self._read = _of_loader(trainer.val_dataloaders, self._inputs)
        return self._read


def _spread(pairs: tuple[list[Tensor], list[int]], most: int) -> tuple[list[Tensor], list[int]]:
    x, y = pairs
    chosen = _places(len(x), most)
    return [x[place].clone() for place in chosen], [y[place] for place in chosen]


def _places(count: int, most: int) -> Sequence[int]:
    """So many places, evenly spread: data are often sorted by class."""
    few = min(most, count)
    return [number * count // few for number in range(few)]


def _of_loader(loaders: Any, most: int) -> tuple[list[Tensor], list[int]]:
    """Items of the data set behind the (first) loader: in several processes the same for each, whatever its sampler."""
    several = list(loaders.values()) if isinstance(loaders, dict) else loaders
    loader = several[0] if isinstance(several, list | tuple) and several else several
    data: Any = getattr(loader, "dataset", None)
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise DataError(f"the validation loader must have a data set with a length; got {kind(data)} ({GIVE})")
    items = [data[place] for place in _places(len(data), most)]
    for item in items:
        if not (isinstance(item, list | tuple) and len(item) == 2):
            raise DataError(f"items of the validation data must be (input, label); got {kind(item)} ({GIVE})")
    return pairs([x for x, _ in items], [y for _, y in items])


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    """Data sets may augment at random; a training with this callback must go on as one without."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
