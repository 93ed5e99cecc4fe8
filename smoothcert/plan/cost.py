"""Expected draws of every scheme: exact for one probability, simulated for many.

For one radius and one probability the figures come from the scheme's table (`boundaries.profile`). For a curve of
radii, for full radii and for many inputs, counts are simulated with a fixed seed; each mean comes with its standard
error. Two classes stand for all: the largest, and a runner-up that has as much of the rest as it can without being
larger, which makes wrong guesses and changes of the leader as frequent as they can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from smoothcert import catalog
from smoothcert.boundaries import Boundaries, Crossings, Tabled, leader_alpha, profile
from smoothcert.bounds import Floats, Integers, fewest_draws, proven_radii
from smoothcert.contracts import Noise, Sampling
from smoothcert.errors import OptionError
from smoothcert.sampling import Budget, Foreseen, Plannable
from smoothcert.sampling.spending import Spending


@dataclass(frozen=True, eq=False)
class TabledScheme:
    """One way to certify radii known in advance: a table for each of them, and draws that choose the class."""

    name: str
    tables: tuple[tuple[float, Boundaries], ...]  # (p0, table), smallest radius first
    alpha: float
    selection: int  # 0: the leader is tested

    def error(self) -> float:
        """The probability of a wrong certificate at the worst p, computed, not bounded by a union."""
        if self.selection:
            return max(profile(table, p0).certified for p0, table in self.tables)
        crossings = [Crossings.of(table, p0) for p0, table in self.tables]
        # With several radii another class may also pass the smallest while the leader is right about it.
        other = crossings[0].at(1 - self.tables[0][0]) if len(crossings) > 1 else 0.0
        return max(crossing.error() for crossing in crossings) + other


class Mean(NamedTuple):
    """A mean and its Monte-Carlo standard error; 0 where it was computed exactly."""

    value: float
    error: float = 0.0


class Prospect(NamedTuple):
    """What awaits one kind of input: its draws, and P(every radius is certified), or its radius when none was named."""

    draws: Mean
    gain: Mean


def offered(budget: Budget) -> dict[str, Sampling]:
    """What every scheme of the catalogue offers within a budget, the plainest first."""
    parts = [catalog.find("sampling", name)[0] for name in catalog.names("sampling")]
    found = {name: made for part in parts if issubclass(part, Plannable) for name, made in part.planned(budget).items()}
    return dict(sorted(found.items(), key=lambda item: (item[1].follows_leader, item[1].radii is not None)))


def radius_tests(noise: Noise, dim: int, budget: Budget, n0: int) -> tuple[list[TabledScheme], list[str]]:
    """Every scheme that can certify the radii, and for each other one why it cannot; spending, the default, must."""
    default = Spending(budget.radii, budget.alpha, budget.beta, budget.cap)
    default.check(noise, dim)
    wanted = tuple(noise.p_needed(radius, dim) for radius in budget.radii)
    able: list[TabledScheme] = []
    unable: list[str] = []
    ways = [(name, sampling, n0) for name, sampling in offered(budget).items()]
    for name, sampling, selection in [*ways, ("spending, leader", default, 0)]:
        try:
            if isinstance(sampling, Tabled):
                sampling.check(noise, dim)
                if sampling.cap < (fewest := fewest_draws(wanted[-1], budget.alpha)):
                    which = f"n of {catalog.describe(sampling)['name']} must be at least {fewest}"
                    raise OptionError(f"{which} to certify radius {budget.radii[-1]:g}; got {sampling.cap}")
                levels = [None if selection else leader_alpha(sampling, wanted, p0) for p0 in wanted]
                tables = [(p0, sampling.boundaries(p0, level)) for p0, level in zip(wanted, levels, strict=True)]
                able.append(TabledScheme(name, tuple(tables), budget.alpha, selection))
        except OptionError as error:
            unable.append(f"{name}: {error}")
    return able, unable


def kinds(wanted: Sequence[float]) -> dict[str, float]:
    """Four inputs, from easy to hopeless, as probabilities of the class for radii that need the `wanted` ones."""
    most, least = max(wanted, default=0.5), min(wanted, default=0.5)
    if not wanted:
        return {"certain": 1 - 1e-6, "comfortable": 0.99, "uncertain": 0.75, "hopeless": 0.45}
    # Comfortable: half the misses that the largest radius allows. Hopeless: no majority, and well below any radius.
    certain, comfortable = 1 - min(1e-6, (1 - most) / 10), 1 - (1 - most) / 2
    return {"certain": certain, "comfortable": comfortable, "uncertain": most, "hopeless": min(0.5, least - 0.2)}


def prospect(scheme: TabledScheme, p: float, paths: int = 4000) -> Prospect:
    """What awaits an input whose class has probability p: exact for one radius, simulated for a curve."""
    if len(scheme.tables) == 1:
        found = profile(scheme.tables[0][1], p)
        return Prospect(Mean(found.draws + scheme.selection), Mean(min(1.0, found.certified)))
    return expected(scheme, np.array([p]), paths)


def expected(scheme: TabledScheme, p: Floats, paths: int = 100_000, seed: int = 0) -> Prospect:
    """Mean draws and share certified up to the largest radius over inputs with these probabilities, simulated."""
    repeats = repeats_for(p, scheme.tables, paths)
    draws, proven = simulate(scheme, np.repeat(p, repeats), np.random.default_rng(seed))
    return Prospect(mean_of(draws, repeats), mean_of(proven == len(scheme.tables), repeats))


def repeats_for(p: Floats, tables: Sequence[tuple[float, Boundaries]], paths: int) -> Integers:
    """How often each input is simulated, `paths` in all: twenty times as often close to a p0, where draws vary most."""
    close = np.any([np.abs(p - p0) < 0.25 * (1 - p0) for p0, _ in tables], axis=0)
    weight = np.where(close, 20, 1)
    repeats: Integers = np.maximum(2, np.ceil(weight * (paths / weight.sum())).astype(np.int64))
    return repeats


def mean_of(values: np.ndarray[Any, Any], repeats: Integers) -> Mean:
    """The mean over inputs of each one's mean over its repeats, two or more."""
    starts = np.concatenate([[0], np.cumsum(repeats)[:-1]])
    means = np.add.reduceat(values.astype(np.float64), starts) / repeats
    squares = np.add.reduceat(values.astype(np.float64) ** 2, starts) / repeats
    variance = np.maximum(0.0, squares - means**2) / (repeats - 1)
    return Mean(float(means.mean()), float(np.sqrt(variance.sum())) / len(repeats))


def simulate(scheme: TabledScheme, p: Floats, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Draws, and how many of the radii were proven, for one input of each probability; as the samplings do."""
    first = scheme.tables[0][1]
    # One more row, which nobody passes and everybody leaves, for those who have proven every radius.
    accept = np.stack([*(table.accept for _, table in scheme.tables), first.size + 1])
    reject = np.stack([*(table.reject for _, table in scheme.tables), 0 * first.size])
    chosen = tested(p, scheme.selection, rng) if scheme.selection else p
    top, other, proven = (np.zeros(len(p), dtype=np.int64) for _ in range(3))
    draws, leads, running = np.full(len(p), scheme.selection), np.ones(len(p), dtype=bool), np.arange(len(p))
    for look, new in enumerate(first.draws.tolist()):
        hits = rng.binomial(new, chosen[running])
        if not scheme.selection:
            other[running] += rng.binomial(new - hits, _share(chosen[running]))
        top[running] = hits if first.fresh else top[running] + hits
        draws[running] += new
        # Who leads is open until the first radius is proven.
        leads[running] = np.where(proven[running] == 0, top[running] >= other[running], leads[running])
        hits = np.where(leads[running], top[running], other[running])
        while (won := hits >= accept[proven[running], look]).any():
            proven[running] += won
        running = running[first.size[look] - hits < reject[proven[running], look]]
        if not len(running):
            break
    return draws, proven


def _share(p: Floats) -> Floats:
    """The runner-up's part of what the largest class leaves: all of it, or as much as the largest has."""
    share: Floats = np.minimum(p, 1 - p) / np.maximum(1 - p, 1e-300)
    return share


def tested(p: Floats, n0: int, rng: np.random.Generator) -> Floats:
    """The probability of the class that n0 draws choose: the largest, or the runner-up when it leads them."""
    top = rng.binomial(n0, p)
    other = rng.binomial(n0 - top, _share(p))
    return np.where(other > top, np.minimum(p, 1 - p), p)


def full_radius(
    sampling: Foreseen, noise: Noise, dim: int, p: Floats, n0: int, paths: int = 20_000, seed: int = 0
) -> Prospect:
    """Mean draws and mean radius over inputs with these probabilities, when the largest radius is asked for."""
    rng, repeats = np.random.default_rng(seed), np.full(len(p), max(2, math.ceil(paths / len(p))))
    draws, radii = sampling.foreseen(noise, tested(np.repeat(p, repeats), n0, rng), dim, rng)
    return Prospect(mean_of(n0 + draws, repeats), mean_of(radii, repeats))


def reach(noise: Noise, dim: int, n: int, alpha: float) -> float:
    """The largest radius that n draws can prove."""
    return float(proven_radii(np.array(n), n, alpha, noise, dim))
