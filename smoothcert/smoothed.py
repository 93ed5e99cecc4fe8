"""What a library user holds: a smoothed classifier that certifies and predicts; of several networks, ACES and routes.

>>> aces = Aces("models/certified", core="models/accurate", noise=Gaussian(0.25), theta=0.3)
>>> aces.certify(x).radius
>>> aces.save("models/both")
>>> Aces.load("models/both").predict(x)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import torch
from torch import Tensor

from smoothcert.arithmetic import ChosenNoise, choose, refuse_low_bits
from smoothcert.arithmetic import check as check_arithmetic
from smoothcert.catalog import describe
from smoothcert.classifiers import Ready, composite, load, ready, wrap
from smoothcert.classifiers.composed import Bundle, leaves
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Certificate, Classifier, Job, Noise, Sampling, Source, Steps, input_key
from smoothcert.engine.local import Local
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.route import RoutePredict, RouteProcedure
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
        self._probe(prepared, unique, chosen, seed)
        engine = Local(batch, seed, workers=max((ready.workers for ready in prepared.values()), default=1))
        sources = {key: _source(ready.classifier, chosen) for key, ready in prepared.items()}
        outcomes = engine.run(Job(key, x, procedure(sources[key], x.numel())) for key, x in unique.items())
        found = {outcome.index: outcome.result for outcome in outcomes}
        notes = [*(ready.note for ready in prepared.values()), chosen.reason, *engine.notes]
        self.notes = tuple(note for note in dict.fromkeys(notes) if note)
        return [self._checked(found[key]) for key in keys]

    def _probe(
        self, prepared: Mapping[int, Ready], inputs: Mapping[int, Tensor], chosen: ChosenNoise, seed: int
    ) -> None:
        """Where noise is added in floats, refuse a network that reads its last bits, here and now."""
        for shape, ready_ in self._ready.items():
            some = [inputs[key] for key in prepared if tuple(inputs[key].shape) == shape]
            source = _source(ready_.classifier, chosen)
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


Part = tuple[str, Any, Noise | None]  # role, model or what `smoothcert.load` takes, noise; a core has none


class SmoothedComposition(Smoothed):
    """Networks with roles, each under its noise. A network is an object, or what `smoothcert.load` takes.

    The parts of a certificate are the certificates of the selection and of what was selected.
    """

    kind: composite.Kind
    predict_draws = 10_000

    def __init__(self, parts: Sequence[Part], noise: Noise, engine: str, arithmetic: Arithmetic) -> None:
        self.parts = tuple(parts)
        roles, models, noises = zip(*parts, strict=True)
        loaded = tuple(load(model) if isinstance(model, str | Path) else wrap(model) for model in models)
        super().__init__(Bundle(roles, loaded, noises), noise, engine=engine, arithmetic=arithmetic)

    def save(self, folder: str | Path) -> None:
        """Write composite.json; the networks stay where they are, so they must be folders, files or names."""
        members = []
        for role, model, noise in self.parts:
            if not isinstance(model, str | Path):
                raise ModelError(
                    f"{role} of a composition must be a folder, file or name to be saved; got {type(model).__name__}"
                )
            members.append(composite.described(Path(folder), str(model), role, describe(noise) if noise else None))
        composite.write(Path(folder), composite.Composite(self.kind, tuple(members), options=self._options()))

    def _options(self) -> dict[str, Any]:
        """What belongs to the composition beside its networks."""
        return {}

    def _at(self, folder: Path) -> Self:
        """As loaded from a folder: its networks can be saved again."""
        places = [composite.located(folder, member) for member in composite.read(folder).members]
        self.parts = tuple((role, place, noise) for (role, _, noise), place in zip(self.parts, places, strict=True))
        return self


class Aces(SmoothedComposition):
    """The certified network where the selection is certain of it, else the core, which has no radius.

    Without a selection network the certified one's own entropy selects, where it is at most theta.
    """

    kind = "aces"

    def __init__(
        self,
        certify: Any,
        core: Any,
        noise: Noise,
        theta: float = 0.3,
        select: Any = None,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
    ) -> None:
        self.theta = AcesProcedure(theta).theta
        selection: list[Part] = [] if select is None else [("select", select, noise)]
        super().__init__([("certify", certify, noise), ("core", core, None), *selection], noise, engine, arithmetic)

    @classmethod
    def load(cls, folder: str | Path, theta: float | None = None, **how: Any) -> Self:
        """A composition that was saved, or that `smoothcert aces certify` keeps as RUN/model; at another theta.

        Engine and arithmetic may be given as for a new one.
        """
        said, networks = composite.bundle(Path(folder), "aces")
        parts = dict(zip(networks.roles, networks.members, strict=True))
        noise = next(iter(networks.noises), None)
        if noise is None or not {"certify", "core"} <= parts.keys():
            raise ModelError(f"{folder} must hold a certified network with its noise, and a core; it does not")
        at = said.options.get("theta", 0.3) if theta is None else theta
        return cls(parts["certify"], parts["core"], noise, at, parts.get("select"), **how)._at(Path(folder))

    def _options(self) -> dict[str, Any]:
        return {"theta": self.theta}

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        if not isinstance(sampling, Fixed):
            raise OptionError("sampling of ACES must be fixed, without radius; got another one")
        return AcesProcedure(self.theta, n0, sampling.n, sampling.alpha)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return AcesPredict(self.theta, n, alpha)


class Route(SmoothedComposition):
    """A selector chooses one of several branches, each with its own noise; a branch without noise is a core."""

    kind = "route"

    def __init__(
        self,
        branches: Sequence[tuple[Any, Noise | None]],
        selector: Any,
        noise: Noise,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
    ) -> None:
        if len(branches) < 2:
            raise ModelError(f"a route must have at least two branches; got {len(branches)}")
        parts: list[Part] = [(f"branch {number}", *branch) for number, branch in enumerate(branches)]
        super().__init__([*parts, ("select", selector, noise)], noise, engine, arithmetic)

    @classmethod
    def load(cls, folder: str | Path, **how: Any) -> Self:
        """A composition that was saved, or that a run of `smoothcert route certify` keeps as RUN/model.

        Engine and arithmetic may be given as for a new one.
        """
        _, networks = composite.bundle(Path(folder), "route")
        *branches, (selector, noise) = zip(networks.members, networks.noises, strict=True)
        if noise is None:
            raise ModelError(f"{folder} must hold branches and a selector with its noise; it does not")
        return cls(branches, selector, noise, **how)._at(Path(folder))

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        return RouteProcedure(n0, sampling)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return RoutePredict(n, alpha)
