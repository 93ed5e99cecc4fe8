"""Noise made by rows on a device is the CPU's: bit for bit where it is exact, to rounding elsewhere."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import torch
from fake_cuda import fake_cuda

from smoothcert import catalog
from smoothcert.contracts import EVERY, PROBE, Noise, Stream, StreamRows
from smoothcert.noise import NoNoise, gaussian_grid
from smoothcert.noise.band import Band
from smoothcert.noise.block import Block
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.philox import Compiled, signed
from smoothcert.streams import words

NOISES = [
    Gaussian(0.25), Gaussian(1e-3), Gaussian(12.0), Uniform(sigma=0.25), Uniform(lam=30.0),
    GaussianGrid(0.25), GaussianGrid(1e-3), GaussianGrid(0.3, 2047), GaussianGrid(0.01, 1),
    Discrete(keep=0.8), Discrete(keep=0.6, values=2), Discrete(keep=0.001, values=65536), Discrete(keep=0.3, values=77),
    Splitting(lam=0.5), Splitting(lam=2.0, pattern=3), Splitting(sigma=0.01, pattern=2**64 - 1),
    Splitting(lam=2**20, grid=1), NoNoise(Gaussian(0.25)),
    Band(2), Band(1, of="rows"), Block(2),
]  # fmt: skip
SHAPES = [(1,), (3, 7), (1, 28, 28), (3, 32, 32)]
KEYS = (3, 2**63 + 5, 2**64 - 1)
NUMBERS = (0, 1, 2, 2**31, 2**32, 2**33 + 11)


def inputs(noise, shape):
    """One for each key, on the noise's grid; 8-bit values where it has none."""
    steps = noise.grid or 255
    made = torch.Generator().manual_seed(0)
    return torch.randint(0, steps + 1, (len(KEYS), *shape), generator=made) / steps


def by_rows(noise, xs, seed=2**64 - 3, purpose="test", run=None):
    """Filled by rows and as on the CPU: draws of several inputs, mixed."""
    which = torch.tensor([0, 1, 2, 2, 1, 0] * 2)
    numbers = torch.tensor(NUMBERS + NUMBERS[::-1])
    made, wanted = torch.full((2, len(which), *xs.shape[1:]), math.nan)
    names = torch.tensor([signed(key) for key in KEYS])[which]
    rows = StreamRows(seed, purpose, names, numbers)
    noise.fill_rows(made, xs[which], rows._replace(run=run) if run else rows)
    for row, (one, number) in enumerate(zip(which.tolist(), numbers.tolist(), strict=True)):
        noise.fill(wanted[row : row + 1], xs[one], Stream(seed, KEYS[one], purpose), number)
    return made, wanted


def hold(noise, made, wanted):
    if isinstance(noise, Gaussian):
        # The angle and the logarithm's argument are equal. Logarithm, sine and cosine are good to 4 units in the last
        # place in either library, roots and products to half a unit: 10 units of the largest normal number, 6.7·σ.
        # The sum with x is rounded once more on either side.
        largest = 6.7 * noise.sigma
        assert (made - wanted).abs().max() <= (10 * largest + 1 + largest) * 2.0**-23
    else:
        assert torch.equal(made, wanted)


def test_every_noise_of_the_catalogue_is_here():
    here = {type(noise).__module__.rsplit(".", 1)[-1] for noise in NOISES}
    assert set(catalog.names("noise")) <= here


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_rows_are_the_draws_of_the_cpu(noise, shape):
    if noise.patch is not None and len(shape) < 2:
        return  # no image
    hold(noise, *by_rows(noise, inputs(noise, shape)))


@pytest.mark.parametrize("noise", [Gaussian(0.25), GaussianGrid(0.25), Splitting(lam=0.5), Band(2), Block(3)], ids=str)
@pytest.mark.parametrize("purpose", [EVERY, PROBE])
def test_purposes_are_those_of_the_cpu(noise, purpose):
    for one in (noise, NoNoise(noise)):
        made, wanted = by_rows(one, inputs(one, (3, 5)), purpose=purpose)
        hold(noise, made, wanted)


@pytest.mark.parametrize(
    "noise", [Splitting(lam=0.5, pattern=1), Band(2, image=(3, 5)), Block(3, image=(3, 5))], ids=str
)
def test_every_case_is_had_once(noise):
    x = inputs(noise, (3, 5))[:1]
    made, wanted = torch.empty(2, noise.cases, 3, 5)
    rows = StreamRows(0, EVERY, torch.zeros(noise.cases, dtype=torch.int64), torch.arange(noise.cases))
    noise.fill_rows(made, x.expand(made.shape), rows)
    noise.fill(wanted, x[0], Stream(0, 0, EVERY), 0)
    assert torch.equal(made, wanted)


@pytest.mark.parametrize(("values", "keep"), [(65536, 0.5), (65535, 0.001), (2, 0.51), (3, 0.4)])
def test_discrete_levels_are_rounded_alike(values, keep):
    x = torch.cat([torch.arange(values) / (values - 1), torch.rand(5000)])
    hold(None, *by_rows(Discrete(keep=keep, values=values), x.expand(3, -1)))


@pytest.mark.parametrize("sigma", [0.25, 11.7])
def test_the_grid_is_exact_down_to_the_lower_half_of_64_bits(sigma):
    noise, rows = GaussianGrid(sigma), 128
    x = inputs(noise, (3, 32, 32))[0]
    made, wanted = torch.empty(2, rows, 3, 32, 32)
    names = torch.full((rows,), 7)
    noise.fill_rows(made, x.expand(made.shape), StreamRows(0, "test", names, torch.arange(rows)))
    noise.fill(wanted, x, Stream(0, 7, "test"), 0)
    assert torch.equal(made, wanted)
    high = gaussian_grid._sampler(sigma, 255).high
    undecided = np.isin(words(Stream(0, 7, "test"), 0, rows, 3072), high).sum()
    assert undecided > 0 or sigma < 1  # at 11.7 some draws need their lower half


def test_where_there_is_no_room_for_unsure_numbers_nothing_is_a_number(monkeypatch):
    noise, x = GaussianGrid(0.25), torch.zeros(8, 3072)
    rows = StreamRows(0, "test", torch.zeros(8, dtype=torch.int64), torch.arange(8))
    leading = words(Stream(0, 0, "test"), 0, 8, 3072) >> np.uint32(32 - gaussian_grid.BITS)
    unsure = int((gaussian_grid._sampler(0.25, 255).guide[leading] == gaussian_grid.UNSURE).sum())
    made, wanted = torch.empty(2, 8, 3072)
    noise.fill(wanted, x[0], Stream(0, 0, "test"), 0)
    for room in (2, unsure // 2, unsure, unsure + 1, 3 * unsure):
        monkeypatch.setattr(gaussian_grid, "_room", lambda *_, room=room: room)
        noise.fill_rows(made, x, rows)
        assert torch.equal(made, wanted) if room > unsure else made.isnan().all()


@pytest.mark.parametrize("grid", [1, 3, 255, 256, 1000, 4095])
def test_products_in_double_are_quotients_in_single(grid):
    whole = np.arange(-30000, 34096)
    assert np.array_equal((whole * (1 / grid)).astype(np.float32), whole.astype(np.float32) / np.float32(grid))


@pytest.mark.parametrize("noise", [Gaussian(0.25), GaussianGrid(0.25), Discrete(keep=0.8), Block(3)], ids=str)
def test_buffers_may_have_any_layout(noise):
    xs = inputs(noise, (3, 8, 8))
    rows = StreamRows(0, "test", torch.arange(3), torch.arange(3))
    plain, other = torch.empty(3, 3, 8, 8), torch.empty(3, 3, 8, 8).to(memory_format=torch.channels_last)
    noise.fill_rows(plain, xs, rows)
    noise.fill_rows(other, xs.to(memory_format=torch.channels_last), rows)
    assert torch.equal(plain, other)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_noise_without_rows_of_its_own_has_those_of_the_cpu(noise):
    xs = inputs(noise, (3, 5))
    x = xs[[0, 0, 0, 1, 1, 0]]
    keys = torch.tensor([5, 5, 5, signed(2**64 - 1), signed(2**64 - 1), 5])
    rows = StreamRows(1, "test", keys, torch.tensor([4, 5, 9, 2, 3, 6]))
    made, wanted = torch.empty(2, *x.shape)
    Noise.fill_rows(noise, made, x, rows)
    noise.fill_rows(wanted, x, rows)
    hold(noise.instead if isinstance(noise, NoNoise) else noise, made, wanted)


def on_fake_cuda(noise, purpose="test"):
    with fake_cuda() as device:
        x, names = torch.empty(5, 3, 7, 3, device=device), torch.zeros(5, dtype=torch.int64, device=device)
        out = torch.empty_like(x)
        noise.fill_rows(out, x, StreamRows(2**64 - 1, purpose, names, names))
        return out.device.type


@pytest.mark.parametrize("purpose", ["test", EVERY, PROBE])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_noise_is_made_on_the_device_and_nobody_waits(noise, purpose):
    assert on_fake_cuda(noise, purpose) == "cuda"


def reads(out, x, rows):
    out.copy_(x + rows.numbers.tolist()[0])


def mixes(out, x, rows):
    out.copy_(x + torch.ones(5, 3, 7, 3))


def carries(out, x, rows):
    out.copy_(x.cpu().to(out.device))


@pytest.mark.parametrize("fill_rows", [reads, mixes, carries, lambda *a: Noise.fill_rows(Gaussian(0.25), *a)])
def test_a_noise_that_waits_or_mixes_devices_is_found(fill_rows):
    class Bad(Gaussian):
        def fill_rows(self, out, x, rows):
            fill_rows(out, x, rows)

    with pytest.raises((RuntimeError, NotImplementedError)):
        on_fake_cuda(Bad(0.25))


@pytest.mark.parametrize("noise", [Gaussian(0.25), GaussianGrid(0.25), Uniform(lam=1.0), Discrete(keep=0.8)], ids=str)
def test_one_graph_serves_all_seeds_purposes_and_levels(noise):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()  # graphs of other tests
    run = Compiled("aot_eager")
    xs = inputs(noise, (3, 5))
    with torch.inference_mode():  # as an engine has drawn before
        by_rows(noise, xs)
    hold(noise, *by_rows(noise, xs, run=run))
    graphs = counters["stats"]["unique_graphs"]
    near = {"keep": 0.7} if isinstance(noise, Discrete) else {"lam" if isinstance(noise, Uniform) else "sigma": 0.26}
    for other in (noise, type(noise)(**near)):
        hold(other, *by_rows(other, xs, seed=5, purpose="guess", run=run))
    assert counters["stats"]["unique_graphs"] == graphs
    assert not run.notes


COMPILED = [  # some ten seconds each
    Uniform(sigma=0.25),
    *(pytest.param(noise, marks=pytest.mark.study) for noise in NOISES if not isinstance(noise, Uniform | NoNoise)),
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
@pytest.mark.parametrize("noise", COMPILED, ids=str)
def test_compiled_noise_is_the_cpus(noise):
    torch._dynamo.reset()  # after many graphs of other tests it would give up
    run = Compiled()
    hold(noise, *by_rows(noise, inputs(noise, (3, 7)), run=run))
    hold(noise, *by_rows(noise, inputs(noise, (3, 7)), seed=4, run=run))
    if run.notes and torch.backends.cpu.get_cpu_capability() != "AVX512":
        # The numbers were right all the same: `Compiled` noticed, and ran what it was given.
        assert run.notes == ["noise is not compiled on cpu, and slower for it: it gives other numbers"]
        pytest.skip("torch compiles these integers wrongly for a processor without AVX-512")
    assert not run.notes
