"""Routing on given counts: which branch is asked, which radius binds, and an error that is at most alpha, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compositions import clean, played, source
from scipy.special import ndtri
from scipy.stats import binom

from smoothcert.bounds import lower_bound
from smoothcert.contracts import ABSTAIN
from smoothcert.errors import ModelError, OptionError
from smoothcert.noise.uniform import Uniform
from smoothcert.procedures.route import RoutePredict, RouteProcedure
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending
from smoothcert.testing import check_procedure

N0, N, ALPHA = 10, 200, 0.02
SIGMAS = {"branch 0": 0.25, "branch 1": 1.0, "select": 0.5}
BOTH = source("branch 0", "branch 1", "select", sigmas=SIGMAS)
CORE = source("branch 0", "branch 1", "select", sigmas={**SIGMAS, "branch 1": None})


def routed(selector, branch, where=BOTH, sampling=None):
    """The selector's votes (guess, test) and those of whichever branch is asked."""
    turns = iter([*selector, *branch])
    procedure = RouteProcedure(N0, sampling or Fixed(N, ALPHA))
    found, asked = played(procedure(where, 4), lambda draw: [next(turns)])
    turns = iter([*selector, *branch])
    assert check_procedure(procedure, where, lambda draw: [next(turns)], 4) == found
    return found, asked


def radius(hits, sigma):
    return sigma * ndtri(lower_bound(hits, N, ALPHA / 2))


def test_the_selected_branch_answers_within_the_smaller_ball():
    guess, sure = (10, 0), (10, 190)
    selection_binds, _ = routed(((0, 10), (40, 160)), (guess, (195, 5)))
    assert selection_binds.label == 0 and selection_binds.radius == pytest.approx(radius(160, 0.5), abs=1e-12)
    branch_binds, asked = routed(((10, 0), (199, 1)), ((0, 10), sure))
    assert branch_binds.label == 1 and branch_binds.radius == pytest.approx(radius(190, 0.25), abs=1e-12)
    assert branch_binds.evidence == branch_binds.parts[1].evidence and branch_binds.alpha == ALPHA
    assert [part.alpha for part in branch_binds.parts] == [ALPHA / 2, ALPHA / 2]
    assert asked == [("guess", 10), ("test", 200)] * 2
    # Branch 1 has four times the noise of branch 0: the same votes are worth four times the radius.
    wide, _ = routed(((0, 10), (0, 200)), ((0, 10), (95, 105)))
    assert wide.abstained
    wide, _ = routed(((0, 10), (0, 200)), ((0, 10), (60, 140)))
    assert wide.radius == pytest.approx(radius(140, 1.0), abs=1e-12) == wide.parts[1].radius


def test_an_uncertain_selector_abstains_and_asks_no_branch():
    certificate, asked = routed(((10, 0), (108, 92)), ())
    assert certificate.abstained and certificate.alpha == ALPHA and len(certificate.parts) == 1
    assert asked == [("guess", 10), ("test", 200)]


def test_a_core_branch_answers_without_a_radius():
    certificate, asked = routed(((0, 10), (1, 199)), (clean(2)[0],), where=CORE)
    assert (certificate.label, certificate.radius, certificate.guarantee) == (2, 0.0, "none")
    assert asked[-1] == ("core", 1)


def test_other_samplings_serve_selector_and_branch():
    """A radius known in advance: both are tested for it at alpha/2, with as few draws as each of them needs."""
    certificate, asked = played(RouteProcedure(N0, Spending((0.2,), ALPHA))(BOTH, 4), lambda draw: [(draw.draws, 0)])
    assert certificate.label == 0 and certificate.radius == 0.2
    assert sum(draws for purpose, draws in asked if purpose == "test") < 400
    assert all(part.alpha == ALPHA / 2 for part in certificate.parts)
    assert RouteProcedure(N0, Exhaustive()).sampling.alpha == 0.0


def test_predict_tests_both_at_half_alpha():
    def predicted(selector, branch, where=BOTH):
        turns = iter([selector, branch])
        return played(RoutePredict(100, ALPHA)(where, 4), lambda draw: [next(turns)])[0].label

    assert predicted((10, 90), (90, 10)) == 0
    assert predicted((45, 55), (90, 10)) == ABSTAIN
    assert predicted((10, 90), (45, 55)) == ABSTAIN
    assert predicted((10, 90), clean(2)[0], CORE) == 2


def test_a_class_without_a_branch_and_other_norms_are_refused():
    with pytest.raises(ModelError, match="as many classes as there are branches; got class 2"):
        routed(((0, 0, 10), (0, 0, 200)), ())
    noises = (*BOTH.classifier.noises[:1], Uniform(lam=0.5), BOTH.classifier.noises[2])
    mixed = replace(BOTH, classifier=replace(BOTH.classifier, noises=noises))
    with pytest.raises(ModelError, match="noises of a composition must be of one norm; got l1 and l2"):
        next(RouteProcedure()(mixed, 4))
    with pytest.raises(OptionError, match="n of fixed must be at least"):
        RouteProcedure(sampling=Fixed(10, 0.001))  # enough for alpha, not for alpha/2


SMALL, LEVEL = 30, 0.1


def answers_for(chosen, hits, guess, votes):
    """Everything that the procedure can be told by a selector of two classes and a branch of two classes."""
    turns = iter([
        np.eye(2, dtype=int)[chosen] * 3, (SMALL - hits, hits), np.eye(2, dtype=int)[guess] * 3, (votes, SMALL - votes),
    ])  # fmt: skip
    return played(RouteProcedure(3, Fixed(SMALL, LEVEL))(BOTH, 4), lambda draw: [next(turns)])[0]


def majority(p):
    """P(at least two of three)."""
    return float(binom.sf(1, 3, p))


def test_the_error_is_at_most_alpha_exactly():
    """P(branch 1 selected) = q; P(class 0) is p in branch 0 and r in branch 1. Summed over all guesses and counts."""
    shape = (2, SMALL + 1, 2, SMALL + 1)
    label, reach = np.empty(shape, dtype=int), np.empty(shape)
    for place in np.ndindex(*shape):
        certificate = answers_for(*place)
        label[place], reach[place] = certificate.label, certificate.radius
    counts, worst = np.arange(SMALL + 1), 0.0
    for q in (0.1, 0.45, 0.5, 0.55, 0.8, 0.95):
        chosen = np.array([1 - majority(q), majority(q)])[:, None] * binom.pmf(counts, SMALL, q)
        for p in (0.05, 0.5, 0.6, 0.9):
            for r in (0.3, 0.5, 0.7, 1.0):
                branch = [
                    np.array([majority(x), 1 - majority(x)])[:, None] * binom.pmf(counts, SMALL, x) for x in (p, r)
                ]
                mass = np.stack([chosen[s][:, None, None] * branch[s] for s in (0, 1)])
                right, true = _truth(p, q, r)
                error = float(mass[(label != ABSTAIN) & ((label != right) | (reach > true))].sum())
                assert mass.sum() == pytest.approx(1.0) and error <= LEVEL
                worst = max(worst, error)
    assert worst > LEVEL / 5


def _truth(p, q, r):
    def branch(share, sigma):
        return (None if share == 0.5 else int(share < 0.5)), sigma * ndtri(max(share, 1 - share))

    if q == 0.5:
        answers = {branch(p, 0.25)[0], branch(r, 1.0)[0]}
        return (answers.pop() if len(answers) == 1 else None), 0.0
    label, radius = branch(p, 0.25) if q < 0.5 else branch(r, 1.0)
    return label, min(radius, 0.5 * ndtri(max(q, 1 - q)))
