"""Counting every case: labels, ties and radii from counts, and the same through the engine."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from smoothcert.contracts import ABSTAIN, EVERY, Job, Source, Stream
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.errors import DataError, OptionError
from smoothcert.noise.band import Band
from smoothcert.noise.block import Block
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.splitting import Splitting
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.smoothed import Smoothed

NOISE = Splitting(lam=0.5)  # 255 cases


def finished(procedure, counts, noise=NOISE, truth=None):
    """The certificate for these counts."""
    steps = procedure(Source(lambda x: x, noise), 4, truth)
    draw = next(steps)
    assert (draw.purpose, draw.draws) == (EVERY, noise.cases)
    with pytest.raises(StopIteration) as end:
        steps.send(np.array([counts], dtype=np.int64))
    return end.value.value


def test_radii_are_those_of_the_formula_for_all_counts_of_a_small_noise():
    """Every way to give 9 votes to three classes, ties included."""
    noise = Splitting(lam=9 / 510)
    for counts in itertools.product(range(10), repeat=3):
        if sum(counts) != 9:
            continue
        label = counts.index(max(counts))
        steps = min((counts[label] - counts[c] - (c < label)) // 2 for c in range(3) if c != label)
        certificate = finished(Certify(sampling=Exhaustive()), counts, noise)
        assert (certificate.label, certificate.radius) == (label, steps / 255)
        assert (certificate.guarantee, certificate.alpha, certificate.norm) == ("deterministic", 0.0, "l1")


def test_a_tie_goes_to_the_lower_class_with_radius_0():
    certificate = finished(Certify(sampling=Exhaustive()), [0, 127, 127, 1])
    assert (certificate.label, certificate.radius, certificate.abstained) == (1, 0.0, False)


def test_the_true_label_is_certified_only_where_it_wins():
    procedure = Certify(sampling=Exhaustive(), test_class="labels")
    assert finished(procedure, [55, 200], truth=1).label == 1
    assert finished(procedure, [55, 200], truth=0).label == ABSTAIN
    assert finished(procedure, [127, 127, 1], truth=1).label == ABSTAIN  # the tie is not its own
    assert finished(procedure, [255], truth=0).radius == 127 / 255


def test_nothing_is_guessed_where_everything_is_counted():
    procedure = Certify(n0=100, sampling=Exhaustive())
    assert procedure.test_class == "leader" and procedure.cap == Exhaustive().cap
    assert Certify(n0=100, sampling=Fixed()).test_class == "guess"


def brightness(x):
    """Two classes, by whether the mean of an image is above 0.45."""
    mean = x.flatten(1).mean(1)
    return torch.stack([0.45 - mean, mean - 0.45], dim=1)


@pytest.mark.parametrize("batch", [7, 64])
def test_the_engine_counts_every_case_once_in_any_batch(batch):
    noise = Splitting(lam=0.3, pattern=4)
    x = torch.randint(0, 256, (2, 5, 5), generator=torch.Generator().manual_seed(0)) / 255
    procedure, source = Certify(sampling=Exhaustive()), Source(brightness, noise)
    (outcome,) = Engine(Threads(batch), 3).run([Job(0, x, procedure(source, x.numel()))])
    out = torch.empty(noise.cases, *x.shape)
    noise.fill(out, x, Stream(0, 0, EVERY), 0)
    counts = torch.bincount(brightness(out).argmax(1), minlength=2)
    assert outcome.result.evidence.counts == (tuple(counts.tolist()),)
    assert [answer.purpose for answer in outcome.answers] == [EVERY]


def test_a_library_user_gets_the_same_certificate_whatever_the_seed():
    smoothed = Smoothed(brightness, NOISE)
    x = torch.full((1, 4, 4), 200 / 255)
    first, second = (smoothed.certify(x, sampling=Exhaustive(), seed=seed) for seed in (0, 1))
    assert first == second and first.guarantee == "deterministic" and first.label == 1 and first.radius > 0.1
    assert smoothed.predict(x) == 1
    estimate = smoothed.certify(x, n=20_000)
    assert estimate.guarantee == "smoothing" and 0 <= first.radius - estimate.radius < 0.05


def test_inputs_off_the_grid_are_refused_in_one_line():
    with pytest.raises(DataError, match="inputs of splitting must be multiples of 1/255"):
        Smoothed(brightness, NOISE).certify(torch.full((1, 4, 4), 0.5), sampling=Exhaustive())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exhaustive().check(Gaussian(0.5), 4), "which must be splitting, band or block; got gaussian"),
        (lambda: Exhaustive(cap=100).check(NOISE, 4), "cap of exhaustive must be at least 255, .*; got 100"),
        (lambda: Exhaustive(cap=0), "cap of exhaustive must be a positive whole number; got 0"),
        (
            lambda: Smoothed(brightness, Gaussian(0.5)).certify(torch.zeros(3), sampling=Exhaustive()),
            "must be splitting",
        ),
    ],
)
def test_noises_that_cannot_be_counted_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize("noise", [Splitting(lam=9 / 510), Band(2, image=(4, 9)), Block(1, image=(3, 3))], ids=str)
def test_known_radii_are_certified_where_the_largest_reaches_them(noise):
    """Every way to give 9 votes to three classes."""
    step = 1 / 255 if noise.norm == "l1" else 1.0
    asked = Exhaustive(radii=(step, 3 * step))
    for counts in itertools.product(range(10), repeat=3):
        if sum(counts) != 9:
            continue
        largest = finished(Certify(sampling=Exhaustive()), counts, noise)
        found = finished(Certify(sampling=asked), counts, noise)
        reached = [radius for radius in asked.radii if radius <= largest.radius]
        assert (found.label, found.radius) == ((largest.label, reached[-1]) if reached else (ABSTAIN, 0.0))
        assert found.evidence.question == asked.radii


def test_with_a_threshold_a_copy_votes_for_every_class_above_it_or_for_none():
    scheme = Exhaustive(threshold=0.4)
    scores = torch.tensor([[5.0, 0.0, 0.0], [1.0, 1.0, -9.0], [0.0, 0.0, 0.0]])
    assert scheme.readout(scores).tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert scheme.readout.outcomes(3) == 2 and scheme.votes([[1, 2], [2, 1], [3, 0]]) == (2, 1, 0)
    near = torch.tensor([[0.0, math.log(0.6 / 0.4)]])  # the first has just 0.4
    assert scheme.readout.close(near, 1e-6).tolist() == [[True, False]]
    assert not scheme.readout.close(scores, 1e-6).any()


def test_votes_above_a_threshold_are_counted_by_the_engine():
    x = torch.rand(2, 4, 6, generator=torch.Generator().manual_seed(0))
    noise, scheme = Band(3).fitted(x.shape), Exhaustive(threshold=0.5)
    source = Source(lambda copies: torch.cat([brightness(copies), brightness(copies)[:, :1] * 0 - 1], dim=1), noise)
    (outcome,) = Engine(Threads(4), 0).run([Job(0, x, Certify(sampling=scheme)(source, x.numel()))])
    out = torch.empty(noise.cases, *x.shape)
    noise.fill(out, x, Stream(0, 0, EVERY), 0)
    votes = (source.classifier(out).double().softmax(1) > 0.5).sum(0)
    assert outcome.result.evidence.counts == (tuple(votes.tolist()),)
    assert outcome.answers[0].counts == tuple((6 - n, n) for n in votes.tolist())


@pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan"), "much", True])
def test_what_is_no_threshold_is_refused(threshold):
    with pytest.raises(OptionError, match="threshold of exhaustive must be a number from 0 to below 1"):
        Exhaustive(threshold=threshold)


def test_it_says_how_many_evaluations_there_will_be():
    assert Exhaustive().check(NOISE, 4).startswith("all 255 cases of the noise are evaluated")
