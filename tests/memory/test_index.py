"""The index never leaves out a ball that a full scan would find, however balls and questions are mixed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_memory import streams

from smoothcert.memory import index
from smoothcert.memory.index import Ask, Balls, Index, slack
from smoothcert.memory.regions import distances
from smoothcert.memory.rule import margin


@pytest.fixture(autouse=True)
def short_tail(monkeypatch):
    """Trees are built and merged from a few balls on."""
    monkeypatch.setattr(index, "TAIL", 3)
    monkeypatch.setattr(index, "GROWTH", 2)
    monkeypatch.setattr(index, "LEAF", 2)


def wanted(x, reach, label, points, radii, labels, norm):
    """By full scan: balls that contain x, or of other labels come as near as the rule looks."""
    found = distances(points, x, norm)
    meets = (labels != label) & (found * (1 - margin(len(x))) < radii + reach)
    return np.flatnonzero((found < radii) | meets)


def balls(basis, points, radii, labels):
    return Balls.of(basis.coordinates(points), np.array(radii), np.array(labels, dtype=np.int64))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams(most=16), st.booleans(), st.integers(1, 5), st.sampled_from([0.0, 1e-6, 0.5, 3.0]))
def test_nothing_that_a_scan_finds_is_left_out(stream, learned, together, reach):
    norm, offers = stream
    points = np.array([offer.x for offer in offers])
    radii, labels = (np.array([getattr(offer, name) for offer in offers]) for name in ("radius", "label"))
    dim = points.shape[1]
    basis = index.principal(points) if learned else index.random(dim)
    found = Index(basis.width, slack(dim))
    for first in range(0, len(points), together):
        part = slice(first, first + together)
        found.add(balls(basis, points[part], radii[part], labels[part]))
        known = min(first + together, len(points))
        assert len(found) == known
        for x, label in zip(points, labels, strict=True):
            got = found.near(Ask(basis.coordinates(x[None])[0], reach, int(label)))
            needed = wanted(x, reach, label, points[:known], radii[:known], labels[:known], norm)
            assert set(needed) <= set(got.positions.tolist())
            assert (np.diff(got.positions) > 0).all()
            assert (got.radii == radii[got.positions]).all() and (got.labels == labels[got.positions]).all()


def test_trees_are_few_and_one_large_ball_widens_no_search():
    rng = np.random.default_rng(0)
    points = rng.random((150, 6), dtype=np.float32)
    basis = index.principal(points)
    found = Index(basis.width, slack(6))
    for i, x in enumerate(points):
        found.add(balls(basis, x[None], [9.0 if i == 7 else 0.01], [0]))
    assert len(found) == 150 and len(found._blocks) <= 6
    tree = found._blocks[0]
    for x in points[:50]:
        z = basis.coordinates(x[None])[0]
        got = found.near(Ask(z, 0.0, 0)).positions
        assert 7 in got and len(got) <= 3
        assert (
            len(tree.tree.query_ball_point([*z, 0.0], tree.most)) <= 3
        )  # the tree itself, before its hits are looked at


@pytest.mark.parametrize("dim", [1, 2, 15, 16, 17, 50, 3072])
def test_coordinates_never_lengthen_a_distance_beyond_their_slack(dim):
    rng = np.random.default_rng(dim)
    points = (rng.random((80, dim)) * rng.choice([1e-30, 1.0, 1e30], (80, 1))).astype(np.float32)
    points[1] = points[0]
    for basis in (index.random(dim), index.principal(points[:70]), index.principal(np.repeat(points[:1], 70, 0))):
        assert basis.width == min(dim, 16) + 1
        defect = np.abs(basis.directions.T @ basis.directions - np.eye(basis.width - 1)).max()
        assert defect < slack(dim) / 8
        z = basis.coordinates(points)
        length = np.linalg.norm(z, axis=1)
        for i in range(0, 80, 7):
            true = distances(points, points[i], "l2")
            assert (np.linalg.norm(z - z[i], axis=1) <= true + slack(dim) / 2 * (length + length[i])).all()


def test_principal_directions_come_first_and_hold_what_differs():
    rng = np.random.default_rng(3)
    scale = np.array([0.1, 5.0, 1.0] + [0.01] * 40)
    z = index.principal((rng.standard_normal((300, 43)) * scale).astype(np.float32)).coordinates(
        (rng.standard_normal((300, 43)) * scale).astype(np.float32)
    )
    assert z.std(axis=0)[1] > 4 and 0.8 < z.std(axis=0)[2] < 1.2 and z.std(axis=0)[4:].max() < 0.02
