"""What every file of `noise/` must do. A new noise is tested by being there; it only adds its line to EXAMPLES."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from smoothcert import catalog
from smoothcert.testing import check_noise, check_sampling

EXAMPLES = {
    "band": {"width": 2, "image": (2, 1024)},
    "block": {"side": 2, "image": (32, 48)},
    "discrete": {"keep": 0.02, "values": 256},
    "gaussian": {"sigma": 0.5},
    "gaussian_grid": {"sigma": 0.5, "grid": 256},
    "splitting": {"lam": 2.0, "grid": 1000, "pattern": 1},
    "uniform": {"lam": 0.5},
}
STEPS = {"band": 1.0, "block": 1.0, "discrete": 1.0, "splitting": 1 / 1000}  # where radii are multiples of something
SHAPES = {"band": (1, 2, 1024), "block": (3, 32, 48)}  # of inputs, where a noise asks for more than small ones
DIM = 48


def test_every_noise_has_an_example():
    assert sorted(EXAMPLES) == catalog.names("noise")


@pytest.fixture(params=sorted(EXAMPLES))
def noise(request):
    return catalog.build("noise", request.param, EXAMPLES[request.param])


def test_a_noise_keeps_its_contract(noise):
    name = type(noise).__module__.rsplit(".", 1)[-1]
    check_noise(noise, STEPS.get(name, 1e-9), SHAPES.get(name, (3, 4, 4)))


def test_a_noise_is_made_again_by_the_catalogue(noise):
    assert catalog.build("noise", type(noise).__module__.rsplit(".", 1)[-1], dataclasses.asdict(noise)) == noise


@pytest.mark.parametrize("scheme", sorted(set(catalog.names("sampling")) - {"exhaustive"}))
def test_every_scheme_certifies_with_it_and_no_more_than_is_true(noise, scheme, tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))
    lesser = torch.tensor(0.8, dtype=torch.float64)
    fields = {field.name for field in dataclasses.fields(catalog.find("sampling", scheme)[0])}
    options = {"n": 2000, "radii": (float(noise.radius(lesser, 1 - lesser, DIM)),)}
    sampling = catalog.build("sampling", scheme, {name: value for name, value in options.items() if name in fields})
    check_sampling(sampling, noise, DIM)
