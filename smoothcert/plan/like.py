"""Inputs like those of a finished run: the probabilities its counts or radii show, and how fast it was.

A log keeps radii only: they are taken for Clopper–Pearson bounds and inverted (METHODS, section 2: how the inputs were
made). Its alpha shows in its ceiling, σΦ⁻¹(α^(1/n)) under Gaussian noise, which every input without a miss has. Where
all votes were equal, or none were kept, p is drawn with a fixed seed, and that is said.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from smoothcert.bounds import Floats, Integers
from smoothcert.contracts import ABSTAIN, Job, Noise, Sampling, Source, Tensor, batch_rows
from smoothcert.errors import OptionError, RunError, SmoothcertError
from smoothcert.plan.cost import reach
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.report.tables import unfinished
from smoothcert.runs.run import Row, Run
from smoothcert.spec import procedure_name

SURE = 1e-8  # inputs without a miss: 1 − p is log-uniform from here to 1/n
ABSTAINED = 0.30, 0.505  # abstentions of a log that keeps no counts: p is uniform here
SELECTION = 100  # draws that chose the class in a log of n draws, as the field does it
SECONDS = 1.5  # of a measurement
ALPHAS = 0.001, 0.01, 0.05, 0.1, 0.0001  # that logs are made with, the field's own first
ROUNDED = 0.005  # by this share of itself a radius of three digits may be too large


def recovered(
    run: Run, noise: Noise, dim: int, n: int, alpha: float | None = None, seed: int = 0
) -> tuple[Floats, list[str]]:
    """P(class) of every input of a run, from its counts; of a log, from its radii; and what had to be assumed."""
    if not run.rows:
        raise RunError(f"run {run.name} must hold at least one finished input; got none")
    pairs, notes = inverted(run, noise, dim, n, alpha) if run.spec is None else votes(run)
    notes += [f"{run.name} is {missing}"] if (missing := unfinished(run)) else []
    hits, draws = np.array(pairs, dtype=np.int64).T
    p, rng = hits / np.maximum(draws, 1), np.random.default_rng(seed)
    unknown, sure = draws == 0, (hits == draws) & (draws > 0)
    p[unknown] = rng.uniform(*ABSTAINED, int(unknown.sum()))
    p[sure] = 1 - np.exp(rng.uniform(math.log(SURE), np.log(np.maximum(1 / draws[sure], 2 * SURE))))
    if unknown.any():
        notes.append(f"{unknown.sum()} abstentions: p uniform from {ABSTAINED[0]:g} to {ABSTAINED[1]:g}")
    if sure.any():
        notes.append(f"{sure.sum()} inputs without a miss: 1 − p log-uniform from {SURE:g} to 1/draws")
    return p, notes


def votes(run: Run) -> tuple[list[tuple[int, int]], list[str]]:
    """Hits and draws of every input that was drawn for: not of those that a memory answered for."""
    if not isinstance(run.asked.procedure, Certify | Predict):
        got = procedure_name(run.asked.procedure)
        raise RunError(f"run {run.name} must be one of smoothcert certify or predict; got {got}")
    pairs = [pair for row in run.rows if (pair := counted(row, run.asked.sampling)) is not None]
    if not pairs:
        raise RunError(f"run {run.name} must hold the counts of at least one input; got none")
    return pairs, [f"p is the share of hits in the draws of {run.name}"]


def counted(row: Row, sampling: Sampling | None = None) -> tuple[int, int] | None:
    """Hits and draws of the class that was tested, where the votes were kept."""
    guess = [np.array(answer.counts[0]) for answer in row.answers if answer.purpose == "guess"]
    proof = [answer for answer in row.answers if answer.purpose not in ("clean", "guess")]
    if not proof:
        return None
    total = np.sum([sampling.votes(one.counts) if sampling else one.counts[0] for one in proof], axis=0)
    label = row.predicted if row.predicted != ABSTAIN else int((guess[0] if guess else total).argmax())
    return int(total[label]), sum(answer.draws for answer in proof)


def inverted(log: Run, noise: Noise, dim: int, n: int, alpha: float | None) -> tuple[list[tuple[int, int]], list[str]]:
    """Hits of n draws whose bound is nearest to the one that each radius shows; (0, 0) for an abstention."""
    _check_log(log, noise, alpha)
    alpha, notes = (alpha, []) if alpha is not None else alpha_of(log, noise, dim, n)
    largest, most = max(row.radius for row in log.rows), reach(noise, dim, n, alpha)
    if largest * (1 - ROUNDED) > most:
        raise OptionError(
            f"radii of {log.name} must be at most {most:.3f}, the most that {n} draws at alpha {alpha:g} prove under "
            f"{noise.words}; got {largest:g}: sigma, like-n or like-alpha is not that of the log"
        )
    lows = [row.low if row.low is not None else noise.p_needed(row.radius, dim) for row in log.rows]
    found = zip(log.rows, _nearest_hits(np.array(lows), n, alpha).tolist(), strict=True)
    taken = f"radii of {log.name} are taken for Clopper–Pearson bounds of {n} draws at alpha {alpha:g}"
    return [(0, 0) if row.predicted == ABSTAIN else (hit, n) for row, hit in found], [taken, *notes]


def _nearest_hits(lows: Floats, n: int, alpha: float) -> Integers:
    """The hits, from half of n draws to all, whose bound is nearest to each of these; by bisection, n may be large."""
    first, last = np.full(len(lows), n // 2), np.full(len(lows), n)
    while (first < last).any():
        middle = (first + last) // 2
        between = (betaincinv(middle, n - middle + 1, alpha) + betaincinv(middle + 1, n - middle, alpha)) / 2
        above = between < lows
        first, last = np.where(above, middle + 1, first), np.where(above, last, middle)
    return first


def _check_log(log: Run, noise: Noise, alpha: float | None) -> None:
    """Refuse logs without radii that can be inverted, and what contradicts their own words."""
    claim = log.claim
    if log.kind != "certify":
        raise RunError(f"log {log.name} must have radii; got a log of predictions")
    if claim.radii is not None:
        raise RunError(f"log {log.name} must hold the largest radii proven; got radii that were asked for in advance")
    if claim.norm not in ("unstated", noise.norm):
        raise OptionError(
            f"noise of plan must be one for {claim.norm} radii, as {log.name} states; got {noise.kind} ({noise.norm})"
        )
    if None not in (alpha, claim.alpha) and alpha != claim.alpha:
        raise OptionError(
            f"like-alpha of plan must be the alpha that {log.name} states, {claim.alpha:g}; got {alpha:g}"
        )


def alpha_of(log: Run, noise: Noise, dim: int, n: int) -> tuple[float, list[str]]:
    """The alpha of a log, and how it is known: inputs without a miss share the largest radius, which shows it."""
    if log.claim.alpha is not None:
        return log.claim.alpha, []
    largest = max(row.radius for row in log.rows)
    shared = sum(row.radius == largest for row in log.rows)
    ceilings = {alpha: reach(noise, dim, n, alpha) for alpha in ALPHAS}
    nearest = min(ALPHAS, key=lambda alpha: abs(ceilings[alpha] - largest))
    if shared > 1 and abs(ceilings[nearest] - largest) <= ROUNDED * largest:
        said = f"{shared} inputs share its largest radius, {largest:g}, the ceiling of {n} draws"
        return nearest, [f"alpha {nearest:g} is read off {log.name}: {said}"]
    fits = [alpha for alpha in ALPHAS if ceilings[alpha] >= largest * (1 - ROUNDED)]
    alpha = fits[0] if fits else ALPHAS[0]
    return alpha, [f"{log.name} does not state its alpha, and no ceiling shows it: {alpha:g} is assumed"]


class Rate(NamedTuple):
    """Draws a second, and where that is known from."""

    draws: float
    source: str


def recorded_rate(run: Run, n: int) -> Rate | None:
    """As fast as the run was; a log that does not say its draws is taken to have n and SELECTION for each input."""
    seconds = math.fsum(row.seconds or 0.0 for row in run.rows)
    draws = sum(n + SELECTION if row.draws is None else row.draws for row in run.rows)
    if not seconds > 0.0 or any(row.seconds is None for row in run.rows):
        return None
    return Rate(draws / seconds, f"as fast as {run.name} was when it was made")


def measured_rate(run: Run) -> Rate | None:
    """The run's model on its first input on this machine, for SECONDS; None where it cannot be had here."""
    if run.spec is None or run.means is None:
        return None
    from smoothcert.classifiers import load, ready

    spec = run.spec
    try:
        x = spec.data.load().tensor(0)
        source = Source(ready(load(spec.model, f"run {run.name}"), x).classifier, spec.noise)
        return Rate(_draws_a_second(source, x, run.means.batch or batch_rows(x.shape)), "measured here just now")
    except SmoothcertError:  # moved, deleted, code without trust: the record still says how fast it was
        return None


def _draws_a_second(source: Source, x: Tensor, batch: int) -> float:
    """Of the engine in full batches, once it has settled on how to run the model."""
    from smoothcert.engine.engine import Engine
    from smoothcert.engine.threads import Threads
    from smoothcert.sampling.fixed import Fixed

    engine, procedure, draws = Engine(Threads(batch)), Certify(batch, Fixed(batch, 0.05)), 0
    list(engine.run([Job(0, x, procedure(source, x.numel()))]))
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        draws += sum(a.draws for o in engine.run([Job(draws, x, procedure(source, x.numel()))]) for a in o.answers)
    return draws / elapsed
