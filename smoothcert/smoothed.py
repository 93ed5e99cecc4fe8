"""What a library user holds: a smoothed classifier that certifies and predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from smoothcert.arithmetic import ChosenNoise, choose
from smoothcert.arithmetic import check as check_arithmetic
from smoothcert.classifiers import Ready, ready, wrap
from smoothcert.classifiers.composed import Bundle, leaves
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Certificate, Classifier, Job, Noise, Sampling, Source, Steps, input_key
from smoothcert.engine.local import Local
from smoothcert.errors import DataError, ModelError
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending

Procedure: TypeAlias = Callable[[Source, int], Steps[Certificate]]
Arithmetic: TypeAlias = Literal["exact", "float"] | None


class Smoothed:
    """g(x) = the class that the model most often gives to x + noise.

    >>> smoothed = Smoothed(model, Gaussian(sigma=0.25), num_classes=10)
    >>> smoothed.certify(x).radius
    """

    predict_draws = 1000

    def __init__(
        self,
        model: Any,
        noise: Noise,
        num_classes: int | None = None,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
    ) -> None:
        """Gaussian noise is added in whole steps of 1/255 in calls where all inputs are 8-bit, as in the commands.

        `arithmetic` "float" never does that; "exact" refuses other inputs.
        """
        check_arithmetic(arithmetic, noise)
        self.classifier = wrap(model)
        self.noise = noise
        self.num_classes = num_classes
        self.notes: tuple[str, ...] = ()  # of the last call: where its draws were not made in the fastest or exact way
        self._engine, self._arithmetic = engine, arithmetic
        self._ready: dict[tuple[int, ...], Ready] = {}
        self._state: tuple[str, ...] = ()
        self._warned: set[str] = set()

    def certify(
        self,
        x: Any,
        *,
        radius: float | Sequence[float] | None = None,
        n0: int = 100,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
        sampling: Sampling | None = None,
    ) -> Certificate:
        """The label of x and the radius within which it cannot change, except with probability alpha.

        With `radius` (one, or several rising ones) only these are tested, with as few draws as possible; with a
        `sampling` of its own everything about the draws is as it says.
        """
        how = sampling if sampling is not None else _sampling(radius, n, alpha)
        return self.certify_all([x], n0=n0, seed=seed, batch=batch, sampling=how)[0]

    def certify_all(
        self,
        inputs: Sequence[Any],
        *,
        radius: float | Sequence[float] | None = None,
        n0: int = 100,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[Certificate]:
        """One certificate for each input; alpha is for each of them alone."""
        how = sampling if sampling is not None else _sampling(radius, n, alpha)
        return self.run(self._certifying(n0, how), inputs, seed, batch)

    def predict(
        self, x: Any, *, n: int | None = None, alpha: float = 0.001, seed: int = 0, batch: int | None = None
    ) -> int:
        """The label of x, or −1 where n draws (1000; of compositions 10 000) cannot tell; wrong at most with alpha."""
        return self.run(self._predicting(self.predict_draws if n is None else n, alpha), [x], seed, batch)[0].label

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        return Certify(n0, sampling)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return Predict(n, alpha)

    def run(
        self, procedure: Procedure, inputs: Sequence[Any], seed: int = 0, batch: int | None = None
    ) -> list[Certificate]:
        """What a procedure says of each input."""
        tensors = [as_input(x) for x in inputs]
        keys = [input_key(x) for x in tensors]
        # An input given twice has the same noise, so the same certificate: it is drawn once.
        unique = dict(zip(keys, tensors, strict=True))
        self._look_again()
        prepared = {key: self._prepare(x) for key, x in unique.items()}
        chosen = choose(self.noise, self._arithmetic, enumerate(tensors), getattr(self.classifier, "noises", ()))
        engine = Local(batch, seed, workers=max((ready.workers for ready in prepared.values()), default=1))
        sources = {key: _source(ready.classifier, chosen) for key, ready in prepared.items()}
        outcomes = engine.run(Job(key, x, procedure(sources[key], x.numel())) for key, x in unique.items())
        found = {outcome.index: outcome.result for outcome in outcomes}
        notes = [*(ready.note for ready in prepared.values()), chosen.reason, *engine.notes]
        self.notes = tuple(note for note in dict.fromkeys(notes) if note)
        return [self._checked(found[key]) for key in keys]

    def _look_again(self) -> None:
        """The networks are the user's: one whose weights have changed is made ready again, train mode is refused."""
        state = tuple(leaf.state() for leaf in leaves(self.classifier) if isinstance(leaf, Module))
        if state != self._state:
            self._ready.clear()
            self._state = state

    def _prepare(self, x: Tensor) -> Ready:
        """The model made ready for inputs of this shape, once."""
        shape = tuple(x.shape)
        if shape not in self._ready:
            self._ready[shape] = ready(self.classifier, x, self._engine)
            note = self._ready[shape].note
            if "running on torch" in note and note not in self._warned:
                self._warned.add(note)
                warnings.warn(note, stacklevel=2)
        return self._ready[shape]

    def _checked(self, certificate: Certificate) -> Certificate:
        classes = len(certificate.evidence.counts[0])
        if self.num_classes is not None and classes != self.num_classes:
            raise ModelError(f"the model must give scores for {self.num_classes} classes; got {classes}")
        return certificate


def _sampling(radius: float | Sequence[float] | None, n: int, alpha: float) -> Sampling:
    """The draws that a question takes unless told otherwise: as many as n, or as few as one or several radii need."""
    radii = (radius,) if isinstance(radius, int | float) else radius
    return Fixed(n, alpha) if radii is None else Spending(tuple(radii), alpha)


def _source(classifier: Classifier, chosen: ChosenNoise) -> Source:
    """What is sampled; the networks of a composition have noises of their own."""
    if isinstance(classifier, Bundle):
        classifier = replace(classifier, noises=tuple(chosen.others))
    return Source(classifier, chosen.noise)


def as_input(x: Any) -> Tensor:
    """One input as a float32 tensor, refused unless finite and in [0,1]."""
    tensor = torch.as_tensor(x)
    if not tensor.is_floating_point():
        raise DataError(f"an input must be of floats in [0,1] (divide 8-bit images by 255); got {tensor.dtype}")
    tensor = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous()
    if tensor.numel() == 0:
        raise DataError(f"an input must hold values; got shape {list(tensor.shape)}")
    if not bool(torch.isfinite(tensor).all()):
        raise DataError("an input must be finite; got NaN or infinity")
    low, high = float(tensor.min()), float(tensor.max())
    if low < 0.0 or high > 1.0:
        raise DataError(f"an input must be in [0,1]; got values from {low:g} to {high:g}")
    return tensor
