"""Conversions of a radius: the ball that is claimed lies inside the ball that was proven, and touches it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from smoothcert.errors import OptionError
from smoothcert.norms import ORDERS, converted, within

PAIRS = [(held, wanted) for held in ORDERS for wanted in ORDERS]


@pytest.mark.parametrize(("held", "wanted"), PAIRS)
@pytest.mark.parametrize("dim", [1, 2, 7, 3072])
def test_the_claimed_ball_lies_inside_the_proven_one_and_touches_it(held, wanted, dim):
    radius = converted(0.7, held, wanted, dim)
    corners = [np.eye(dim)[0], np.ones(dim), np.random.default_rng(0).standard_normal(dim)]
    lengths = [np.linalg.norm(c, ORDERS[held]) / np.linalg.norm(c, ORDERS[wanted]) * radius for c in corners]
    assert max(lengths) <= 0.7 * (1 + 1e-12)
    assert max(lengths) == pytest.approx(0.7, rel=1e-12)


def test_l2_radii_in_linf_and_l1():
    assert converted(0.5, "l2", "linf", 3072) == pytest.approx(0.5 / math.sqrt(3072), rel=1e-14)
    assert converted(0.5, "l2", "linf", 3072) < 0.5 / math.sqrt(3072)
    assert converted(0.5, "l2", "l1", 3072) == 0.5
    assert converted(0.0, "l2", "linf", 10) == 0.0 and converted(math.inf, "l2", "linf", 10) == math.inf


def test_l0_radii_stay_what_they_are():
    assert converted(3.0, "l0", "l0", 10) == 3.0
    for held, wanted in (("l0", "l2"), ("l2", "l0")):
        with pytest.raises(OptionError, match="norm of a radius to convert must be one of l1, l2, linf; got 'l0'"):
            converted(3.0, held, wanted, 10)
    with pytest.raises(OptionError, match="dim of a radius to convert must be at least 1; got 0"):
        converted(1.0, "l2", "linf", 0)


def test_lengths_are_compared_in_whole_numbers():
    """3-4-5: at radius 5/255 exactly on the border, and just inside the next float; floats cannot tell."""
    border = 5 / 255
    inside = math.nextafter(border, 1.0)
    for norm, moved in (("l2", [3, -4, 0]), ("l1", [2, -3]), ("linf", [5, -4])):
        # 5/255 as a float lies below or above the true quotient: the comparison is with the float, exactly.
        assert within(moved, border, norm, 255) == (Fraction(border) > Fraction(5, 255))
        assert within(moved, inside, norm, 255) and not within(moved, math.nextafter(border, 0.0), norm, 255)
    assert not within([3, 4], 5.0, "l2", 1) and within([3, 4], 5.0, "l2", 1, closed=True)
    assert within([7, 0, -9], 2.0, "l0", 255) and not within([7, 1, -9], 2.0, "l0", 255)
    assert within([], 0.1, "linf", 255) and not within([0, 0], 0.0, "l2", 255)


def test_huge_perturbations_do_not_overflow():
    assert not within([255] * 10**5, 255.0, "l2", 1) and within([255] * 100, 2551.0, "l2", 1)
