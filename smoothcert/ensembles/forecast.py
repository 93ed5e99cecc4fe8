"""What ensembles of other sizes will certify, told from the members at hand (ENS section 5; METHODS section 4).

For an input and a size k: draw the clean part of an ensemble, compute the probability of the label under the normal
model of the noise part, draw the count of n noisy copies, and take the radius that this count proves. A given
ensemble's probability is random through its clean part, so the order of these draws matters. The class tested is the
label's: choosing it by n0 draws goes wrong only where hardly anything can be certified.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from smoothcert.bounds import check_alpha, check_draws, proven_radii
from smoothcert.contracts import Noise
from smoothcert.ensembles import variance as v
from smoothcert.ensembles.covariances import CovarianceMaps, covariance_maps
from smoothcert.ensembles.holdout import generator
from smoothcert.ensembles.variance import Floats, Integers, MarginSample, VarianceModel
from smoothcert.errors import OptionError, unknown
from smoothcert.streams import check_seed

CLEAN = ("mean", "point")
ENSEMBLES = 32  # clean parts drawn for each input
SAMPLES = 16  # for the probability of each of them
ABOUT_ZETA_C = "zeta_c 0: what members share at an input is part of their mean there, and is shared by those to come"
HEAVY = 0.002  # share below −v.FAR deviations from which on the model is said to miss the tail
SUBSETS = 30  # most ensembles of one size that are put together from the members at hand


class Radii(NamedTuple):
    """What the radii of the rightly certified come to, for so many draws an input."""

    draws: int
    acr: float
    certified: Mapping[float, float]  # radius → share of inputs certified with it
    quartiles: tuple[float, float, float]  # of the radius over all inputs, 0 where there is none

    def as_json(self) -> dict[str, Any]:
        shares = {f"{radius:g}": share for radius, share in self.certified.items()}
        return {"draws": self.draws, "acr": self.acr, "certified_accuracy": shares, "quartiles": list(self.quartiles)}


class SizeForecast(NamedTuple):
    """The forecast for ensembles of one size."""

    size: int
    p: Floats  # [inputs], expected probability of the label
    p_least: Floats  # [inputs], what it is at least, without the normal model
    certify: Radii  # with n draws
    check: Radii  # with as many draws as the sample has, to be held against what it shows

    def as_json(self) -> dict[str, Any]:
        return {
            "members": self.size,
            "p_label": float(self.p.mean()),
            "p_label_at_least": float(self.p_least.mean()),
            "forecast": self.certify.as_json(),
            "forecast_with_the_draws_of_the_sample": self.check.as_json(),
        }


class MeasuredSize(NamedTuple):
    """The same as the sample shows it: the mean over ensembles put together from the members at hand."""

    size: int
    ensembles: int
    p: Floats  # [inputs], share of noisy copies that got the label
    check: Radii
    acr_range: tuple[float, float]  # of these ensembles

    def as_json(self) -> dict[str, Any]:
        about = {"ensembles": self.ensembles, "p_label": float(self.p.mean()), "acr_range": list(self.acr_range)}
        return {**about, **self.check.as_json()}


@dataclass(frozen=True)
class Forecast:
    """For these sizes, from the first `fit` members (default: all), with the clean part as a mean or at the point."""

    sizes: Sequence[int] = (1, 3, 5, 10, 50)
    n: int = 100_000
    alpha: float = 0.001
    radii: Sequence[float] | None = None  # default: `default_radii`
    clean: str = "mean"
    fit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sizes:
            raise OptionError("sizes of forecast must hold at least one number; got none")
        for size in self.sizes:
            check_draws(size, "sizes", "forecast")
        check_draws(self.n, "n", "forecast")
        check_alpha(self.alpha, "forecast")
        check_seed(self.seed)
        for radius in self.radii or ():
            if not (isinstance(radius, int | float) and 0.0 <= radius < math.inf):
                raise OptionError(f"radii of forecast must be numbers of at least 0; got {radius}")
        if self.clean not in CLEAN:
            raise unknown("clean of forecast", str(self.clean), CLEAN)

    def check_members(self, members: int) -> int:
        """How many of so many members the model is fitted to; refused where that cannot be."""
        if members < 2:
            raise OptionError(f"members of forecast must be at least 2; got {members}")
        fit = members if self.fit is None else self.fit
        if not 2 <= fit <= members:
            raise OptionError(f"fit of forecast must be from 2 to the number of members, {members}; got {fit}")
        return fit

    def parts(self, sample: MarginSample) -> VarianceModel:
        """The model's parameters from the members it is fitted to."""
        return v.estimate(sample.of(range(self.check_members(sample.members))), self.clean)

    def outlooks(self, parts: VarianceModel, draws: int, noise: Noise, dim: int) -> list[SizeForecast]:
        """The forecast for every size; the sizes share their random numbers, so that they differ by size alone."""
        found = []
        for size in self.sizes:
            p = probabilities(parts, size, self.seed)
            certify, check = (self._drawn(p, n, noise, dim) for n in (self.n, draws))
            found.append(SizeForecast(size, p.mean(axis=1), v.least_p(parts, size), certify, check))
        return found

    def measured(self, sample: MarginSample, noise: Noise) -> list[MeasuredSize]:
        """What the sample shows for those of the sizes that its members can make up."""
        rng, found = generator(self.seed, 0, "forecast subsets"), []
        for size in (size for size in self.sizes if size <= sample.members):
            subsets = _subsets(sample.members, size, rng)
            hits = np.stack([(sample.noisy[:, s].mean(axis=1) > 0.0).all(axis=2).sum(axis=1) for s in subsets])
            each = [self._radii(votes, sample.draws, noise, sample.dim) for votes in hits]
            whole, acrs = self._radii(hits, sample.draws, noise, sample.dim), [part.acr for part in each]
            found.append(
                MeasuredSize(size, len(subsets), hits.mean(axis=0) / sample.draws, whole, (min(acrs), max(acrs)))
            )
        return found

    def result(self, sample: MarginSample, noise: Noise) -> ForecastResult:
        """Fit, forecast, and hold it against the sample; the sizes at hand are always among those told of."""
        fitted = self.check_members(sample.members)
        asked = replace(self, sizes=tuple(sorted({*self.sizes, fitted, sample.members})))
        parts, own = asked.parts(sample), sample.of(range(fitted))
        fits = v.fit(own, parts, asked.clean)
        distances = {clean: v.distance(v.standardised_noise(own, clean)) for clean in CLEAN}
        outlooks, measured = asked.outlooks(parts, sample.draws, noise, sample.dim), asked.measured(sample, noise)
        notes, maps = _notes(sample, fitted, fits), covariance_maps(own, parts)
        return ForecastResult(
            asked, sample.members, fitted, sample.draws, parts, fits, distances, outlooks, measured, notes, maps
        )

    def _drawn(self, p: Floats, n: int, noise: Noise, dim: int) -> Radii:
        """Radii after n draws at these probabilities."""
        return self._radii(generator(self.seed, n, "forecast counts").binomial(n, p), n, noise, dim)

    def _radii(self, hits: Integers, n: int, noise: Noise, dim: int) -> Radii:
        reached = proven_radii(hits, n, self.alpha, noise, dim)
        asked = self.radii if self.radii is not None else default_radii(noise)
        gained = np.maximum(reached, 0.0)
        low, middle, high = (float(value) for value in np.quantile(gained, (0.25, 0.5, 0.75)))
        shares = {radius: float((reached >= radius).mean()) for radius in asked}
        return Radii(n, float(gained.mean()), shares, (low, middle, high))


def probabilities(parts: VarianceModel, size: int, seed: int) -> Floats:
    """The label's probability in ensembles of a size, [inputs, ENSEMBLES]: one value for each clean part drawn."""
    inputs, members, rivals = parts.apart.shape
    found = np.empty((inputs, ENSEMBLES))
    for i in range(inputs):
        rng = generator(seed, i, "forecast model")
        steps = rng.standard_normal((ENSEMBLES, members)) / np.sqrt(members - 1)
        means = parts.centre[i] + np.sqrt(v.ratio(v.ZETA_C, size)) * steps @ parts.apart[i]
        root = v.root_of(v.ratio(parts.zeta_p, size) * parts.noise[i])
        found[i] = 1 - v.missed(means, root, 1 - rng.random((ENSEMBLES, SAMPLES, rivals - 1)))
    return np.clip(found, 0.0, 1.0)


def _subsets(members: int, size: int, rng: np.random.Generator) -> list[list[int]]:
    """Every choice of so many members, or some of the choices where there are too many."""
    if math.comb(members, size) <= SUBSETS:
        return [list(chosen) for chosen in itertools.combinations(range(members), size)]
    return [sorted(rng.choice(members, size, replace=False).tolist()) for _ in range(SUBSETS)]


def default_radii(noise: Noise) -> tuple[float, ...]:
    """0, σ, 2σ, 3σ: a quarter apart at σ = 0.25, as the field prints them; up to 3λ/4 in l1; or whole numbers."""
    level = getattr(noise, "lam", 1.0) / 4 if noise.norm == "l1" else getattr(noise, "sigma", 0.25)
    step = 1.0 if noise.whole else level
    return tuple(number * float(step) for number in range(4))


class ForecastResult(NamedTuple):
    """Everything a forecast found."""

    asked: Forecast
    members: int  # given
    fitted: int  # of these, the first so many were used for the model
    draws: int
    parts: VarianceModel
    fit: v.Fit
    distances: dict[str, float]  # of the noise part to the normal curve, by the way to see the clean part
    outlooks: list[SizeForecast]
    measured: list[MeasuredSize]
    notes: list[str]
    maps: CovarianceMaps

    def gain(self, outlook: SizeForecast) -> float | None:
        """ACR of a size ÷ that of the size fitted to, less one: what a level is wrong by cancels in it."""
        base = next(other.certify.acr for other in self.outlooks if other.size == self.fitted)
        return outlook.certify.acr / base - 1 if base > 0.0 else None

    def as_json(self) -> dict[str, Any]:
        """The forecast as values that JSON can hold."""
        measured = {entry.size: entry.as_json() for entry in self.measured}
        return {
            "members": self.members,
            "fitted_to": self.fitted,
            "inputs": len(self.parts.centre),
            "draws": self.draws,
            "alpha": self.asked.alpha,
            "clean_part": self.asked.clean,
            "zeta_p": self.parts.zeta_p,
            "zeta_p_quartiles_by_input": list(self.fit.zeta_quartiles),
            "zeta_c": 0.0,
            "noise_part_distance_to_normal": self.distances,
            "noise_part_below_3_deviations": self.fit.tail,
            "covariances": self.maps.as_json(),
            "sizes": [
                {**outlook.as_json(), "measured": measured.get(outlook.size), "acr_gain": self.gain(outlook)}
                for outlook in self.outlooks
            ],
            "notes": self.notes,
        }


def _notes(sample: MarginSample, fitted: int, fits: v.Fit) -> list[str]:
    notes = [ABOUT_ZETA_C]
    if fits.tail > HEAVY:
        notes.append(
            "heavier lower tail than the model's: large radii are forecast too high, gains are the better guide"
        )
    if fitted < 3:
        notes.append("two members tell little about how members differ: three or more make a better forecast")
    if sample.left_out:
        notes.append(f"only the nearest rivals of each label are looked at; {sample.left_out} classes are left out")
    return notes
