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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smoothcert.bounds import check_alpha, check_draws, proven_radii
from smoothcert.contracts import Noise
from smoothcert.ensembles._orthant import missed, root_of
from smoothcert.ensembles._sample import Floats, Integers, Sample
from smoothcert.ensembles._scores import generator
from smoothcert.ensembles._variance import ZETA_C, Parts, estimate, least_p, ratio
from smoothcert.errors import OptionError, unknown
from smoothcert.streams import check_seed

CLEAN = ("mean", "point")
ENSEMBLES = 32  # clean parts drawn for each input
SAMPLES = 16  # for the probability of each of them
SUBSETS = 30  # most ensembles of one size that are put together from the members at hand


class Radii(NamedTuple):
    """What the radii of the rightly certified come to, for so many draws an input."""

    draws: int
    acr: float
    certified: Mapping[float, float]  # radius → share of inputs certified with it
    quartiles: tuple[float, float, float]  # of the radius over all inputs, 0 where there is none


class Outlook(NamedTuple):
    """The forecast for ensembles of one size."""

    size: int
    p: Floats  # [inputs], expected probability of the label
    p_least: Floats  # [inputs], what it is at least, without the normal model
    certify: Radii  # with n draws
    check: Radii  # with as many draws as the sample has, to be held against what it shows


class Measured(NamedTuple):
    """The same as the sample shows it: the mean over ensembles put together from the members at hand."""

    size: int
    ensembles: int
    p: Floats  # [inputs], share of noisy copies that got the label
    check: Radii
    acr_range: tuple[float, float]  # of these ensembles


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

    def parts(self, sample: Sample) -> Parts:
        """The model's parameters from the members it is fitted to."""
        return estimate(sample.of(range(self.check_members(sample.members))), self.clean)

    def outlooks(self, parts: Parts, draws: int, noise: Noise) -> list[Outlook]:
        """The forecast for every size; the sizes share their random numbers, so that they differ by size alone."""
        found = []
        for size in self.sizes:
            p = probabilities(parts, size, self.seed)
            certify, check = (self._drawn(p, n, noise) for n in (self.n, draws))
            found.append(Outlook(size, p.mean(axis=1), least_p(parts, size), certify, check))
        return found

    def measured(self, sample: Sample, noise: Noise) -> list[Measured]:
        """What the sample shows for those of the sizes that its members can make up."""
        rng, found = generator(self.seed, 0, "forecast subsets"), []
        for size in (size for size in self.sizes if size <= sample.members):
            subsets = _subsets(sample.members, size, rng)
            hits = np.stack([(sample.noisy[:, s].mean(axis=1) > 0.0).all(axis=2).sum(axis=1) for s in subsets])
            each = [self._radii(votes, sample.draws, noise) for votes in hits]
            whole, acrs = self._radii(hits, sample.draws, noise), [part.acr for part in each]
            found.append(Measured(size, len(subsets), hits.mean(axis=0) / sample.draws, whole, (min(acrs), max(acrs))))
        return found

    def _drawn(self, p: Floats, n: int, noise: Noise) -> Radii:
        """Radii after n draws at these probabilities."""
        return self._radii(generator(self.seed, n, "forecast counts").binomial(n, p), n, noise)

    def _radii(self, hits: Integers, n: int, noise: Noise) -> Radii:
        reached = proven_radii(hits, n, self.alpha, noise, 0)
        asked = self.radii if self.radii is not None else default_radii(noise)
        gained = np.maximum(reached, 0.0)
        low, middle, high = (float(value) for value in np.quantile(gained, (0.25, 0.5, 0.75)))
        shares = {radius: float((reached >= radius).mean()) for radius in asked}
        return Radii(n, float(gained.mean()), shares, (low, middle, high))


def probabilities(parts: Parts, size: int, seed: int) -> Floats:
    """The label's probability in ensembles of a size, [inputs, ENSEMBLES]: one value for each clean part drawn."""
    inputs, members, rivals = parts.apart.shape
    found = np.empty((inputs, ENSEMBLES))
    for i in range(inputs):
        rng = generator(seed, i, "forecast model")
        steps = rng.standard_normal((ENSEMBLES, members)) / np.sqrt(members - 1)
        means = parts.centre[i] + np.sqrt(ratio(ZETA_C, size)) * steps @ parts.apart[i]
        root = root_of(ratio(parts.zeta_p, size) * parts.noise[i])
        found[i] = 1 - missed(means, root, 1 - rng.random((ENSEMBLES, SAMPLES, rivals - 1)))
    return np.clip(found, 0.0, 1.0)


def _subsets(members: int, size: int, rng: np.random.Generator) -> list[list[int]]:
    """Every choice of so many members, or some of the choices where there are too many."""
    if math.comb(members, size) <= SUBSETS:
        return [list(chosen) for chosen in itertools.combinations(range(members), size)]
    return [sorted(rng.choice(members, size, replace=False).tolist()) for _ in range(SUBSETS)]


def default_radii(noise: Noise) -> tuple[float, ...]:
    """0, σ, 2σ, 3σ: a quarter apart at σ = 0.25, as the field prints them; up to 3λ/4 in l1, whole numbers in l0."""
    step = {"l0": 1.0, "l1": getattr(noise, "lam", 1.0) / 4}.get(noise.norm, getattr(noise, "sigma", 0.25))
    return tuple(number * float(step) for number in range(4))
