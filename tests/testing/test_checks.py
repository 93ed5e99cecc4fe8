"""The checks that are shipped find what is broken, in one sentence; the fake classifiers are as sure as they say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from smoothcert.contracts import Draw, Source, Stream
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.smoothed import Smoothed
from smoothcert.testing import (
    BandClassifier,
    LinearClassifier,
    answer,
    check_error_rate,
    check_noise,
    check_part,
    check_procedure,
    check_sampling,
)

SOURCE = Source(lambda x: x, Gaussian(0.5))


def broken(**changes):
    """Gaussian noise with some of it replaced."""
    return type("Changed", (Gaussian,), {"__doc__": "Broken noise.", **changes})(0.5)


def forgets_the_number(self, out, x, stream, first):
    Gaussian.fill(self, out, x, stream, 0)


def forgets_the_purpose(self, out, x, stream, first):
    Gaussian.fill(self, out, x, Stream(stream.seed, stream.input, ""), first)


def too_wide(self, out, x, stream, first):
    Gaussian(0.6).fill(out, x, stream, first)


def leaves_out_the_first(self, out, x, stream, first):
    Gaussian.fill(self, out, x, stream, first)
    out[..., 0] = float("nan")


def forgets_whose_row_it_is(self, out, x, rows):
    Gaussian.fill_rows(self, out, x, rows._replace(inputs=rows.inputs * 0))


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"fill": forgets_the_number}, "draws of .* must not depend on batching; batches of 1 do"),
    ({"fill": forgets_the_purpose}, "draws of .* must differ where the purpose of the stream does"),
    ({"fill": leaves_out_the_first, "moments": lambda self, x: None}, "must write every number"),
    ({"fill": too_wide}, "must have the standard deviation that its moments tell"),
    ({"fill_rows": forgets_whose_row_it_is}, "fill_rows of .* must write the draws of fill, row by row"),
    ({"radius": lambda self, p, q, dim: 0 * p}, "radius of .* must rise with p; 0 at 0.55 after 0"),
    ({"p_needed": lambda self, radius, dim: 0.5}, "p_needed of .* must undo radius"),
    ({"norm": "l3"}, "norm of Changed must be one of l0, l1, l2, linf, patch; got 'l3'"),
    ({"kind": "hiss"}, "words of a noise must be its kind and its level"),
])  # fmt: skip
def test_a_broken_noise_is_told_in_a_sentence(changes, sentence):
    with pytest.raises(AssertionError, match=sentence) as told:
        check_noise(broken(**changes))
    assert "\n" not in str(told.value)


def test_a_part_must_be_frozen_and_described():
    with pytest.raises(AssertionError, match="Loose must be a frozen dataclass"):
        check_part(dataclass(type("Loose", (), {"__doc__": "Words."})))
    with pytest.raises(AssertionError, match="Silent must have a docstring"):
        check_part(dataclass(frozen=True)(type("Silent", (), {})))


def test_a_scheme_that_claims_too_much_is_found():
    class Bold(Fixed):
        """Takes the share of votes for its bound."""

        def test(self, source, label, dim):
            evidence = yield from super().test(source, label, dim)
            share = evidence.counts[0][label] / evidence.draws
            return dataclasses.replace(evidence, low=share + 0.01, next_high=0.99 - share)

    check_sampling(Fixed(2000), SOURCE.noise)
    with pytest.raises(AssertionError, match="radius of Bold must be positive and at most the true"):
        check_sampling(Bold(2000), SOURCE.noise)
    true = 0.5 * float(ndtri(0.7))
    check_error_rate(Certify(20, Fixed(500, 0.05)), SOURCE, [0.7, 0.3], true, inputs=300)
    with pytest.raises(AssertionError, match=r"Certify must be wrong at most 0.05 of the time; got .* of 300"):
        check_error_rate(Certify(20, Bold(500, 0.05)), SOURCE, [0.7, 0.3], true, inputs=300)


def test_a_procedure_that_breaks_its_word_is_found():
    class Greedy(Certify):
        """Draws once more than its cap allows."""

        def __call__(self, source, dim, truth=None):
            yield Draw(source, 1, "again")
            return (yield from super().__call__(source, dim, truth))

    class Moody(Certify):
        """Answers by its mood."""

        def __call__(self, source, dim, truth=None):
            found = yield from super().__call__(source, dim, truth)
            return dataclasses.replace(found, radius=found.radius * np.random.default_rng().random())

    for procedure, sentence in (
        (Greedy(20, Fixed(500)), "Greedy must take at most 520 draws, its cap; it took 521"),
        (Moody(20, Fixed(500)), "Moody must give the same certificate for the same answers"),
    ):
        with pytest.raises(AssertionError, match=sentence):
            check_procedure(procedure, SOURCE, [0.9, 0.1])


def test_bands_have_their_probabilities():
    shares = (0.6, 0.1, 0.3)
    noisy = torch.empty(20_000, 2)
    SOURCE.noise.fill(noisy, torch.tensor([0.5, 0.1]), Stream(0, 0, "test"), 0)
    counts = BandClassifier(shares, 0.5)(noisy).sum(0)
    assert counts.tolist() == pytest.approx([20_000 * p for p in shares], abs=5 * 0.5 * 20_000**0.5)
    found = Smoothed(BandClassifier((0.9, 0.1), 0.5), SOURCE.noise).certify(torch.tensor([0.5, 0.1]), n=5000)
    assert found.label == 0 and 0.9 * 0.5 * ndtri(0.9) < found.radius < 0.5 * ndtri(0.9)


def test_the_linear_classifier_knows_its_distances():
    line, x = LinearClassifier((3.0, -4.0), 0.5), torch.tensor([[0.5, 0.25], [0.0, 0.5]])
    assert line(x).argmax(1).tolist() == [1, 0]
    for norm, dual in (("l1", 4), ("l2", 5), ("linf", 7)):
        assert line.margin(x, norm).tolist() == pytest.approx([1 / dual, -1.5 / dual])


def test_answers_may_be_a_function_of_the_draw():
    certificate = answer(Certify(20, Fixed(500, 0.05))(SOURCE, 4), lambda draw: [[0, draw.draws]])
    assert certificate.label == 1 and certificate.evidence.counts == ((0, 500),)
