"""Inputs like those of a finished run: the probabilities its counts or radii show, and how fast it was.

A log keeps radii only: they are taken for Clopper–Pearson bounds and inverted (METHODS, section 2: how the inputs were
made). Where all votes were equal, or none were kept, p is drawn with a fixed seed, and that is said.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from smoothcert.bounds import Floats
from smoothcert.contracts import ABSTAIN, Job, Noise, Source
from smoothcert.errors import RunError, SmoothcertError
from smoothcert.plan.cost import DIM
from smoothcert.runs.run import Row, Run

SURE = 1e-8  # inputs without a miss: 1 − p is log-uniform from here to 1/n
ABSTAINED = 0.30, 0.505  # abstentions of a log that keeps no counts: p is uniform here
SELECTION = 100  # draws that chose the class in a log of n draws, as the field does it
SECONDS = 1.5  # of a measurement


def recovered(record: Run, noise: Noise, n: int, alpha: float, seed: int = 0) -> tuple[Floats, list[str]]:
    """P(class) of every input of a run, from its counts; of a log, from its radii; and what had to be assumed."""
    if not record.rows:
        raise RunError(f"run {record.name} must hold at least one finished input; got none")
    kept = [counted(row) for row in record.rows]
    pairs = [pair for pair in kept if pair is not None]
    notes = [f"p is the share of hits in the draws of {record.name}"]
    if len(pairs) < len(kept):
        pairs = inverted(record, noise, n, alpha)
        notes = [f"radii of {record.name} are taken for Clopper–Pearson bounds of {n} draws at alpha {alpha:g}"]
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


def counted(row: Row) -> tuple[int, int] | None:
    """Hits and draws of the class that was tested, where the votes were kept."""
    votes = {answer.purpose: np.array(answer.counts[0]) for answer in row.answers if answer.purpose == "guess"}
    proof = [np.array(answer.counts[0]) for answer in row.answers if answer.purpose not in ("clean", "guess")]
    if not proof:
        return None
    total = np.sum(proof, axis=0)
    label = row.predicted if row.predicted != ABSTAIN else int(votes.get("guess", total).argmax())
    return int(total[label]), int(total.sum())


def inverted(record: Run, noise: Noise, n: int, alpha: float) -> list[tuple[int, int]]:
    """Hits of n draws whose bound is nearest to the one that each radius shows; (0, 0) for an abstention."""
    if record.kind != "certify":
        raise RunError(f"log {record.name} must have radii; got a log of predictions")
    lows = [row.low if row.low is not None else noise.p_needed(row.radius, DIM) for row in record.rows]
    hits = np.arange(n // 2, n + 1)
    bounds = betaincinv(hits, n - hits + 1, alpha)
    nearest = np.searchsorted((bounds[1:] + bounds[:-1]) / 2, lows)
    found = zip(record.rows, hits[nearest].tolist(), strict=True)
    return [(0, 0) if row.predicted == ABSTAIN else (hit, n) for row, hit in found]


class Rate(NamedTuple):
    """Draws a second, and where that is known from."""

    draws: float
    source: str


def recorded_rate(record: Run, n: int) -> Rate | None:
    """As fast as the run was; a log that does not say its draws is taken to have n and SELECTION for each input."""
    seconds = math.fsum(row.seconds or 0.0 for row in record.rows)
    draws = sum(n + SELECTION if row.draws is None else row.draws for row in record.rows)
    if not seconds > 0.0 or any(row.seconds is None for row in record.rows):
        return None
    return Rate(draws / seconds, f"as fast as {record.name} was when it was made")


def measured_rate(record: Run) -> Rate | None:
    """The run's model on its first input on this machine, for SECONDS; None where it cannot be had here."""
    if not isinstance(record, Run) or record.spec is None or record.means is None:
        return None
    from smoothcert.classifiers import load, ready

    spec = record.spec
    try:
        x = spec.data.load().tensor(0)
        source = Source(ready(load(spec.model), x).classifier, spec.noise)
        return Rate(_draws_a_second(source, x, record.means.batch), "measured here just now")
    except SmoothcertError:  # moved, deleted, or not installed here: the record still says how fast it was
        return None


def _draws_a_second(source: Source, x: Any, batch: int) -> float:
    """Of the engine in full batches, once it has settled on how to run the model."""
    from smoothcert.engine.local import Local
    from smoothcert.procedures.certify import Certify
    from smoothcert.sampling.fixed import Fixed

    engine, procedure, draws = Local(batch, seed=0), Certify(batch, Fixed(batch, 0.05)), 0
    list(engine.run([Job(0, x, procedure(source, x.numel()))]))
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        draws += sum(a.draws for o in engine.run([Job(draws, x, procedure(source, x.numel()))]) for a in o.answers)
    return draws / elapsed
