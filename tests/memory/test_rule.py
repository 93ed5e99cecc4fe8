"""The admission rule: its margins by exact algebra, its properties on streams of balls in any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from scan_memory import Offer, ScanMemory, assert_disjoint, assert_promises_kept, closer, run, streams

from smoothcert.contracts import ABSTAIN
from smoothcert.errors import RunError
from smoothcert.memory.regions import distances
from smoothcert.memory.rule import Near, Ruling, find_home, margin, settle

U = Fraction(1, 2**53)
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("dim", [1, 2, 17, 3072, 150_528, 10**8])
def test_one_margin_covers_distances_and_comparisons(dim):
    error, e = (dim + 4) * U, Fraction(margin(dim))
    step = 1 + 4 * U  # more than the rounding of the few operations of a comparison
    assert (1 - e) * step * (1 + error) < 1  # found inside ⇒ truly inside
    assert (1 - 2 * e) * step * (1 + error) < (1 - e) / step  # promised ⇒ found inside
    assert (1 + error) < (1 + e) / step  # a region's promise around a member
    assert (1 - e) * step < 1 / (1 + error) - U  # room ⇒ disjoint
    assert e * 2 < Fraction(1, 10**6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dim", [1, 5, 50, 784])
def test_distances_err_less_than_was_derived(dim, norm):
    rng = np.random.default_rng(dim)
    for scale in (1.0, 2.0**-140, 2.0**100):
        x, y = (np.float32(scale) * rng.random(dim, dtype=np.float32) ** 9 for _ in range(2))
        found, error = Fraction(float(distances(y[None], x, norm)[0])), (dim + 4) * U
        assert not closer(x, y, found * (1 - error), norm)
        assert closer(x, y, found * (1 + error), norm) or (x == y).all()


@relaxed
@given(streams())
def test_streams_never_disagree(stream):
    norm, offers = stream
    run(offers, norm)


@relaxed
@given(streams(most_dim=2, most=5))
def test_any_order_will_do(stream):
    norm, offers = stream
    for turn in range(len(offers)):
        run(offers[turn:] + offers[:turn], norm)
        run((offers[turn:] + offers[:turn])[::-1], norm)


def keeps_own_radius(label, radius, near, e):
    """Wrong: takes the label of the region around it, and all of its own ball with it."""
    verdict = settle(label, radius, near, e)
    return verdict._replace(radius=radius * (1 - 2 * e), keep=radius) if verdict.conflict == "switched" else verdict


def makes_no_room(label, radius, near, e):
    """Wrong: stays itself wherever its centre is free."""
    verdict = settle(label, radius, near, e)
    return verdict._replace(radius=radius * (1 - 2 * e), keep=radius) if verdict.conflict == "shrunk" else verdict


def keeps_own_label(label, radius, near, e):
    """Wrong: answers as if it knew nothing."""
    return Ruling(label, radius * (1 - 2 * e), None, None, radius)


def promises_all(label, radius, near, e):
    """Wrong: reports the radius it stores, at whose edge a computed distance decides."""
    verdict = settle(label, radius, near, e)
    return verdict._replace(radius=verdict.keep) if verdict.keep else verdict


@pytest.mark.parametrize("wrong", [keeps_own_radius, makes_no_room, keeps_own_label, promises_all])
def test_wrong_rules_fail_the_same_checks(wrong):
    def fails(stream):
        norm, offers = stream
        try:
            run(offers, norm, wrong)
        except (AssertionError, RunError):
            return True
        return False

    once = settings(max_examples=600, derandomize=True, database=None, phases=[Phase.generate])
    find(streams(most_dim=3, most=6), fails, settings=once)  # raises NoSuchExample if there is none


def line(*balls):
    return [Offer(np.array([x], dtype=np.float32), label, radius) for x, label, radius in balls]


def test_inside_a_region_its_label_is_taken_with_what_is_left_of_its_radius():
    memory, answers = run(line((0, 0, 1.0), (0.75, 1, 5.0), (0.75, 0, 0.1)), "l2")
    e = margin(1)
    assert answers[1] == (0, 1 - 2 * e - 0.75 * (1 + e), "switched", 1, False, 1)
    assert answers[2] == (0, answers[1].radius, None, 1, False, 1)  # more than certified: taken from the region
    assert len(memory.radii) == 1


def test_outside_room_is_made_for_the_nearest_region_of_another_label():
    _, answers = run(line((0, 0, 1.0), (2.5, 1, 9.0), (4.0, 1, 0.25), (1.25, 0, 0.25)), "l1")
    e = margin(1)
    assert answers[1] == (1, (2.5 * (1 - e) - 1) * (1 - 2 * e), "shrunk", 1, True, 1)
    assert answers[2].conflict is None and answers[2].stored
    assert answers[3].conflict == "switched" and answers[3].by == 2  # the second came first


def test_a_ball_that_reaches_beyond_a_region_of_its_label_is_stored():
    _, answers = run(line((0, 0, 1.0), (0.5, 0, 1.0)), "l2")
    assert [answer.stored for answer in answers] == [True, True]
    assert [answer.radius for answer in answers] == [1 - 2 * margin(1)] * 2


def test_an_abstention_is_answered_inside_a_region_and_never_stored():
    memory, answers = run(line((0, 3, 1.0), (0.5, ABSTAIN, 0.0), (9, ABSTAIN, 0.0)), "l2")
    assert answers[1].label == 3 and answers[1].conflict is None and answers[1].radius > 0.49
    assert answers[2] == (ABSTAIN, 0.0, None, None, False, 1)
    assert memory.labels == [3]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dim", [1, 3, 50])
def test_within_a_millionth_of_the_edge(dim, norm):
    """Neighbours around the edge of a region, as close as float32 allows, each with another label and a large ball."""
    rng = np.random.default_rng(dim)
    for _ in range(10):
        x, way = rng.random(dim, dtype=np.float32), rng.standard_normal(dim)
        edge = (x + way).astype(np.float32)
        radius = float(distances(edge[None], x, norm)[0])
        others = [(x + (1 + 1e-6 * t) * way).astype(np.float32) for t in (-1, -0.1, 0, 0.1, 1)]
        for factor in (1.0, 1 + 2**-52, 1 - 2**-53, 1 + 4 * margin(dim), 1 - 4 * margin(dim)):
            memory = ScanMemory(dim, norm)
            offers = [Offer(x, 0, radius * factor), *(Offer(y, 1, 2.0) for y in others)]
            answers = [memory.admit(*offer) for offer in offers]
            assert_disjoint(memory)
            assert_promises_kept(memory, offers, answers)
            for y, answer in zip(others, answers[1:], strict=True):
                assert answer.label == 0 or not closer(y, x, answers[0].radius, norm)
                assert answer.label == 1 or closer(y, x, offers[0].radius, norm)


def test_a_memory_that_contradicts_itself_is_not_asked():
    near = Near(np.array([0.1, 0.2]), np.array([1.0, 1.0]), np.array([4, 7]))
    with pytest.raises(RunError, match="regions around one point must have one label; got 4 and 7"):
        find_home(near, margin(3))
