"""What is served: a model made ready, the noise it is under, and the questions that may be asked of it.

Networks of ACES and routes bring their noises with them. Numbers that a client chooses are brought to steps, always
towards the stronger claim, because tables of boundaries are kept for each: radii up to the next thousandth, α and n
down to two digits.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from smoothcert import arithmetic, foreign, zoo
from smoothcert.classifiers import Ready, composite, digest, load, ready
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import PROBE, Classifier, Noise, Procedure, Sampling, Source, Stream, Tensor, batch_rows
from smoothcert.data import Subset
from smoothcert.engine.batch_check import classes
from smoothcert.errors import ModelError, OptionError, SmoothcertError, require_number
from smoothcert.noise import on_grid
from smoothcert.preparation.per_input_sigma import PerInputSigma
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.route import RoutePredict, RouteProcedure
from smoothcert.runs.certify import Prepare, prepared_by
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending
from smoothcert.server.values import InferRequest, RequestError
from smoothcert.spec import Means, Spec, versions

STEPS = 1000  # radii of a client are multiples of 1/1000
REQUEST = "request"  # in the place of a data set
NO_DIGEST = 64 * "0"
PROBED = 8  # inputs made at random on which a network under float noise is looked at


@dataclass(frozen=True)
class DefaultQuestion:
    """What is asked of an input unless its request says otherwise."""

    radius: float | None = None
    alpha: float = 0.001
    n: int = 100_000
    n0: int = 100
    n_predict: int = 1000


@dataclass(frozen=True, eq=False)
class Offer:
    """A model, ready to be asked."""

    name: str
    loaded: Classifier
    made: Ready
    kind: composite.Kind | None  # of a composite folder
    options: Mapping[str, Any]  # of a composition: theta
    template: Spec  # everything of an answer's question but its input, procedure and seed
    means: Means
    exact: Source  # for inputs that are multiples of 1/255
    plain: Source  # for all others
    arithmetic: str | None
    default: DefaultQuestion = field(default_factory=DefaultQuestion)
    prepare: Prepare | None = None

    @property
    def classes(self) -> int:
        return classes(getattr(self.made.classifier, "base", self.made.classifier), torch.zeros(self.template.shape))

    def source(self, x: Tensor) -> Source:
        """What is sampled for this input; 400 where the noise does not take it."""
        found = self.exact
        if self.exact.noise != self.plain.noise and self.arithmetic != "exact":
            found = self.plain if self.arithmetic == "float" or not on_grid(x, arithmetic.GRID) else self.exact
        try:
            found.noise.fill(torch.empty(1, *x.shape), x, Stream(0, 0, PROBE), 0)
        except SmoothcertError as error:
            raise RequestError(400, str(error)) from error
        return found

    def question(self, request: InferRequest) -> Procedure:
        """What is asked of each input of a request; 400 where that can never be answered."""
        alpha = self.default.alpha if request.alpha is None else two_digits(request.alpha)
        try:
            if request.mode == "predict":
                if request.radius is not None:
                    raise OptionError("radius needs mode certify; got mode predict")
                return self._predicting(request.n, alpha)
            procedure = self._certifying(request, alpha)
            if procedure.sampling is not None:
                procedure.sampling.check(self.exact.noise, self.template.dim)
            return procedure
        except SmoothcertError as error:
            raise RequestError(400, str(error)) from error

    def _predicting(self, n: int | None, alpha: float) -> Procedure:
        if self.kind == "aces":
            return AcesPredict(self.options["theta"], n or AcesPredict.n, alpha)
        if self.kind == "route":
            return RoutePredict(n or RoutePredict.n, alpha)
        return Predict(n or self.default.n_predict, alpha)

    def _certifying(self, request: InferRequest, alpha: float) -> Procedure:
        n0, radius = self.default.n0, self.default.radius if request.radius is None else request.radius
        n = self.default.n if request.n is None else int(two_digits(request.n))
        if self.kind == "aces":
            if request.radius is not None:
                raise OptionError("ACES takes no radius: it finds the largest one")
            return AcesProcedure(self.options["theta"], n0, n, alpha)
        sampling = self._sampling(radius, n, alpha, request.n is not None)
        return RouteProcedure(n0, sampling) if self.kind == "route" else Certify(n0, sampling)

    def _sampling(self, radius: float | None, n: int, alpha: float, bounded: bool) -> Sampling:
        if self.exact.noise.cases is not None and self.kind is None:
            return Exhaustive()
        if radius is None:
            return Fixed(n, alpha)
        require_number("serve", radius=radius)
        stepped = math.ceil(round(radius * STEPS, 6)) / STEPS
        return Spending((stepped,), alpha, cap=n) if bounded else Spending((stepped,), alpha)


def two_digits(number: float) -> float:
    """Down to the nearest number with two digits that count."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.floor(number / unit + 1e-9) * unit:.12g}")


def make_offer(
    model: str,
    noise: Noise | None,
    shape: tuple[int, ...] | None = None,
    default: DefaultQuestion | None = None,
    *,
    name: str | None = None,
    class_names: tuple[str, ...] = (),
    preparation: PerInputSigma | None = None,
    how: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
    batch: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Offer:
    """Load a model, find it fit, and make it fast; noise is None for compositions, which have their own."""
    path = zoo.located(model)
    kind = composite.kind_of(path) if composite.is_composite(path) else None
    loaded = load(model)
    if isinstance(loaded, Bundle):
        noise = _own_noise(loaded, noise, preparation)
    elif noise is None:
        raise OptionError("--sigma must be given: the level of the noise; got none")
    shape = shape or _shape(model, loaded)
    noise = noise.fitted(shape)
    hashed, name = digest(model), name or path.stem or "model"
    # What clients are told of the model is its name and its digest, not where it lies.
    place = name if "/" in model or foreign.is_there(Path(model)) else model
    made = ready(loaded, torch.full(shape, 0.5), engine, threads)
    say(made.note)
    arithmetic.check(how, noise, "--arithmetic")
    exact, plain = _sources(made.classifier, noise, how, shape)
    names = class_names or tuple(getattr(getattr(loaded, "base", loaded), "class_names", ()))
    default = default or DefaultQuestion()
    spec = Spec(
        place, hashed.hex, Subset(REQUEST, classes=names or None), NO_DIGEST, 1, shape, noise, Certify(default.n0),
        0, preparation, hashed.covers,
    )  # fmt: skip
    say(spec.uncovered)
    rows = batch or (0 if made.engine.startswith("torch:") else batch_rows(shape))
    notes = (made.note,) if made.note else ()
    means = Means(rows, made.engine, f"smoothcert serve {name}", threads, made.workers, versions(), notes)
    if how != "exact":
        _refuse_low_bits(plain, shape)
    prepare = prepared_by(spec, torch.full(shape, 0.5), made.classifier, loaded=loaded)
    options = composite.read(path).options if kind == "aces" else {}
    return Offer(
        name, loaded, made, kind if isinstance(loaded, Bundle) else None,
        {"theta": 0.3, **options}, spec, means, exact, plain, how, default, prepare,
    )  # fmt: skip


def _own_noise(networks: Bundle, given: Noise | None, preparation: PerInputSigma | None) -> Noise:
    if given is not None or preparation is not None:
        raise OptionError("--sigma must not be given for a composition, whose networks have their own noises; got one")
    found = next((noise for noise in networks.noises if noise is not None), None)
    if found is None:
        raise ModelError("networks of a composition must have noises; got none")
    return found


def _shape(model: str, loaded: Classifier) -> tuple[int, ...]:
    """Of one input, as the model's own files say."""
    told = composite.facts([model]).get("shape") or getattr(loaded, "shape", None)
    if told is None and hasattr(loaded, "reading"):
        told = loaded.reading.entry.shape[1:]
    if not told or not all(isinstance(size, int) and size > 0 for size in told):
        raise OptionError("--shape must say what shape an input has: the model does not tell; got none")
    return tuple(told)


def _sources(classifier: Classifier, noise: Noise, how: str | None, shape: tuple[int, ...]) -> tuple[Source, Source]:
    """For inputs on the grid of 8-bit images, and for all others; a composition has the noises its folder names."""
    if isinstance(classifier, Bundle):
        classifier = replace(classifier, noises=tuple(own and own.fitted(shape) for own in classifier.noises))
        return Source(classifier, noise), Source(classifier, noise)
    zeros = [(0, torch.zeros(shape))]
    exact, plain = (arithmetic.choose(noise, one, zeros) for one in ("exact" if how == "exact" else None, "float"))
    return Source(classifier, exact.noise), Source(classifier, plain.noise)


def _refuse_low_bits(source: Source, shape: tuple[int, ...]) -> None:
    """A network that reads its input from the last bits of float noise is not served in floats."""
    some, whole = list(torch.rand(PROBED, *shape)), source.classifier
    parts = zip(whole.members, whole.noises, strict=True) if isinstance(whole, Bundle) else ((whole, source.noise),)
    for network, noise in parts:
        arithmetic.refuse_low_bits(network, noise, some, secrets.randbits(64))
