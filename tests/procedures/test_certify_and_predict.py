"""The procedures on draws with known probabilities: error rates by exact computation, then by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from smoothcert.bounds import lower_bound, tie_p_value
from smoothcert.contracts import ABSTAIN, Source
from smoothcert.errors import OptionError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.sampling.fixed import Fixed
from smoothcert.testing import check_error_rate, check_procedure

SOURCE = Source(lambda x: x, Gaussian(0.5))


@pytest.mark.parametrize("p", [0.5, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("n", [50, 1000])
def test_error_of_a_radius_is_at_most_alpha_exactly(p, n):
    """P(lower bound > p) by summing the binomial over every count."""
    alpha = 0.05
    wrong = sum(binom.pmf(k, n, p) for k in range(n + 1) if lower_bound(k, n, alpha) > p)
    assert wrong <= alpha


@pytest.mark.parametrize("n", [11, 50, 400])
def test_error_of_predict_is_at_most_alpha_exactly_at_a_tie(n):
    alpha = 0.05
    assert sum(binom.pmf(k, n, 0.5) for k in range(n + 1) if tie_p_value(k, n - k) <= alpha) <= alpha


def test_certify_on_known_probabilities():
    procedure, p = Certify(20, Fixed(500, 0.05)), [0.62, 0.3, 0.08]
    true = 0.5 * ndtri(0.62)
    check_procedure(procedure, SOURCE, p, 4)
    certified = [c for c in check_error_rate(procedure, SOURCE, p, true, inputs=3000, dim=4) if not c.abstained]
    assert len(certified) > 2500
    assert all(c.alpha == 0.05 and c.norm == "l2" and c.guarantee == "smoothing" for c in certified)


def test_selection_draws_are_not_evidence(answer):
    """The guess and the test are separate requests with separate purposes."""
    steps = Certify(20, Fixed(500, 0.05))(SOURCE, 4)
    guess = next(steps)
    test = steps.send(np.array([[5, 15]]))
    assert (guess.purpose, guess.draws, test.purpose, test.draws) == ("guess", 20, "test", 500)
    with pytest.raises(StopIteration) as end:
        steps.send(np.array([[20, 480]]))
    evidence = end.value.value.evidence
    assert evidence.label == 1 and evidence.counts == ((20, 480),) and evidence.draws == 500
    assert evidence.low == lower_bound(480, 500, 0.05)


def test_a_class_below_one_half_is_an_abstention(answer):
    certificate = answer(Certify(20, Fixed(1000, 0.05))(SOURCE, 4), [0.4, 0.35, 0.25], np.random.default_rng(0))
    assert certificate.label == ABSTAIN and certificate.radius == 0.0 and certificate.guarantee == "none"


def test_predict_follows_the_test(answer):
    rng = np.random.default_rng(0)
    assert check_procedure(Predict(1000), SOURCE, [0.1, 0.9], 4).label == 1
    assert answer(Predict(1000)(SOURCE, 4), [0.1, 0.9], rng).label == 1
    ties = [answer(Predict(100, 0.05)(SOURCE, 4), [0.5, 0.5], rng).label for _ in range(2000)]
    assert sum(label != ABSTAIN for label in ties) <= binom.ppf(1 - 1e-6, 2000, 0.05)
    assert answer(Predict(11)(SOURCE, 4), [1.0], rng).label == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(n=9), "n of fixed must be at least 10 to certify anything at alpha 0.001; got 9"),
        (lambda: Fixed(n=0), "n of fixed must be a positive whole number; got 0"),
        (lambda: Fixed(n=2.5), "n of fixed must be a positive whole number; got 2.5"),
        (lambda: Fixed(alpha=0), "alpha of fixed must be between 0 and 1, both excluded; got 0"),
        (lambda: Fixed(alpha=float("nan")), "alpha of fixed must be between"),
        (lambda: Predict(n=10), "n of predict must be at least 11 to answer anything at alpha 0.001; got 10"),
        (lambda: Predict(alpha=1.0), "alpha of predict must be between 0 and 1"),
        (lambda: Certify(n0=0), "n0 of certify must be a positive whole number; got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_draw(make, message):
    with pytest.raises(OptionError) as error:
        make()
    assert message in str(error.value)
