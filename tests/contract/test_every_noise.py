"""What every file of `noise/` must do. A new noise is tested by being there; it only adds its line to EXAMPLES."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from smoothcert import catalog
from smoothcert.contracts import Source, Stream
from smoothcert.procedures.certify import Certify
from smoothcert.smoothed import Smoothed

EXAMPLES = {
    "discrete": {"keep": 0.02, "values": 256},
    "gaussian": {"sigma": 0.5},
    "gaussian_grid": {"sigma": 0.5, "grid": 256},
    "splitting": {"lam": 2.0, "grid": 1000, "pattern": 1},
    "uniform": {"lam": 0.5},
}
STEPS = {"discrete": 1.0, "splitting": 1 / 1000}  # where radii are multiples of something
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


def test_a_noise_says_what_it_is(noise):
    assert (noise.words == f"{noise.kind}, {noise.level}" and noise.kind.endswith("noise")) or noise.grid
    assert noise.exact == (noise.from_table or noise.grid is not None)


def test_draws_have_the_moments_that_the_noise_tells(noise):
    rows, x = 4000, torch.full((3, 4, 4), 0.5)
    known, drawn = noise.moments(x), filled(noise, rows).flatten(1).double().numpy()
    if known.single:
        drawn = drawn.mean(axis=1, keepdims=True)
    off = (drawn - known.centre) / known.spread
    # Means over all coordinates: six standard deviations of each, the fourth moment's own taken for at most 100.
    numbers = off.size
    assert abs(off.mean()) < 6 / numbers**0.5
    assert abs((off**2).mean() - 1) < 6 * ((known.fourth.max() - 1) / numbers) ** 0.5
    assert (off**4).mean() == pytest.approx(known.fourth.mean(), abs=6 * 10 / numbers**0.5)


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
    last, step = 0.0, STEPS.get(type(noise).__module__.rsplit(".", 1)[-1], 1e-9)
    for p in (0.55, 0.7, 0.9, 0.99):
        top = torch.tensor(p, dtype=torch.float64)
        radius = float(noise.radius(top, 1 - top, DIM))
        assert radius > last
        assert noise.p_needed(radius - step / 2, DIM) <= p <= noise.p_needed(radius + step, DIM)
        last = radius
    assert noise.p_needed(0.0, DIM) == pytest.approx(0.5)


@pytest.mark.parametrize("scheme", sorted(set(catalog.names("sampling")) - {"exhaustive"}))
def test_every_scheme_certifies_with_it_and_no_more_than_is_true(noise, scheme, answer, tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))
    p, lesser = torch.tensor(0.97, dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    fields = {field.name for field in dataclasses.fields(catalog.find("sampling", scheme)[0])}
    options = {"n": 2000, "radii": (float(noise.radius(lesser, 1 - lesser, DIM)),)}
    sampling = catalog.build("sampling", scheme, {name: value for name, value in options.items() if name in fields})
    assert sampling.check(noise, DIM)
    steps = Certify(50, sampling)(Source(lambda x: x, noise), DIM)
    certificate = answer(steps, [float(p), 1 - float(p)], np.random.default_rng(0))
    assert (certificate.label, certificate.norm, certificate.guarantee) == (0, noise.norm, "smoothing")
    assert 0 < certificate.radius <= float(noise.radius(p, 1 - p, DIM))


def test_certify_and_predict_work_with_it(noise):
    def bright(x):
        mean = x.flatten(1).mean(1)
        return torch.stack([0.4 - mean, mean - 0.4], dim=1)

    smoothed, x = Smoothed(bright, noise), torch.full((3, 4, 4), 0.5)
    certificate = smoothed.certify(x, n=2000)
    assert certificate.label == smoothed.predict(x) == 1 and certificate.radius > 0
    assert certificate == smoothed.certify(x, n=2000, batch=7)
