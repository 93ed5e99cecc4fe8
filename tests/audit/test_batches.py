"""Scores that depend on nothing but their input pass; those that see their batch mates are named."""

from __future__ import annotations

import linear
import pytest
import torch

from smoothcert.audit.assumptions import check_batches
from smoothcert.classifiers import wrap
from smoothcert.contracts import Source
from smoothcert.noise.gaussian import Gaussian


def found(classifier):
    inputs = [(i, torch.rand(4, generator=torch.Generator().manual_seed(i))) for i in range(4)]
    return check_batches(Source(classifier, Gaussian(0.25)), inputs, 0)


def test_a_function_of_one_input_passes():
    check = found(wrap(lambda x: torch.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]], dim=1)))
    assert check.held and check.tried.endswith("equal to the last bit") and check.trials == 5 * 256 + 252 + 231 - 256


def test_rounding_is_told_and_allowed():
    check = found(wrap(lambda x: linear.score(x) * (1 + 1e-6 * len(x))))
    assert check.held and check.tried.endswith("equal up to rounding")


@pytest.mark.parametrize(
    ("name", "how"), [("batchwise", "with the other inputs"), ("batchwise", "in batches of 7"), ("moody", "twice")]
)
def test_batch_mates_and_moods_are_named(name, how):
    check = found(wrap(getattr(linear, name)))
    assert any(how in violation for violation in check.violations)


def test_large_images_are_mixed_as_well():
    """Above 2^16 coordinates a batch of the audit has 8 rows, fewer than are probed."""
    inputs = [(i, torch.rand(2**16 + 1, generator=torch.Generator().manual_seed(i))) for i in range(2)]
    assert check_batches(Source(wrap(lambda x: x[:, :2]), Gaussian(0.25)), inputs, 0).held


def test_a_frozen_batch_is_kept_to():
    class Frozen:
        rows = 8

        def __call__(self, x):
            assert len(x) == 8
            return linear.score(x)

    assert found(Frozen()).held
