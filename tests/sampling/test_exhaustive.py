"""Counting every case: labels, ties and radii from counts, and the same through the engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from smoothcert.contracts import ABSTAIN, EVERY, Job, Source, Stream
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.errors import DataError, OptionError
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


def test_it_says_how_many_evaluations_there_will_be():
    assert Exhaustive().check(NOISE, 4).startswith("all 255 cases of the noise are evaluated")
