"""What every file of `noise/` must do. A new noise is tested by being there; it only adds its line to EXAMPLES."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from certus import catalog
from certus.contracts import Stream

EXAMPLES = {"gaussian": {"sigma": 0.5}}
DIM = 48


def test_every_noise_has_an_example():
    assert sorted(EXAMPLES) == catalog.names("noise")


@pytest.fixture(params=sorted(EXAMPLES))
def noise(request):
    return catalog.build("noise", request.param, EXAMPLES[request.param])


def filled(noise, rows, first=0, stream=Stream(1, 2, "test"), shape=(3, 4, 4)):  # noqa: B008
    out = torch.full((rows, *shape), float("nan"))
    noise.fill(out, torch.full(shape, 0.5), stream, first)
    return out


def test_a_noise_is_a_frozen_dataclass_of_plain_options(noise):
    assert noise.__dataclass_params__.frozen
    assert catalog.build("noise", type(noise).__module__.rsplit(".", 1)[-1], dataclasses.asdict(noise)) == noise
    assert noise.norm in ("l0", "l1", "l2", "linf")


def test_draws_do_not_depend_on_batching(noise):
    whole = filled(noise, 100)
    assert bool(torch.isfinite(whole).all())
    for size in (1, 7, 64):
        assert torch.equal(torch.cat([filled(noise, min(size, 100 - at), at) for at in range(0, 100, size)]), whole)


def test_draws_differ_between_draws_inputs_purposes_and_seeds(noise):
    base = filled(noise, 8)
    assert len({tuple(row.ravel().tolist()) for row in base}) == 8
    for stream in (Stream(2, 2, "test"), Stream(1, 3, "test"), Stream(1, 2, "guess")):
        assert not bool((filled(noise, 8, stream=stream) == base).flatten(1).all(1).any())


def test_radius_and_need_are_inverse_monotone_and_zero_at_one_half(noise):
    half = torch.tensor(0.5, dtype=torch.float64)
    assert float(noise.radius(half, half, DIM)) == pytest.approx(0.0, abs=1e-12)
    last = 0.0
    for p in (0.55, 0.7, 0.9, 0.99):
        top = torch.tensor(p, dtype=torch.float64)
        radius = float(noise.radius(top, 1 - top, DIM))
        assert radius > last
        assert noise.need(radius, DIM) == pytest.approx(p, abs=1e-9)
        last = radius
    assert noise.need(0.0, DIM) == pytest.approx(0.5)
