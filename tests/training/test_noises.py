"""Training under every noise: it learns, goes on where it was stopped, and refuses what makes no sense in one line."""

from __future__ import annotations

import pytest
import torch
from test_training_loop import SMALL, StopAfter, weights

from smoothcert import catalog
from smoothcert.cli.main import run
from smoothcert.contracts import WHOLE
from smoothcert.errors import DataError, OptionError
from smoothcert.training import Settings
from smoothcert.training.checkpoints import read_config, read_state
from smoothcert.training.loop import train

# Digits are multiples of 1/16.
NOISES = {
    "gaussian": {},
    "gaussian_grid": {"grid": 16},
    "uniform": {"lam": 0.5},
    "splitting": {"lam": 0.5, "grid": 16},
    "discrete": {"keep": 0.8, "values": 17},
    "band": {"width": 6},
    "block": {"side": 7},
}
LOSSES = [name for name in catalog.names("training.objectives") if name not in ("denoise", "stability")]
ATTACKS = ("smoothadv", "smoothmix", "advmacer")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def settings(noise, **options):
    return Settings(**{**SMALL, "noise": noise, "noise_options": NOISES[noise], **options})


def test_every_noise_is_here():
    assert sorted(NOISES) == catalog.names("noise")


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_it_learns_and_goes_on_bit_for_bit(noise, tmp_path):
    config = train(settings(noise), tmp_path / "whole")
    assert config["noisy_accuracy"] > 0.7 and config["estimate"]["0"] > 0.7
    assert config["settings"]["noise"] == noise and config["settings"]["noise_options"] == NOISES[noise]
    with pytest.raises(KeyboardInterrupt):
        train(settings(noise), tmp_path / "stopped", StopAfter(30))
    train(settings(noise), tmp_path / "stopped")
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")


@pytest.mark.parametrize("noise", sorted(set(NOISES) - {"gaussian"}))
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_every_noise_works_or_is_refused_before_anything_is_written(loss, noise, tmp_path):
    few = {"copies": 2, **({"steps": 1} if loss in ATTACKS else {})}
    given = settings(noise, objective=loss, epochs=1, batch=512, objective_options=few)
    norm = given.build_noise().norm
    refused = (loss in ATTACKS and norm != "l2") or (loss == "macer" and norm in WHOLE)
    if not refused:
        assert train(given, tmp_path / "net")["epoch"] == 1
        return
    norms = "l2" if loss in ATTACKS else "l1 or l2"
    with pytest.raises(OptionError, match=rf"noise of {loss} must be one of norm {norms}; got {noise} \({norm}\)"):
        train(given, tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_a_denoiser_learns_under_discrete_noise(tmp_path):
    options = {"arch": "dncnn3", "objective": "denoise", "lr": 0.01, "epochs": 1, "batch": 128}
    first = train(settings("discrete", **options), tmp_path / "one")["noisy_mse"]
    assert train(settings("discrete", **{**options, "epochs": 3}), tmp_path / "three")["noisy_mse"] < first


@pytest.mark.parametrize("noise", ["uniform", "gaussian_grid"])
def test_levels_of_examples_move_with_noises_that_are_stretched(noise, tmp_path):
    own = {"sigma_per_example": True, "sigma_warmup": 1, "sigma_step": 0.01, "epochs": 2}
    train(settings(noise, **own), tmp_path / "net")
    levels, common = read_state(tmp_path / "net")["sigma"], settings(noise).sigma
    assert float((levels != torch.tensor(common)).float().mean()) > 0.9
    assert float(levels.min()) >= common / 4 - 1e-6 and float(levels.max()) <= 4 * common + 1e-6


@pytest.mark.parametrize("noise", ["splitting", "discrete"])
def test_levels_of_examples_are_refused_with_others(noise, tmp_path):
    with pytest.raises(OptionError, match=f"noise of sigma_per_example must be gaussian or uniform; got {noise}"):
        train(settings(noise, sigma_per_example=True), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_inputs_off_the_grid_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(DataError, match="inputs of splitting must be multiples of 1/255"):
        train(settings("splitting", noise_options={"lam": 0.5}), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_the_level_is_known_by_both_its_names():
    assert settings("uniform").sigma == pytest.approx(0.5 / 3**0.5)
    assert settings("uniform", noise_options={}, sigma=0.25).build_noise().lam == pytest.approx(0.25 * 3**0.5)
    assert settings("uniform", noise_options={}).sigma == settings("gaussian").sigma == 0.25
    assert settings("discrete").sigma is None
    kept = settings("splitting").table()
    assert Settings(**kept) == settings("splitting")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "discrete", "noise_options": {}}, "discrete needs a value for keep; got none"),
        ({"noise": "discrete", "noise_options": {"keep": 0.8}, "sigma": 0.25}, "sigma of training must be left out"),
        ({"noise": "uniform", "noise_options": {"lam": 1.0}, "sigma": 0.25}, "lam of uniform must be sigma·√3"),
        ({"noise": "uniform", "noise_options": {"keep": 1.0}}, "option of uniform must be one of lam, sigma"),
        ({"noise": "unifrom"}, "did you mean 'uniform'"),
        ({"noise": "gaussian", "noise_options": {"sigma": 0.5}, "sigma": 0.25}, "sigma of training must be given once"),
    ],
)
def test_bad_noises_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Settings(**{**SMALL, **options})


def test_from_the_command_line(tmp_path, capsys):
    short = ["--epochs", "1", "--batch", "256", "--threads", "1", "--arch", "digits_cnn4"]
    assert run(["train", "--out", str(tmp_path / "net"), "--noise", "uniform", "--set", "lam=0.5", *short]) == 0
    assert "uniform noise (l1), lam 0.5, sigma 0.288675" in capsys.readouterr().out
    kept = read_config(tmp_path / "net")["settings"]
    assert (kept["noise"], kept["noise_options"]) == ("uniform", {"lam": 0.5})
    discrete = ["--noise", "discrete", "--set", "keep=0.8", "--set", "values=17"]
    assert run(["train", "--describe", *discrete, *short]) == 0
    assert "discrete noise (l0), keep 0.8, values 17" in capsys.readouterr().out
    assert run(["train", "--out", str(tmp_path / "no"), *discrete, "--objective", "macer", *short]) == 2
    assert "noise of macer must be one of norm l1 or l2; got discrete (l0)" in capsys.readouterr().err
    assert run(["train", "--out", str(tmp_path / "no"), *discrete, "--sigma", "0.25", *short]) == 2
    assert not (tmp_path / "no").exists()
