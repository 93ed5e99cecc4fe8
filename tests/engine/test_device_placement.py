"""One whole batch on a `cuda` device, under fake tensors: everything is made there, and nothing waits for it.

Values cannot be seen so, and no speed: this shows places only. That it can fail is shown as well.
"""

from __future__ import annotations

import pytest
import questions
import torch
from placement import CUDA, moved, watched_cuda
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Job, Segment, Source, Stream, TopClass
from smoothcert.engine.batch_check import FixedShape
from smoothcert.engine.device_batch import NUMBER, OWNER, BatchPart, Tally, ask, make_noise, planned
from smoothcert.ensembles.spec import Ensemble
from smoothcert.noise import NoNoise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.readouts import ClassAndEntropy, SelectorUncertainty

ROWS, PLAIN = 32, TopClass()


def network(classes: int = 3) -> Module:
    """To be made inside."""
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, classes)
    return Module(moved(nn.Sequential(*layers).eval()))


def batch(guard, call, noises, readout=PLAIN) -> Tally:
    """Part of a batch, a few rows of each noise; for the second time, for what noises need of the host is kept."""
    xs = [torch.zeros(questions.SHAPE) for _ in noises]
    pieces = [
        BatchPart(
            owner,
            Segment(Source(call, noise, readout), Job(owner, xs[owner], iter(())), Stream(1, owner, "test"), 3, 5),
        )
        for owner, noise in enumerate(noises)
    ]
    plan = planned(pieces, ROWS)
    inputs = torch.empty(len(plan.keys), *questions.SHAPE, device=CUDA)
    numbers = torch.empty(plan.numbers.shape, dtype=torch.int64, device=CUDA)
    buffer = torch.empty(ROWS, *questions.SHAPE, device=CUDA)
    make_noise(buffer, plan.groups, inputs, numbers, None)
    with guard:
        tally = Tally(len(pieces), CUDA)
        make_noise(buffer, plan.groups, inputs, numbers, None)
        scores = ask(call, buffer)
        tally.add(readout, scores, numbers.select(0, OWNER).narrow(0, 0, plan.rows))
    assert scores.device == torch.device(CUDA) and scores.dtype == torch.float32
    return tally


def stays_there(tally: Tally, guard, segments: int, columns: int, outcomes: int) -> None:
    assert tally.counts is not None and tuple(tally.counts.shape) == (segments, columns, outcomes)
    assert tally.counts.device == tally.no_number.device == torch.device(CUDA)
    assert guard.made == {"cuda"}


@pytest.mark.parametrize("name", [*questions.NOISES, "none"])
def test_every_noise(name):
    noise = NoNoise(Gaussian(0.25)) if name == "none" else questions.NOISES[name]
    with watched_cuda() as guard:
        stays_there(batch(guard, network(), [noise]), guard, 1, 1, 3)


def test_several_noises_in_one_batch():
    with watched_cuda() as guard:
        noises = list(questions.NOISES.values())
        stays_there(batch(guard, network(), noises), guard, len(noises), 1, 3)


def test_readouts_of_aces():
    with watched_cuda() as guard:
        stays_there(batch(guard, network(), [Gaussian(0.25)], ClassAndEntropy()), guard, 1, 2, 100)
    with watched_cuda() as guard:
        stays_there(batch(guard, network(2), [Gaussian(0.25)], SelectorUncertainty()), guard, 1, 1, 100)


@pytest.mark.parametrize("vote", ["soft", "softmax", "hard", "max_margin", "weighted"])
def test_votes(vote):
    with watched_cuda() as guard:
        weights = [0.5, 0.3, 0.2] if vote == "weighted" else None
        whole = Ensemble([network(), network(), network()], vote=vote, weights=weights)
        stays_there(batch(guard, whole, [Gaussian(0.25)]), guard, 1, 1, 3)


@pytest.mark.parametrize("options", [{"consensus": 2}, {"early_exit": True}])
def test_cascades_have_to_wait_which_is_found_out(options):
    with watched_cuda() as guard:
        whole = Ensemble([network(), network(), network()], **options)
        with pytest.raises(DynamicOutputShapeException, match="nonzero"):  # rows that are left
            batch(guard, whole, [Gaussian(0.25)])


def test_denoisers_fixed_shapes_and_adapted_networks():
    with watched_cuda() as guard:
        behind = DenoisedClassifier(Module(moved(nn.Conv2d(1, 1, 3, padding=1).eval())), network())
        stays_there(batch(guard, FixedShape(behind, ROWS), [Gaussian(0.25)]), guard, 1, 1, 3)
    with watched_cuda() as guard:
        one = Module(moved(nn.Sequential(nn.Flatten(), nn.Linear(9, 1)).eval()))
        stays_there(batch(guard, adapted(one, Adaptation(binary="logit")), [Gaussian(0.25)]), guard, 1, 1, 2)


class Numpy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy())


class Item(nn.Module):
    def forward(self, x):
        return x.flatten(1) * x.sum().item()


class Mixing(nn.Module):
    def forward(self, x):
        return x.flatten(1) + torch.zeros(9)


class Fetching(nn.Module):
    def forward(self, x):
        return x.cpu().flatten(1).to(CUDA)


class Truth(nn.Module):
    def forward(self, x):
        return x.flatten(1) if x.isnan().any() else -x.flatten(1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (Numpy, RuntimeError),
        (Item, DataDependentOutputException),
        (Truth, DataDependentOutputException),
        (Mixing, RuntimeError),
        (Fetching, RuntimeError),
    ],
)
def test_what_waits_for_the_device_or_mixes_places_is_an_error(wrong, error):
    with watched_cuda() as guard, pytest.raises(error):
        batch(guard, Module(wrong().eval(), CUDA), [Gaussian(0.25)])


def test_a_noise_without_a_way_of_its_own_on_a_device_is_found_out():
    class Plain(Gaussian):
        fill_rows = NoNoise.__mro__[1].fill_rows  # of the contract: by the CPU

    with watched_cuda() as guard, pytest.raises(DataDependentOutputException):
        batch(guard, network(), [Plain(0.25)])


def test_draw_numbers_are_whole_even_beyond_32_bits():
    part = Segment(
        Source(None, Gaussian(1.0)), Job(0, torch.zeros(1), iter(())), Stream(0, 2**64 - 1, "test"), 2**40, 3
    )
    plan = planned([BatchPart(0, part)], 4)
    assert plan.numbers[NUMBER].tolist()[:3] == [2**40, 2**40 + 1, 2**40 + 2] and plan.numbers[1, 0] == -1
