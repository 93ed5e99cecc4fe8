"""What the tests of the memory share: a memory that scans, exact arithmetic, and streams of balls on the edge."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from smoothcert.contracts import ABSTAIN
from smoothcert.memory import Admission, Region
from smoothcert.memory.regions import distances
from smoothcert.memory.rule import Near, find_home, margin, settle

NEARLY = (1.0, 1 + 2**-52, 1 - 2**-53, 1 + 1e-12, 1 - 1e-12, 1 + 1e-6, 1 - 1e-6, 0.5, 2.0)


class Offer(NamedTuple):
    """What certification found."""

    x: np.ndarray
    label: int
    radius: float


class ScanMemory:
    """All balls in a list, all of them looked at; the rule can be exchanged for a wrong one."""

    def __init__(self, dim, norm, rule=settle):
        self.dim, self.norm, self.rule = dim, norm, rule
        self.centres, self.radii, self.labels = [], [], []

    def near(self, x):
        rows = np.array(self.centres, dtype=np.float32).reshape(-1, self.dim)
        return Near(distances(rows, x, self.norm), np.array(self.radii), np.array(self.labels, dtype=np.int64))

    def admit(self, x, label, radius):
        seen, verdict = len(self.radii), self.rule(label, radius, self.near(x), margin(self.dim))
        if verdict.keep > 0:
            self.centres.append(x)
            self.radii.append(verdict.keep)
            self.labels.append(verdict.label)
        by = None if verdict.by is None else verdict.by + 1
        return Admission(verdict.label, verdict.radius, verdict.conflict, by, verdict.keep > 0, seen)

    def query(self, x):
        home = find_home(self.near(x), margin(self.dim))
        return None if home is None else Region(home.label, home.position + 1, home.radius)


@lru_cache(maxsize=100_000)
def whole(raw):
    """The float32 values behind these bytes in units of 2⁻¹⁴⁹, in which all of them are whole numbers."""
    return [int(math.ldexp(value, 149)) for value in np.frombuffer(raw, dtype=np.float32).tolist()]


def within(x, y, bound, norm, edge=True):
    """Whether |x − y| ≤ bound, or < bound without the edge, in exact arithmetic."""
    away = [abs(a - b) for a, b in zip(whole(x.tobytes()), whole(y.tobytes()), strict=True)]
    bound = Fraction(bound) * 2**149
    total, limit = (sum(away), bound) if norm == "l1" else (sum(a * a for a in away), bound * bound)
    return bound >= 0 and (total <= limit if edge else total < limit)


def closer(x, y, bound, norm):
    """Whether |x − y| < bound, exactly."""
    return within(x, y, bound, norm, edge=False)


def assert_disjoint(memory):
    """The invariant, exactly: no two balls of different labels meet."""
    balls = list(zip(memory.centres, memory.radii, memory.labels, strict=True))
    for i, (x, radius, label) in enumerate(balls):
        for y, other_radius, other in balls[:i]:
            total = Fraction(radius) + Fraction(other_radius)
            assert label == other or not closer(x, y, total, memory.norm), "balls of different labels meet"


def probes(offers, answers, norm):
    """Points of the stream, and points at the edge of what was promised."""
    yield from (offer.x for offer in offers)
    for offer, answer in zip(offers, answers, strict=True):
        for way in (np.eye(len(offer.x))[0], -np.ones(len(offer.x))):
            way = way / (np.abs(way).sum() if norm == "l1" else np.linalg.norm(way))
            for share in (0.5, 1 - 1e-6, 1.0):
                yield (offer.x + share * answer.radius * way).astype(np.float32)


def assert_promises_kept(memory, offers, answers):
    """Whoever is closer to an input than its answer's radius gets its answer's label, now that all are stored."""
    for y in probes(offers, answers, memory.norm):
        found = memory.query(y)
        for offer, answer in zip(offers, answers, strict=True):
            if answer.radius > 0 and closer(y, offer.x, answer.radius, memory.norm):
                assert found is not None and found.label == answer.label, "a promised point has another answer"


def assert_modest(memory, offers, answers):
    """No radius beyond what was certified, unless a stored region of that label holds the whole ball."""
    for offer, answer in zip(offers, answers, strict=True):
        if answer.stored:
            assert answer.label == offer.label and answer.radius <= offer.radius
        elif answer.radius > 0:
            assert any(
                label == answer.label and within(offer.x, y, Fraction(radius) - Fraction(answer.radius), memory.norm)
                for y, radius, label in zip(memory.centres, memory.radii, memory.labels, strict=True)
            ), "a radius has no region around it"


def run(offers, norm, rule=settle):
    """A stream through a scanning memory, every property checked."""
    memory = ScanMemory(len(offers[0].x), norm, rule)
    answers = [memory.admit(*offer) for offer in offers]
    assert_disjoint(memory)
    assert_modest(memory, offers, answers)
    assert_promises_kept(memory, offers, answers)
    kept = len(memory.radii)
    for offer, answer in zip(offers, answers, strict=True):
        again = memory.admit(*offer)
        assert not again.stored and again.radius >= answer.radius, "storing twice is not idempotent"
        assert again.label == answer.label or answer.radius == 0
    assert len(memory.radii) == kept
    return memory, answers


@st.composite
def streams(draw, most_dim=50, most=10):
    """Balls whose centres repeat and whose edges run through, or very near, other centres."""
    dim, count = draw(st.integers(1, most_dim)), draw(st.integers(1, most))
    value = st.one_of(st.sampled_from([k / 8 for k in range(9)]), st.floats(0, 1, width=32))
    points = draw(arrays.arrays(np.float32, (count, dim), elements=value, fill=st.sampled_from([0.0, 0.25, 0.5])))
    norm = draw(st.sampled_from(["l1", "l2"]))
    offers = []
    for _ in range(count):
        x, y = points[draw(st.integers(0, count - 1))], points[draw(st.integers(0, count - 1))]
        label = draw(st.sampled_from([0, 1, 2, ABSTAIN]))
        near = float(distances(y[None], x, norm)[0]) * draw(st.sampled_from(NEARLY))
        radius = near or draw(st.floats(0, math.sqrt(dim)))
        offers.append(Offer(x, label, 0.0 if label == ABSTAIN else radius))
    return norm, offers
