"""Noise levels by example: the slope is the radius's own, steps go uphill, and the map survives a stop."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from test_training_loop import SMALL, StopAfter, weights
from torch import nn

from smoothcert.noise.gaussian import Gaussian
from smoothcert.preparation import slope
from smoothcert.training import Settings, checkpoints
from smoothcert.training.loop import train

MAP = {**SMALL, "sigma_per_example": True, "sigma_warmup": 1, "sigma_step": 0.01, "sigma_draws": 2}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_slope_is_that_of_the_radius():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x, draws = torch.rand(5, 1, 2, 2, dtype=torch.float64), torch.randn(7, 5, 1, 2, 2, dtype=torch.float64)
    sigma = torch.tensor([0.1, 0.2, 0.4, 0.8, 1.6], dtype=torch.float64)
    gradient, radius, label = slope(network, Gaussian(1.0), x, sigma, draws)
    step = 1e-6
    above = slope(network, Gaussian(1.0), x, sigma + step, draws, label)[1]
    below = slope(network, Gaussian(1.0), x, sigma - step, draws, label)[1]
    assert torch.allclose(gradient, (above - below) / (2 * step), rtol=1e-5)
    shares = network((x + sigma.view(-1, 1, 1, 1) * draws).flatten(0, 1)).softmax(-1).view(7, 5, 3).mean(0)
    top = shares.topk(2).values
    expected = [Gaussian(float(s)).radius(*pair, 4) for s, pair in zip(sigma, top, strict=True)]
    assert torch.allclose(radius, torch.stack(expected))


def test_levels_wait_then_move_and_are_kept(tmp_path):
    config = train(Settings(**{**MAP, "epochs": 1}), tmp_path / "warm")
    assert config["epoch"] == 1 and checkpoints.read_state(tmp_path / "warm")["sigma"].unique().tolist() == [0.25]
    train(Settings(**MAP), tmp_path / "whole")
    levels = checkpoints.read_state(tmp_path / "whole")["sigma"]
    assert len(levels) > 1000 and float((levels != 0.25).float().mean()) > 0.99
    assert float(levels.min()) >= 0.25 / 4 and float(levels.max()) <= 1.0


@pytest.mark.parametrize("steps", [30, 75])
def test_stopped_and_resumed_is_bit_equal_with_levels_and_average(tmp_path, steps):
    settings = Settings(**{**MAP, "ema": 0.9, "clip": 1.0})
    train(settings, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "stopped", StopAfter(steps))
    train(settings, tmp_path / "stopped")
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    first, second = (checkpoints.read_state(tmp_path / name) for name in ("whole", "stopped"))
    assert torch.equal(first["sigma"], second["sigma"])
    published = load_file(tmp_path / "whole" / checkpoints.WEIGHTS)  # the running average, not the last weights
    assert any(not torch.equal(first["weights"][name], tensor) for name, tensor in published.items())
