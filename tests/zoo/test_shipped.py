"""The networks of the zoo are what zoo.toml says, load by name, and nothing else does."""

from __future__ import annotations

import hashlib
import math
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from smoothcert import catalog, zoo
from smoothcert.classifiers import digest, load
from smoothcert.cli import train
from smoothcert.cli.main import run
from smoothcert.errors import ModelError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.training import Settings

NAMES = list(zoo.networks())
SMALL = "cifar10-resnet8-advmacer"
TYPO = SMALL.replace("resnet8", "resnet")
MOST = 20e6  # bytes in all


def settings_of(command, monkeypatch):
    """The settings that a `smoothcert train` command line stands for, without training."""
    caught = []
    monkeypatch.setattr(train, "_train", lambda trainings, threads, device, workers: caught.extend(trainings))
    words = shlex.split(command)
    assert run(words[words.index("smoothcert") + 1 :]) == 0
    [(settings, out)] = caught
    return settings.table(), out


def test_there_are_members_for_an_ensemble():
    assert sum(name.startswith("cifar10-resnet8-gaussian-") for name in NAMES) >= 5


def test_every_objective_that_makes_a_classifier_is_there_and_every_network_is_measured():
    made = {network.config["settings"]["objective"] for network in zoo.networks().values()}
    assert made == {"gaussian", "consistency", "macer", "smoothadv", "smoothmix", "advmacer"}
    assert [name for name, network in zoo.networks().items() if network.measured is None] == []


def test_the_table_and_the_folders_name_the_same_networks_and_are_small():
    folders = sorted(path.name for path in zoo.FOLDER.iterdir() if (path / "weights.safetensors").exists())
    assert folders == NAMES
    files = {path.name for name in NAMES for path in (zoo.FOLDER / name).iterdir()}
    assert files <= {"config.json", "weights.safetensors"}
    assert sum(path.stat().st_size for path in zoo.FOLDER.rglob("*") if path.is_file()) < MOST


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_model(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = zoo.networks()[name].config
    scores = load(name)(torch.rand(2, *config["shape"]))
    assert scores.shape == (2, config["classes"])
    assert digest(name) == digest(zoo.FOLDER / name)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_makes_the_settings_again(name, monkeypatch):
    network = zoo.networks()[name]
    settings, out = settings_of(network.command, monkeypatch)
    assert settings == Settings(**network.config["settings"]).table() and out.name == name
    assert network.config["epoch"] == settings["epochs"]


@pytest.mark.parametrize("name", [name for name, network in zoo.networks().items() if network.measured])
def test_figures_fit_together_and_the_command_behind_them(name):
    network = zoo.networks()[name]
    found, noise = network.measured, Settings(**network.config["settings"]).build_noise()
    words = shlex.split(found.command)
    assert words[:3] == ["smoothcert", "certify", name]
    said = dict(zip(words[3::2], words[4::2], strict=True))
    level = {"noise": "band", "set": "width=4"} if noise.counted else {"sigma": str(noise.sigma), "n": str(found.n)}
    expected = {"data": found.data, "skip": str(found.skip), **level}
    assert {key: said[f"--{key}"] for key in expected} == expected
    assert (found.split, found.n0, found.alpha) == ("test", 100, 0.0 if noise.counted else 0.001)

    shares = {float(radius): share for radius, share in found.certified_accuracy.items()}
    radii = set(map(float, range(9))) if noise.counted else {0.0, 0.25, 0.5, 0.75}
    assert list(shares) == sorted(shares) and set(shares) >= radii
    assert all(math.isclose(share * found.inputs, round(share * found.inputs)) for share in shares.values())
    # The mean radius is the integral of the certified accuracy, which falls from radius to radius.
    radii = [*shares, max(largest(noise, found), *shares)]
    steps = [after - before for before, after in pairwise(radii)]
    above = sum(step * share for step, share in zip(steps, shares.values(), strict=True))
    below = sum(step * share for step, share in zip(steps, [*list(shares.values())[1:], 0.0], strict=True))
    assert below <= found.acr <= above and found.acr_interval[0] < found.acr < found.acr_interval[1]


def largest(noise, found):
    """The radius of an input on which every draw agrees."""
    if noise.counted:  # 2Δ = 2(side + width − 1) votes of all
        return found.n // 2 - noise.width + 1
    top = torch.tensor(found.alpha ** (1 / found.n), dtype=torch.float64)
    return float(Gaussian(noise.sigma).radius(top, 1 - top, 1))


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A zoo of one network that may be damaged."""
    name = NAMES[0]
    shutil.copytree(zoo.FOLDER / name, tmp_path / "zoo" / name)
    shutil.copy(zoo.FOLDER / "zoo.toml", tmp_path / "zoo")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "zoo")
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("file", ["weights.safetensors", "config.json"])
def test_one_changed_byte_is_refused(copied, file):
    load(copied)
    path = zoo.FOLDER / copied / file
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    for use in (load, digest):
        with pytest.raises(ModelError, match=f"{file} of '{copied}' in the zoo must have sha256 .*; got "):
            use(copied)
    path.unlink()
    with pytest.raises(ModelError, match=f"{file} of '{copied}' in the zoo, .* must be a readable file"):
        load(copied)


def test_a_damaged_table_is_one_line(copied):
    (zoo.FOLDER / "zoo.toml").write_text("[")
    with pytest.raises(ModelError, match=r"the table of the zoo .* must be TOML"):
        load(copied)


def test_a_folder_of_that_name_comes_first(copied):
    shutil.copytree(zoo.FOLDER / copied, Path(copied))
    config = Path(copied) / "config.json"
    config.write_text(config.read_text().replace("{", '{"mine": 1,', 1))
    assert zoo.located(copied) == Path(copied)
    load(copied)
    assert digest(copied) != digest(zoo.FOLDER / copied)


def test_a_near_name_is_suggested():
    with pytest.raises(ModelError, match=f"there is no '{TYPO}' .did you mean '{SMALL}' of the zoo"):
        load(TYPO)


@pytest.mark.study
@pytest.mark.cached_data
def test_a_network_is_made_again_bit_by_bit(tmp_path):
    """On the machine and with the versions it was made with."""
    if not catalog.build("data", "cifar10").cached():
        pytest.skip("cifar10 is not cached")
    network = zoo.networks()["cifar10-resnet8-gaussian-0"]
    words = [*shlex.split(network.command)[1:-1], str(tmp_path / "again")]
    subprocess.run([sys.executable, "-m", "smoothcert", *words], check=True, capture_output=True)
    content = (tmp_path / "again" / "weights.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == network.sha256["weights.safetensors"]


def test_a_training_may_begin_from_a_name(tmp_path):
    from smoothcert.training.checkpoints import read_any

    here = load(NAMES[0]).network.state_dict()
    assert all(torch.equal(value, here[key]) for key, value in read_any(NAMES[0]).state_dict().items())
