"""ACES on given counts: every branch, ties and abstentions; then its error, computed exactly, is at most alpha."""

from __future__ import annotations

import numpy as np
import pytest
from compositions import ENTROPY_SOURCE as ENTROPY
from compositions import NETWORK_SOURCE as NETWORK
from compositions import SIGMA, cells, clean, joint, one_column, played, truth, two_columns
from scipy.special import ndtri

from smoothcert.bounds import lower_bound, tie_p_value
from smoothcert.contracts import ABSTAIN
from smoothcert.errors import ModelError, OptionError
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.testing import check_procedure

N0, N, LOOK, ALPHA = 10, 200, 50, 0.02


def certified(classes, hits, guess_classes=(0, 10, 0), guess_hits=10, core=2, theta=0.5, where=ENTROPY):
    """Run on these votes: of the 200 test draws the first 50 are a proportional share."""

    def answers(draw):
        if draw.purpose == "core":
            return clean(core)
        chosen, share = (guess_hits, guess_classes) if draw.purpose.endswith("guess") else (hits, classes)
        if draw.purpose.endswith("test"):
            share = [votes * draw.draws // N for votes in share]
            chosen = chosen * draw.draws // N
        return one_column(chosen, draw.draws) if draw.purpose.startswith("select") else two_columns(share, chosen)

    procedure = AcesProcedure(theta, N0, N, ALPHA, LOOK)
    if where is ENTROPY:  # its cap leaves out the draws of a selection network
        check_procedure(procedure, where, answers, 4)
    return played(procedure(where, 4), answers)


@pytest.mark.parametrize("where", [ENTROPY, NETWORK])
def test_selected_and_certified_has_the_smaller_radius(where):
    for votes, hits in (((0, 196, 4), 180), ((4, 180, 16), 196)):
        certificate, _ = certified(votes, hits, where=where)
        low = lower_bound(180, N, ALPHA / 2)
        assert certificate.label == 1 and certificate.radius == pytest.approx(SIGMA * ndtri(low), abs=1e-12)
        assert certificate.radius < SIGMA * ndtri(low) + 1e-15
        assert certificate.guarantee == "smoothing" and certificate.alpha == ALPHA and certificate.norm == "l2"
        selection, branch = certificate.parts
        assert (selection.label, branch.label, selection.alpha, branch.alpha) == (1, 1, ALPHA / 2, ALPHA / 2)
        assert certificate.evidence.low == low == min(selection.evidence.low, branch.evidence.low)


def test_not_selected_is_the_core_without_a_radius():
    certificate, _ = certified((0, 196, 4), hits=20, guess_hits=0)
    assert (certificate.label, certificate.radius, certificate.guarantee) == (2, 0.0, "none")
    assert certificate.parts[0].label == 0 and certificate.parts[1].alpha == 0.0


def test_an_uncertain_selector_answers_where_both_agree():
    for guess_hits in (10, 0):
        certificate, _ = certified((0, 196, 4), hits=100, core=1, guess_hits=guess_hits)
        assert (certificate.label, certificate.radius, certificate.guarantee) == (1, 0.0, "none")
        assert [part.label for part in certificate.parts] == [ABSTAIN, 1, 1]
        assert certified((0, 196, 4), hits=100, core=2, guess_hits=guess_hits)[0].label == ABSTAIN
        assert certified((0, 108, 92), hits=100, core=1, guess_hits=guess_hits)[0].label == ABSTAIN


def test_selected_but_not_certified_abstains_even_where_the_core_agrees():
    certificate, _ = certified((0, 108, 92), hits=196, core=1)
    assert certificate.abstained and certificate.radius == 0.0 and certificate.alpha == ALPHA


def test_draws_that_chose_are_not_evidence():
    """The guess decides what is tested, whatever the test draws say; a tie of the selection goes to 1."""
    assert certified((0, 196, 4), hits=196, guess_classes=(0, 0, 10))[0].label == ABSTAIN
    assert certified((0, 196, 4), hits=196, guess_hits=4)[0].label == ABSTAIN
    assert certified((0, 196, 4), hits=196, guess_hits=5)[0].label == 1


def test_what_is_drawn():
    _, asked = certified((0, 196, 4), hits=196)
    assert asked == [("guess", 10), ("test", 50), ("test", 150), ("core", 1)]
    _, asked = certified((0, 196, 4), hits=196, where=NETWORK)
    assert asked[3:] == [("select-guess", 10), ("select-test", 50), ("select-test", 150), ("core", 1)]
    short = AcesProcedure(0.5, N0, 50, ALPHA, LOOK)(ENTROPY, 4)
    _, asked = played(short, lambda d: clean(0) if d.purpose == "core" else two_columns([d.draws], d.draws))
    assert asked == [("guess", 10), ("test", 50), ("core", 1)]


@pytest.mark.parametrize("theta", [0.0, 1.0])
def test_the_ends_of_the_grid(theta):
    """θ = 0 is the core everywhere, θ = 1 the smoothed network tested at alpha/2."""
    certificate, _ = certified((0, 196, 4), hits=120, guess_hits=6, theta=theta)
    expected = (2, 0.0) if theta == 0.0 else (1, SIGMA * ndtri(lower_bound(196, N, ALPHA / 2)))
    assert (certificate.label, certificate.radius) == pytest.approx(expected, abs=1e-12)


def predicted(classes, hits, core=2, where=ENTROPY, n=100):
    def answers(draw):
        if draw.purpose == "core":
            return clean(core)
        return one_column(hits, n) if draw.purpose == "select-predict" else two_columns(classes, hits)

    return played(AcesPredict(0.5, n, ALPHA)(where, 4), answers)


@pytest.mark.parametrize("where", [ENTROPY, NETWORK])
def test_predict_needs_winner_and_p_value_in_every_branch(where):
    """Erratum E4: joined by "or", 51 of 100 copies not selected would already give the core's answer."""
    sure, unsure, even = (0, 90, 10), (0, 55, 45), tie_p_value(55, 45)
    assert even > ALPHA / 2 >= tie_p_value(70, 30)
    cases = [
        (sure, 70, 2, 1),  # selected: the certified class
        (sure, 30, 2, 2),  # not selected: the core
        (sure, 49, 2, ABSTAIN),  # more are not selected, but nobody knows
        (sure, 51, 2, ABSTAIN),
        (sure, 49, 1, 1),  # … unless both agree
        (unsure, 49, 1, ABSTAIN),
        (unsure, 70, 1, ABSTAIN),  # selected, and the certified network does not know
        (unsure, 30, 1, 1),  # the core needs nobody
    ]
    for classes, hits, core, label in cases:
        certificate, _ = predicted(classes, hits, core, where)
        assert (certificate.label, certificate.radius, certificate.guarantee) == (label, 0.0, "none")


EXACT_N, EXACT_N0, EXACT_ALPHA = 30, 3, 0.1
LEVELS = (0.02, 0.3, 0.45, 0.5, 0.55, 0.7, 0.9, 0.98, 1.0)


def table(core):
    """What is answered for every guess and every pair of counts: label and radius [ĉ, ŝ, class 0, selected]."""
    shape = (2, 2, EXACT_N + 1, EXACT_N + 1)
    label, radius = np.empty(shape, dtype=int), np.empty(shape)
    aces = AcesProcedure(0.5, EXACT_N0, EXACT_N, EXACT_ALPHA, EXACT_N)
    for place in np.ndindex(*shape):
        guess, chosen, votes, hits = place

        def answers(draw, guess=guess, chosen=chosen, votes=votes, hits=hits):
            if draw.purpose == "core":
                return clean(core, 2)
            if draw.purpose == "guess":
                return two_columns([EXACT_N0 * (guess == 0), EXACT_N0 * (guess == 1)], EXACT_N0 * chosen)
            return two_columns([votes, EXACT_N - votes], hits)

        certificate, _ = played(aces(ENTROPY, 4), answers)
        label[place], radius[place] = certificate.label, certificate.radius
    return label, radius


def guesses(p, q, mixing):
    """P(ĉ, ŝ) from the draws that choose."""
    mass = joint(cells(p, q, mixing), EXACT_N0)
    class_zero, selected = np.indices(mass.shape)
    first, chosen = 2 * class_zero > EXACT_N0, 2 * selected >= EXACT_N0
    return np.array([[mass[(first == (c == 0)) & (chosen == s)].sum() for s in (False, True)] for c in (0, 1)])


@pytest.mark.parametrize("core", [0, 1])
def test_the_error_is_at_most_alpha_exactly(core):
    """Summed over all counts, for selectors and classes sure, unsure and even, alike, independent and opposite."""
    label, radius = table(core)
    worst = 0.0
    for p in LEVELS:
        for q in LEVELS:
            right, reach = truth(p, q, core)
            wrong = (label != ABSTAIN) & ((label != right) | (radius > reach))
            for mixing in (-1, 0, 1):
                mass = guesses(p, q, mixing)[:, :, None, None] * joint(cells(p, q, mixing), EXACT_N)
                assert mass.sum() == pytest.approx(1.0)
                error = float(mass[wrong].sum())
                assert error <= EXACT_ALPHA
                worst = max(worst, error)
    assert worst > EXACT_ALPHA / 5  # and not because nothing is ever said


@pytest.mark.parametrize("core", [0, 1])
def test_the_error_of_predict_is_at_most_alpha_exactly(core):
    shape = (EXACT_N + 1, EXACT_N + 1)
    label = np.empty(shape, dtype=int)
    procedure = AcesPredict(0.5, EXACT_N, EXACT_ALPHA)
    for votes, hits in np.ndindex(*shape):
        counts = two_columns([votes, EXACT_N - votes], hits)
        label[votes, hits] = played(
            procedure(ENTROPY, 4), lambda draw, counts=counts: clean(core, 2) if draw.purpose == "core" else counts
        )[0].label
    worst = 0.0
    for p in LEVELS:
        for q in LEVELS:
            right, _ = truth(p, q, core)
            for mixing in (-1, 0, 1):
                mass = joint(cells(p, q, mixing), EXACT_N)
                error = float(mass[(label != ABSTAIN) & (label != right)].sum())
                assert error <= EXACT_ALPHA
                worst = max(worst, error)
    assert worst > EXACT_ALPHA / 5


@pytest.mark.parametrize(("make", "message"), [
    (lambda: AcesProcedure(theta=0.005), "theta of aces must be one of 0, 0.01, …, 1; got 0.005"),
    (lambda: AcesProcedure(n=5), "n of aces must be at least 12 to answer anything at alpha 0.001; got 5"),
    (lambda: AcesProcedure(alpha=0.0), "alpha of aces must be between 0 and 1"),
    (lambda: AcesProcedure(n0=0), "n0 of aces must be a positive whole number; got 0"),
    (lambda: AcesProcedure(n_predict=0), "look of aces must be a positive whole number; got 0"),
    (lambda: AcesPredict(n=11), "n of aces_predict must be at least 12 to answer anything at alpha 0.001; got 11"),
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(make, message):
    with pytest.raises(OptionError) as error:
        make()
    assert message in str(error.value)


def test_one_network_is_not_a_composition():
    from smoothcert.contracts import Source
    from smoothcert.noise.gaussian import Gaussian

    with pytest.raises(ModelError, match="the model must be a composition of several networks; got one network"):
        next(AcesProcedure()(Source(lambda x: x, Gaussian(0.5)), 4))
