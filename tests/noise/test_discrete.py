"""Discrete noise: its frequencies, and its l0 theorem against enumerations of small spaces in exact rationals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from smoothcert.contracts import Stream
from smoothcert.errors import OptionError
from smoothcert.noise.discrete import MOST, WORD, Discrete, above, levels, needed

HALF = Fraction(1, 2)
# (stay, other, others): a = stay/(stay + others·other).
WEIGHTS = [(4, 1, 1), (3, 2, 1), (2, 1, 2), (5, 1, 2), (3, 1, 3)]

# Lee et al. 2019, thresholds of their released code, to 20 digits: the P(class) that r = 0, 1, … needs.
MNIST = """0.50000000000000000001 0.87500000000000000001 0.96875000000000000001 0.99218750000000000001
0.99275000000000000001 0.99698750000000000001 0.99900687500000000001 0.99970371875000000001 0.99991632968750000001
0.99991875875000000001 0.99996548168750000001 0.99998822162187500001 0.99999636420546875001 0.99999894052336718751
0.99999895943106875001 0.99999955394032718751 0.99999984569826579688 0.99999995166789444922 0.99999998571004881231
0.99999998589341508922 0.99999999392417376591"""
IMAGENET = """0.5 0.69686274509803921569 0.85373533256439830835 0.97898829668830238747 0.99493645881485561183
0.99619020439204454170 0.99744272681434420339 0.99864514829441225005 0.99976849778447424675 0.99993970389648837618"""


def probabilities(x, values, stay, other):
    """P(noisy input) for every point of the space, exactly."""
    total = stay + (values - 1) * other
    space = itertools.product(range(values), repeat=len(x))
    return {z: math.prod(Fraction(stay if a == b else other, total) for a, b in zip(x, z, strict=True)) for z in space}


def enumerated(x, other_x, values, stay, other):
    """The need by Neyman and Pearson over all points of the space, sorted by likelihood ratio."""
    here, there = (probabilities(point, values, stay, other) for point in (x, other_x))
    left, taken = HALF, Fraction(0)
    for z in sorted(here, key=lambda z: here[z] / there[z], reverse=True):
        part = min(Fraction(1), left / there[z])
        taken, left = taken + part * here[z], left - part * there[z]
    return taken


@pytest.mark.parametrize(("stay", "other", "others"), WEIGHTS)
def test_the_recursion_equals_the_enumeration_in_any_dimension(stay, other, others):
    values = others + 1
    for d in range(1, 5 if values <= 3 else 4):
        x = (0,) * d
        for moved in itertools.product(range(values), repeat=d):
            radius = sum(m != 0 for m in moved)
            assert enumerated(x, moved, values, stay, other) == needed(stay, other, others, radius)


def counted(stay, other, others, radius, d):
    """The need from counts of regions, as Lee et al. compute it: how many z differ from x in u and from x′ in v of d.

    Of the `radius` coordinates where x and x′ differ, z has `mine` of x's values, `theirs` of x′'s and others in the
    rest; of those where they agree, `changed` are neither's. Every number is whole.
    """
    regions = {}
    for mine in range(radius + 1):
        for theirs in range(radius - mine + 1):
            ways = math.comb(radius, mine) * math.comb(radius - mine, theirs) * (others - 1) ** (radius - mine - theirs)
            for changed in range(d - radius + 1):
                u, v = radius - mine + changed, radius - theirs + changed
                more = ways * math.comb(d - radius, changed) * others**changed
                regions[u, v] = regions.get((u, v), 0) + more
    total = (stay + others * other) ** d
    left, taken = Fraction(total, 2), Fraction(0)
    # z that differs from x in u coordinates has weight stay^(d−u)·other^u there.
    for (u, v), size in sorted(regions.items(), key=lambda item: item[0][1] - item[0][0], reverse=True):
        here, there = (size * stay ** (d - far) * other**far for far in (u, v))
        part = min(Fraction(1), left / there) if there else Fraction(1)
        taken, left = taken + part * here, left - part * there
    return taken / total


@pytest.mark.parametrize(("stay", "other", "others"), [(4, 1, 1), (3, 1, 3), (255, 4, 255)])
def test_counts_of_regions_give_the_same_need_in_every_dimension(stay, other, others):
    for radius in range(1, 7):
        for d in (radius, radius + 1, 9, 24):
            assert counted(stay, other, others, radius, d) == needed(stay, other, others, radius)


@pytest.mark.parametrize(("stay", "other", "others", "d"), [(4, 1, 1, 3), (3, 1, 2, 2), (2, 1, 1, 4)])
def test_no_classifier_that_has_what_is_needed_loses_its_majority(stay, other, others, d):
    """Every set of noisy inputs, that is every classifier: 256, 512 and 65 536 of them."""
    values, x = others + 1, (0,) * d
    here = probabilities(x, values, stay, other)
    sets = np.array([*itertools.product((0, 1), repeat=len(here))])
    weight = (stay + others * other) ** d
    mine = sets @ np.array([int(p * weight) for p in here.values()])
    for radius in range(1, d + 1):
        moved = (1,) * radius + (0,) * (d - radius)
        theirs = sets @ np.array([int(p * weight) for p in probabilities(moved, values, stay, other).values()])
        need = needed(stay, other, others, radius)
        enough = mine * need.denominator > need.numerator * weight
        assert enough.any() and (2 * theirs[enough] > weight).all()


@pytest.mark.parametrize(("published", "weights"), [(MNIST, (4, 1, 1)), (IMAGENET, (255, 4, 255))])
def test_published_thresholds_are_met_to_the_last_digit(published, weights):
    """K=1, a=.8 (4 in 5) and K=255, a=.2 (255 in 1275, the others 4 each)."""
    for radius, text in enumerate(published.split()):
        assert abs(Fraction(text) - needed(*weights, radius)) <= Fraction(1, 10**20)


def test_weights_of_the_levels_add_up():
    for stay, other, others in WEIGHTS:
        for radius in (0, 1, 5, 30):
            assert sum(levels(stay, other, others, radius)) == (stay + others * other) ** radius


def test_floats_are_rounded_up():
    for value in (HALF, Fraction(7, 8), Fraction(2, 3), 1 - Fraction(1, 10**30)):
        assert Fraction(math.nextafter(above(value), 0.0)) <= value < Fraction(above(value))


def test_radius_is_the_largest_whole_number_whose_need_is_below():
    noise = Discrete(keep=0.8, values=2)
    limits = [noise.p_needed(r, 784) for r in range(21)]
    assert limits == sorted(limits) and limits[0] == pytest.approx(0.5)
    assert limits[1:] == pytest.approx([float(needed(4, 1, 1, r)) for r in range(1, 21)], abs=1e-9)
    for r, limit in enumerate(limits):
        at, under = (torch.tensor(p, dtype=torch.float64) for p in (limit, math.nextafter(limit, 0.0)))
        assert float(noise.radius(at, 1 - at, 784)) == r and float(noise.radius(under, 1 - under, 784)) == max(0, r - 1)
    many = torch.tensor([[0.1, 0.5, 0.9], [0.97, 0.995, 1.0]], dtype=torch.float64)
    assert noise.radius(many, 1 - many, 1).tolist() == [[0, 0, 1], [2, 4, MOST]]


def test_a_radius_between_whole_numbers_needs_the_next_one():
    noise = Discrete(keep=0.8, values=2)
    assert noise.p_needed(0.1, 1) == noise.p_needed(1, 1) and noise.p_needed(MOST + 1, 1) == 1.0


@pytest.mark.parametrize(("keep", "values"), [(0.8, 2), (0.2, 256), (0.5, 3), (1 / 3, 17), (0.999999, 2)])
def test_probabilities_are_whole_multiples_of_a_word(keep, values):
    noise = Discrete(keep=keep, values=values)
    assert noise._stay + (values - 1) * noise._other == WORD
    assert 0 <= Fraction(noise._stay, WORD) - Fraction(keep) < Fraction(values - 1, WORD)


@pytest.mark.parametrize(("keep", "values"), [(0.8, 2), (0.5, 3), (0.3, 17)])
def test_frequencies_are_as_asked(keep, values):
    noise, level = Discrete(keep=keep, values=values), 1
    out = torch.empty(400, 1000)
    noise.fill(out, torch.full((1000,), level / (values - 1)), Stream(0, 0, "test"), 0)
    found = np.bincount((out * (values - 1)).round().long().ravel().numpy(), minlength=values)
    expected = np.full(values, (1 - keep) / (values - 1))
    expected[level] = keep
    assert len(found) == values and chisquare(found, expected * 400_000).pvalue > 1e-3  # seed fixed
    assert torch.equal(out, (out * (values - 1)).round() / (values - 1))


def test_an_input_between_values_is_rounded_first():
    out, same = torch.empty(50, 4), torch.empty(50, 4)
    noise = Discrete(keep=0.6, values=3)
    noise.fill(out, torch.tensor([0.1, 0.3, 0.7, 0.9]), Stream(0, 0, "test"), 0)
    noise.fill(same, torch.tensor([0.0, 0.5, 0.5, 1.0]), Stream(0, 0, "test"), 0)
    assert torch.equal(out, same)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0.5, "values": 2}, "keep of discrete must be above 1/values, here 0.5, and below 1; got 0.5"),
        ({"keep": 1.0}, "keep of discrete must be above 1/values, here 0.00390625, and below 1; got 1.0"),
        ({"keep": math.nan}, "keep of discrete must be above"),
        ({"keep": "a"}, "keep of discrete must be above"),
        ({"keep": 0.8, "values": 1}, "values of discrete must be a whole number from 2 to 65536; got 1"),
        ({"keep": 0.8, "values": 2.5}, "values of discrete must be a whole number"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Discrete(**options)
