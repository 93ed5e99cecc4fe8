"""The memory as a whole: the same answers as a scan, across openings, processes' files and chosen directions."""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from scan_memory import Offer, ScanMemory, assert_disjoint, assert_promises_kept, streams

from smoothcert.contracts import ABSTAIN, Certificate, Evidence
from smoothcert.errors import DataError, OptionError, RunError
from smoothcert.memory import Memory, Owner, Region, index, postgres, regions, sqlite


def crowd(count, dim, seed=0, labels=3, largest=0.3):
    """Balls at random, every second one near the one before it."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, dim), dtype=np.float32)
    x[1::2] = x[::2] + 0.1 * x[1::2]
    return [Offer(row, int(rng.integers(labels)), float(rng.uniform(0, largest))) for row in x]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams(most=12))
def test_answers_are_those_of_a_scan(stream):
    norm, offers = stream
    dim = len(offers[0].x)
    scan = ScanMemory(dim, norm)
    with tempfile.TemporaryDirectory() as folder:
        with Memory.create(Path(folder) / "m", "abc", norm, (dim,)) as memory:
            for offer in offers:
                assert memory.admit(*offer) == scan.admit(*offer)
                assert memory.query(offer.x) == scan.query(offer.x)
            assert memory.check() == [] and len(memory) == len(scan.radii)
        with Memory.open(Path(folder) / "m", frozen=True) as memory:
            assert [memory.query(offer.x) for offer in offers] == [scan.query(offer.x) for offer in offers]


@pytest.mark.parametrize(("dim", "norm", "largest"), [(2, "l2", 0.1), (3, "l1", 0.4), (30, "l2", 2.5)])
def test_hundreds_of_regions_through_new_directions_and_trees(place, monkeypatch, dim, norm, largest):
    """Directions are chosen at 16 and 128 regions here; two connections take turns."""
    monkeypatch.setattr(regions, "FIRST", 16)
    monkeypatch.setattr(regions, "AGAIN", 8)
    monkeypatch.setattr("smoothcert.memory.index.TAIL", 20)
    for module in (sqlite, postgres, regions):
        monkeypatch.setattr(module, "CHUNK", 50)
    scan = ScanMemory(dim, norm)
    offers = crowd(280, dim, largest=largest)
    first = Memory.create(place, "abc", norm, (dim,))
    second = Memory.open(place)
    answers = []
    for i, offer in enumerate(offers):
        answers.append((first if i % 3 else second).admit(*offer))
        assert answers[-1] == scan.admit(*offer)
        assert second.query(offer.x) == scan.query(offer.x)
    assert len(scan.radii) > 128 and {answer.conflict for answer in answers} == {None, "switched", "shrunk"}
    assert_disjoint(scan)
    assert first.check() == []
    assert [first.query(offer.x) for offer in offers] == [scan.query(offer.x) for offer in offers]
    kept = sum(answer.stored for answer in answers)
    stats = second.stats()
    assert stats.regions == kept == len(second) and stats.owner.norm == norm and stats.size > 4 * dim * kept
    assert sum(label.shrunk for label in stats.labels) == sum(a.stored and a.conflict == "shrunk" for a in answers)


class ListStore:
    """A store that is no file: what `MemoryStore` asks is all that a memory needs."""

    place, identity = "a list", "0"

    def __init__(self, owner):
        self.owner, self.kept, self.number, self.basis = owner, [], 1, index.random(owner.dim)

    def reading(self):
        return contextlib.nullcontext()

    writing = reading

    def stamp(self):
        return 0

    def directions(self, known):
        return None if known == self.number else (self.number, self.basis)

    def regions(self, after):
        for one in self.kept[after:]:
            yield (
                index.Balls.of(one.coordinates[None], np.array([one.radius]), np.array([one.label])),
                np.array([one.certified]),
            )

    def vectors(self, numbers):
        return np.array([self.kept[number - 1].x for number in numbers]).reshape(-1, self.owner.dim)

    def insert(self, region):
        self.kept.append(region)
        return len(self.kept)

    def turn(self, basis, coordinates):
        self.basis, self.number = basis, self.number + 1
        for numbers, rows in coordinates:
            for number, z in zip(numbers, rows, strict=True):
                self.kept[number - 1] = self.kept[number - 1]._replace(coordinates=z)

    def size(self):
        return 0

    def close(self):
        return None


def test_another_store_gives_the_same_answers(place):
    offers = crowd(100, 3, largest=0.4)
    ours, theirs = Memory.create(place, "abc", "l2", (3,)), Memory(ListStore(Owner("abc", "l2", (3,))))
    assert [ours.admit(*offer) for offer in offers] == [theirs.admit(*offer) for offer in offers]
    assert theirs._store.number > 1  # directions were chosen
    assert [ours.query(offer.x) for offer in offers] == [theirs.query(offer.x) for offer in offers]
    assert ours.stats().labels == theirs.stats().labels and ours.check() == theirs.check() == []


def test_a_point_twice_is_stored_once(place):
    memory = Memory.create(place, "abc", "l2", (1, 2, 2))
    x = torch.rand(1, 2, 2, generator=torch.Generator().manual_seed(0))
    first, second = (memory.admit(x, 4, 0.25) for _ in range(2))
    assert first.stored and not second.stored and len(memory) == 1
    assert (first.label, first.radius) == (second.label, second.radius) and second.by == 1
    assert memory.query(x) == Region(4, 1, first.radius) and first.radius == pytest.approx(0.25, rel=1e-12)
    assert memory.query(x + 1) is None


def test_a_certificate_becomes_the_memorys(place):
    memory = Memory.create(place, "abc", "l2", (1,))
    evidence = Evidence(1, ((0, 9),), 9, 0.9, 0.1, 0.01)
    proven = Certificate(1, 0.5, "l2", 0.01, "smoothing", evidence)
    kept = memory.settle(np.zeros(1, dtype=np.float32), proven)
    assert (kept.label, kept.guarantee, kept.evidence) == (1, "memory", evidence) and kept.radius < 0.5
    inside = np.full(1, 0.25, dtype=np.float32)
    other = memory.settle(inside, replace(proven, label=0))
    assert (other.label, other.guarantee) == (1, "memory") and 0.24 < other.radius < 0.25
    assert memory.settle(inside + 9, replace(proven, label=ABSTAIN, radius=0.0)).guarantee == "none"
    with pytest.raises(OptionError, match="norm of a certificate must be l2, as its memory's; got l1"):
        memory.settle(inside, replace(proven, norm="l1"))


def test_promises_hold_for_whoever_opens_the_file_later(place):
    offers = crowd(60, 4, seed=1, largest=0.8)
    with Memory.create(place, "abc", "l2", (4,)) as memory:
        answers = [memory.admit(*offer) for offer in offers]
    with Memory.open(place) as memory:
        memory.norm = "l2"
        assert_promises_kept(memory, offers, answers)


def test_frozen_stays_as_it_was_and_admits_nothing(place):
    x, y = np.zeros(3, dtype=np.float32), np.ones(3, dtype=np.float32)
    memory = Memory.create(place, "abc", "l2", (3,))
    memory.admit(x, 1, 0.5)
    frozen = Memory.open(place, frozen=True)
    memory.admit(y, 2, 0.5)
    assert memory.query(y) is not None and frozen.query(y) is None and frozen.query(x) == memory.query(x)
    with pytest.raises(OptionError, match="must not be frozen if regions are to be admitted; got frozen"):
        frozen.admit(y, 2, 0.5)
    assert Memory.open(place, frozen=True).query(y) == memory.query(y)


def test_abstentions_and_balls_without_room_leave_no_trace(place):
    memory = Memory.create(place, "abc", "l2", (1,))
    at = [np.array([v], dtype=np.float32) for v in (0.0, 0.5, 3.0)]
    memory.admit(at[0], 1, 0.5)
    edge = memory.admit(at[1], 2, 9.0)  # on the edge: not inside, and no room
    assert edge.label == 2 and edge.radius == 0 and not edge.stored and edge.conflict == "shrunk"
    assert memory.admit(at[2], ABSTAIN, 0.0).label == ABSTAIN
    assert memory.admit(at[2], 5, 0.0) == (5, 0.0, None, None, False, 1)
    assert len(memory) == 1


def test_only_its_own_classifier_norm_and_shape(tmp_path):
    memory = Memory.create(tmp_path / "m", "abc", "l2", (3, 2, 2))
    memory.require("abc", "l2", (3, 2, 2))
    with pytest.raises(RunError, match=r"classifier must be abc, as memory .*m was made for it; got other"):
        memory.require("other", "l2", (3, 2, 2))
    with pytest.raises(RunError, match="norm must be l2"):
        memory.require("abc", "l1", (3, 2, 2))
    with pytest.raises(RunError, match=r"shape must be \(3, 2, 2\)"):
        memory.require("abc", "l2", (12,))
    with pytest.raises(OptionError, match="norm of a memory must be one of l1, l2; got 'linf'"):
        Memory.create(tmp_path / "n", "abc", "linf", (3,))
    with pytest.raises(OptionError, match="shape of a memory must be positive whole numbers"):
        Memory.create(tmp_path / "n", "abc", "l2", (3, 0))
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize(
    ("x", "label", "radius", "error", "words"),
    [
        ([0.0, 0.0, 0.0], 1, 0.5, DataError, r"must have shape \(2,\); got \(3,\)"),
        ([0.0, math.nan], 1, 0.5, DataError, "must be finite float32 numbers"),
        ([0.0, math.inf], 1, 0.5, DataError, "must be finite float32 numbers"),
        ([0.0, 1e300], 1, 0.5, DataError, "must be finite float32 numbers"),
        ([0.0, 0.1], 1, 0.5, DataError, "must be finite float32 numbers"),
        ([0.0, 0.5], -2, 0.5, OptionError, "label of a region must be a class, or -1 for an abstention; got -2"),
        ([0.0, 0.5], 1, -0.5, OptionError, "radius of a region must be a number from 0 to"),
        ([0.0, 0.5], 1, math.nan, OptionError, "radius of a region must be a number from 0 to"),
        ([0.0, 0.5], 1, math.inf, OptionError, "radius of a region must be a number from 0 to"),
    ],
)
def test_what_cannot_be_a_region_is_refused(place, x, label, radius, error, words):
    memory = Memory.create(place, "abc", "l2", (2,))
    with pytest.raises(error, match=words):
        memory.admit(np.array(x), label, radius)
    assert len(memory) == 0 and memory.admit(np.array([0.0, 0.5]), 1, 0.5).stored


def test_very_large_and_very_small_values(place, monkeypatch):
    monkeypatch.setattr(regions, "FIRST", 8)
    memory = Memory.create(place, "abc", "l2", (2,))
    scan = ScanMemory(2, "l2")
    rng = np.random.default_rng(0)
    for _ in range(150):
        scale = float(rng.choice([1e-44, 1e-20, 1.0, 1e30]))
        x = (rng.random(2) * scale).astype(np.float32)
        label, radius = int(rng.integers(3)), float(rng.random() * scale * rng.choice([1e-3, 1.0, 10.0]))
        assert memory.admit(x, label, radius) == scan.admit(x, label, radius)
    assert memory.check() == [] and len(memory) > 12
