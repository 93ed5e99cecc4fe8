"""What a library user holds: a smoothed classifier that certifies and predicts single inputs and batches of them.

>>> smoothed = Smoothed("model.onnx", 0.25)
>>> smoothed.certify(x).radius
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothcert.arguments import checked
from smoothcert.arithmetic import ChosenNoise, choose, refuse_low_bits
from smoothcert.arithmetic import check as check_arithmetic
from smoothcert.classifiers import Ready, load, ready, wrap
from smoothcert.classifiers.composed import Bundle, leaves
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Certificate, Classifier, Job, Noise, Sampling, Source, Steps, input_key
from smoothcert.engine import executor
from smoothcert.engine.batch_check import classes
from smoothcert.engine.engine import Engine
from smoothcert.errors import DataError, ModelError, OptionError, is_number, require_count
from smoothcert.noise import as_noise
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.progress import Watcher, remark, run_bar, slowly
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending
from smoothcert.streams import check_seed

Procedure: TypeAlias = Callable[[Source, int], Steps[Certificate]]
Arithmetic: TypeAlias = Literal["exact", "float"] | None


class Smoothed:
    """g(x) = the class that the model most often gives to x + noise.

    >>> smoothed = Smoothed(model, sigma_or_noise, num_classes=10)
    >>> smoothed.certify(x).radius                      # one input → a Certificate
    >>> smoothed.certify(batch, radius=0.5)             # a batch, or a list → a list of them
    >>> smoothed.predict(x)                             # the label alone; −1 where it abstains

    model: a torch module in eval mode, a callable, or what `smoothcert.load` takes or gives. It maps inputs
        [batch, ...] in [0,1] to scores [batch, classes]; normalisation belongs inside it.
    noise: a number, the σ of Gaussian noise (an l2 certificate), or a noise such as `smoothcert.Uniform(sigma=0.5)`
        (l1), `smoothcert.Discrete(keep=0.8)` (l0) or `smoothcert.Band(width=4)` (against patches).
    num_classes: how many classes the model must have; checked before the first draw. None: as many as it has.
    engine: auto (ONNX Runtime where the model can be exported, else torch), onnxruntime, torch, or torch:DEVICE.
    arithmetic: exact adds Gaussian noise in whole steps of 1/255 and refuses other inputs; float never does that.
        None: exact in calls where all inputs are 8-bit, as the commands do.
    progress: show a bar, in a terminal or a notebook, in calls that take longer than a moment.

    `notes` holds, after a call, what was not done in the fastest or exact way.
    """

    predict_draws = 1000

    @checked
    def __init__(
        self,
        model: Any,
        noise: Noise | float,
        num_classes: int | None = None,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
        progress: bool = True,
    ) -> None:
        self.noise = as_noise(noise)
        check_arithmetic(arithmetic, self.noise)
        if num_classes is not None:
            require_count("Smoothed", least=2, num_classes=num_classes)
        self.classifier = as_classifier(model)
        self.num_classes = num_classes
        self.notes: tuple[str, ...] = ()
        self._engine, self._arithmetic, self._progress = engine, arithmetic, progress
        self._ready: dict[tuple[int, ...], Ready] = {}
        self._state: tuple[str, ...] = ()
        self._warned: set[str] = set()

    @checked
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
    ) -> Any:
        """The label of x and the radius within which it cannot change, except with probability alpha.

        x: one input, an array or tensor of floats in [0,1] or of uint8, gives a Certificate; a batch [N, ...] or a list
            gives a list. An array is one input where the model takes it as one (`certify_all` always takes several).
        radius: test this radius only, or several rising ones, with as few draws as possible.
        n0, n: draws that choose the class to be tested, and draws that test it; of a noise with few cases, as
            `smoothcert.Band(width=4)`, each is counted instead, and nothing is left to chance.
        alpha: the probability that one certificate is wrong.
        seed: keys all noise; the same seed gives the same counts.
        batch: rows of a forward pass.
        sampling: how to draw, in the place of radius, n and alpha.
        """
        how = sampling_for(radius, n, alpha, sampling, self.noise)
        inputs, single = self._inputs(x)
        found = self.run(self._certifying(n0, how), inputs, seed, batch)
        return found[0] if single else found

    @checked
    def certify_all(
        self,
        inputs: Iterable[Any],
        *,
        radius: float | Sequence[float] | None = None,
        n0: int = 100,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[Certificate]:
        """One certificate for each input; alpha is for each of them alone. Options are those of `certify`."""
        how = sampling_for(radius, n, alpha, sampling, self.noise)
        return self.run(self._certifying(n0, how), _several(inputs), seed, batch)

    @checked
    def predict(
        self, x: Any, *, n: int | None = None, alpha: float = 0.001, seed: int = 0, batch: int | None = None
    ) -> Any:
        """The label of x, or −1 where n draws (1000; of compositions 10 000) cannot tell; wrong at most with alpha.

        A batch, or a list, of inputs gives a list of labels.
        """
        inputs, single = self._inputs(x)
        labels = self.predict_all(inputs, n=n, alpha=alpha, seed=seed, batch=batch)
        return labels[0] if single else labels

    @checked
    def predict_all(
        self,
        inputs: Iterable[Any],
        *,
        n: int | None = None,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
    ) -> list[int]:
        """The label of each input, −1 where it abstains. Options are those of `predict`."""
        procedure = self._predicting(self.predict_draws if n is None else n, alpha)
        return [certificate.label for certificate in self.run(procedure, _several(inputs), seed, batch)]

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        return Certify(n0, sampling)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return Predict(n, alpha)

    def run(
        self, procedure: Procedure, inputs: Sequence[Any], seed: int = 0, batch: int | None = None
    ) -> list[Certificate]:
        """What a procedure says of each input."""
        check_seed(seed)
        tensors = [as_input(x, number) for number, x in enumerate(inputs)]
        keys = [input_key(x) for x in tensors]
        # An input given twice has the same noise, so the same certificate: it is drawn once.
        first = {key: number for number, key in reversed(list(enumerate(keys)))}
        self._look_again()
        prepared = {number: self._prepare(tensors[number]) for number in sorted(first.values())}
        chosen = choose(self.noise, self._arithmetic, enumerate(tensors), getattr(self.classifier, "noises", ()))
        self._probe([tensors[number] for number in prepared], chosen, seed)
        workers = max((ready.workers for ready in prepared.values()), default=1)
        names = {ready.engine for ready in prepared.values()}
        jobs = (
            Job(number, x, procedure(_source(ready.classifier, chosen, x), x.numel()))
            for number, ready in prepared.items()
            for x in (tensors[number],)
        )
        found = {}
        with run_bar("draws") if self._progress else contextlib.nullcontext(Watcher()) as watcher:
            watcher.started(len(prepared), 0, getattr(procedure, "cap", 1))
            engine = Engine(executor(names.pop() if len(names) == 1 else "", batch, workers), seed, watcher.rows)
            for outcome in engine.run(jobs):
                found[outcome.index] = outcome.result
                watcher.finished(sum(answer.draws for answer in outcome.answers))
        notes = [*(ready.note for ready in prepared.values()), chosen.reason, *engine.notes]
        self.notes = tuple(note for note in dict.fromkeys(notes) if note)
        return [found[first[key]] for key in keys]

    def _inputs(self, x: Any) -> tuple[list[Any], bool]:
        """The inputs that x holds, and whether it is one alone: as the model takes it."""
        if not hasattr(x, "shape"):
            numbers = isinstance(x, Sequence) and len(x) > 0 and all(is_number(value) for value in x)
            return ([x], True) if numbers else (_several(x), False)
        if len(x.shape) < 2 or tuple(x.shape) in self._ready:
            return [x], True
        if tuple(x.shape[1:]) in self._ready:
            return list(x), False
        one, each = (_fits(self.classifier, candidate) for candidate in (x, x[0]))
        # A flattening model takes a batch of one as one input, too: [1, features] and [1, c, h, w] are batches.
        several = each and (not one or (x.shape[0] == 1 and len(x.shape) in (2, 4)))
        return (list(x), False) if several else ([x], True)

    def _probe(self, inputs: Sequence[Tensor], chosen: ChosenNoise, seed: int) -> None:
        """Where noise is added in floats, refuse a network that reads its last bits, here and now."""
        for shape, ready_ in self._ready.items():
            some = [x for x in inputs if tuple(x.shape) == shape]
            source = _source(ready_.classifier, chosen, torch.empty(shape))
            whole = source.classifier
            inside = zip(whole.members, whole.noises, strict=True) if isinstance(whole, Bundle) else ()
            for network, noise in inside or ((whole, source.noise),):
                refuse_low_bits(network, noise, some, seed)

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
            say = remark if self._progress else lambda line: None
            with slowly("making the network fast: exporting it to ONNX, measuring threads (once)", say):
                prepared = ready(self.classifier, x, self._engine)
            self._refuse_classes(prepared.classifier, x)
            self._ready[shape] = prepared
            if "running on torch" in prepared.note and prepared.note not in self._warned:
                self._warned.add(prepared.note)
                warnings.warn(prepared.note, stacklevel=_caller())
        return self._ready[shape]

    def _refuse_classes(self, classifier: Classifier, x: Tensor) -> None:
        """Before the draws: a certificate about other classes than were meant is worth nothing."""
        answering = getattr(classifier, "base", classifier)
        if self.num_classes is not None and (got := classes(answering, x)) != self.num_classes:
            raise ModelError(f"the model must give scores for {self.num_classes} classes (num_classes); got {got}")


def _caller() -> int:
    """How many frames up the caller's own line is, for a warning to point at."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("smoothcert."):
        frame, level = frame.f_back, level + 1
    return level


def as_classifier(model: Any) -> Classifier:
    """A model, or where `smoothcert.load` finds it."""
    return load(model) if isinstance(model, str | Path) else wrap(model)


def _fits(classifier: Classifier, x: Any) -> bool:
    """Whether the classifier takes x as one input."""
    if isinstance(classifier, Bundle):
        classifier = classifier.base
    try:
        with torch.no_grad():
            classes(classifier, as_input(x))
    except Exception:  # a stranger's model may raise anything at an input that it does not take
        return False
    return True


def sampling_for(
    radius: float | Sequence[float] | None, n: int, alpha: float, sampling: Sampling | None, noise: Noise
) -> Sampling:
    """The draws that a question takes unless told otherwise: as many as n, or as few as one or several radii need.

    Of a noise with few cases each is counted.
    """
    if sampling is not None:
        if isinstance(sampling, type) or not hasattr(sampling, "test"):
            got = getattr(sampling, "__name__", repr(sampling))[:60]
            raise OptionError(f"sampling must be a scheme such as Spending((0.5,)); got {got}")
        return sampling
    if radius is None:
        return Exhaustive() if noise.counted else Fixed(n, alpha)
    radii = (radius,) if is_number(radius) else tuple(radius) if isinstance(radius, Iterable) else ()
    if not radii or not all(is_number(value) or isinstance(value, np.floating) for value in radii):
        raise OptionError(f"radius must be a number, or several that rise; got {radius!r}")
    known = tuple(float(value) for value in radii)
    return Exhaustive(radii=known) if noise.counted else Spending(known, alpha)


def _several(inputs: Any) -> list[Any]:
    """Inputs one by one, of a batch or any other iterable."""
    try:
        return list(inputs)
    except TypeError as error:
        got = type(inputs).__name__
        raise DataError(f"inputs must be an array [N, ...] or a list of inputs; got {got}") from error


def _source(classifier: Classifier, chosen: ChosenNoise, x: Tensor) -> Source:
    """What is sampled for this input; the networks of a composition have noises of their own."""
    if isinstance(classifier, Bundle):
        classifier = replace(classifier, noises=tuple(noise and noise.fitted(x.shape) for noise in chosen.others))
    return Source(classifier, chosen.noise.fitted(x.shape))


def as_input(x: Any, number: int | None = None) -> Tensor:
    """One input as a float32 tensor, refused unless finite and in [0,1]; 8-bit images are divided by 255."""
    whose = "an input" if number is None else f"input {number}"
    try:
        tensor = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{whose} must be an array or tensor of numbers; got {type(x).__name__}") from error
    if tensor.dtype == torch.uint8:
        tensor = tensor.to(torch.float64) / 255
    if not tensor.is_floating_point():
        raise DataError(
            f"{whose} must be of floats in [0,1], or uint8; got {tensor.dtype} (token ids are names, not quantities: "
            "noise cannot be added to them)"
        )
    tensor = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous()
    if tensor.numel() == 0:
        raise DataError(f"{whose} must hold values; got shape {list(tensor.shape)}")
    if not bool(torch.isfinite(tensor).all()):
        raise DataError(f"{whose} must be finite; got NaN or infinity")
    low, high = float(tensor.min()), float(tensor.max())
    if low < 0.0 or high > 1.0:
        raise DataError(
            f"{whose} must be in [0,1]; got values from {low:g} to {high:g} (normalisation belongs inside the model)"
        )
    return tensor
