"""zoo/add.py: from a finished training to an entry of the zoo, with nothing typed by hand."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

import pytest
import torch
from test_shipped import settings_of

from smoothcert import zoo
from smoothcert.cli.main import run
from smoothcert.report.metrics import figures
from smoothcert.runs.store import read
from smoothcert.training import Settings
from smoothcert.training.checkpoints import read_network
from smoothcert.training.loop import train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def add():
    spec = importlib.util.spec_from_file_location("zoo_add", ROOT / "zoo" / "add.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("settings", [
    Settings("digits", "mlp"),
    Settings("cifar10", "resnet8", "macer", 0.5, 8, 128, 0.01, drops=(3, 6), clip=1.0, ema=0.99, seed=4),
    Settings("digits", "mlp", optimiser="adamw"),
    Settings("digits", "mlp", momentum=0.5, nesterov=False, weight_decay=5e-4, hold_out="0.04"),
    Settings("pictures", "resnet50", data_set="imagenet", augment="resized_crop", image_size=224),
    Settings("cifar10", "airbench64", schedule="triangular", weight_decay=5e-4, objective_options={"smoothing": 0.1}),
    Settings("digits", "mlp", noise="band", noise_options={"width": 4, "of": "rows"}),
    Settings("digits", "mlp", noise="band", noise_options={"width": 4}, arch_options={"width": 8}),
    Settings("digits", "mlp", optimiser="adamw", lr=0.1),
    Settings("cifar10", "resnet8", epochs=9, schedule="one_cycle", warmup=2, augment="crop_flip"),
    Settings("a b.npz", "resnet8", start="models/a", labels="l.npz", value_range=(0.0, 4.0), image_size=32),
    Settings("digits", "digits_cnn", sigma_per_example=True, sigma_warmup=3, sigma_step=1e-3, sigma_draws=8),
    Settings(
        "digits", "digits_cnn", "smoothmix", 1 / 3,
        arch_options={"width": 4, "mean": [0.25, 1.0]}, objective_options={"first_step": True, "step_size": 1e-05},
    ),
])  # fmt: skip
def test_the_command_line_of_settings_gives_them_back(add, settings, monkeypatch):
    command = shlex.join(add.training(settings.table(), "models/x"))
    assert settings_of(command, monkeypatch) == (settings.table(), Path("models/x"))


def test_a_training_of_several_processes_is_begun_by_as_many(add):
    words = add.training(Settings("digits", "mlp").table(), "models/x", processes=2)
    assert words[:6] == ["torchrun", "--nproc-per-node", "2", "-m", "smoothcert", "train"]


def test_every_setting_that_is_not_the_published_one_is_said(add):
    settings = Settings("cifar10", "resnet8", "macer", epochs=8, batch=128, lr=0.01, schedule="one_cycle")
    told = add.about({"settings": settings.table(), "objective": {"copies": 4, "strength": 12.0}})
    assert told == (
        "Recipe macer, but arch resnet8 (published: resnet110), epochs 8 (published: 440), batch 128 (published: 64), "
        "augment none (published: crop_flip), schedule one_cycle (published: step), drops none (published: 200,400), "
        "nesterov yes (published: no), weight_decay 0.0001 (published: 0.0005), copies 4 (published: 16)."
    )
    published = {"arch": "resnet110", "epochs": 440, "batch": 64, "lr": 0.01, "drops": (200, 400), "nesterov": False}
    whole = Settings("cifar10", objective="macer", **published, weight_decay=5e-4, augment="crop_flip")
    assert add.about({"settings": whole.table(), "objective": {"copies": 16}}) == "Recipe macer, as published."
    half = {**whole.table(), "precision": "bfloat16"}
    told = "Recipe macer, but precision bfloat16 (published: float32)."
    assert add.about({"settings": half, "objective": {"copies": 16}}) == told


def test_the_zoo_says_what_its_networks_have_otherwise(add):
    for name, network in zoo.networks().items():
        assert network.about == add.about(network.config), name


def test_a_finished_training_becomes_an_entry(add, tmp_path, monkeypatch):
    name = "digits-mlp-consistency-3"
    checkpoint, folder = tmp_path / name, tmp_path / "zoo"
    folder.mkdir()
    (folder / "zoo.toml").touch()
    monkeypatch.setattr(zoo, "FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    options = "--data digits --arch mlp --objective consistency --epochs 2 --seed 3 --set consistency=2"
    assert run(["train", *options.split(), "--out", str(checkpoint)]) == 0

    # In this process, where the zoo is the small one.
    monkeypatch.setattr(add.subprocess, "run", lambda words, check: run(words[3:]))
    monkeypatch.setattr("sys.argv", ["add.py", str(checkpoint), "--run", "run", "--n", "200"])
    add.main()

    network = zoo.networks()[name]
    network.verify()
    assert network.about == "No recipe has consistency on digits at sigma 0.25: 2 step epochs."
    assert network.command == f"smoothcert train {options} --threads 1 --out models/{name}"
    found = figures(read(Path("run")), add.RADII)
    assert network.measured.acr == found.acr and network.measured.inputs == found.inputs == 25
    assert network.measured.certified_accuracy["0.5"] == found.certified_accuracy[0.5].value
    assert (
        network.measured.command
        == f"smoothcert certify {name} --data digits --sigma 0.25 --skip 20 --n 200 --out runs/{name}"
    )

    monkeypatch.setattr("sys.argv", ["add.py", str(checkpoint)])
    add.main()
    assert zoo.networks()[name] == network  # the same files keep their figures
    config = checkpoint / "config.json"
    config.write_text(config.read_text() + "\n")
    add.main()
    assert zoo.networks()[name].measured is None


def test_half_precision_on_disk_is_single_precision_when_loaded(add, tmp_path):
    whole, half = tmp_path / "whole", tmp_path / "half"
    train(Settings("digits", "digits_cnn", epochs=1), whole)
    half.mkdir()
    (half / "config.json").write_bytes((whole / "config.json").read_bytes())
    (half / "weights.safetensors").write_bytes(add.halved((whole / "weights.safetensors").read_bytes()))
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (whole, half)]
    assert sizes[1] < 0.6 * sizes[0]
    before, after = (read_network(folder)[0].state_dict() for folder in (whole, half))
    for name, tensor in after.items():
        rounds = tensor.ndim > 1 and not name.startswith("normalise.")
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name].half().float() if rounds else before[name]), name


def test_a_network_against_patches_becomes_an_entry(add, tmp_path, monkeypatch, capsys):
    name = "digits-digits_cnn-band-4"
    checkpoint, folder = tmp_path / name, tmp_path / "zoo"
    folder.mkdir()
    (folder / "zoo.toml").touch()
    monkeypatch.setattr(zoo, "FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    options = "--data digits --arch digits_cnn --epochs 2 --noise band --set width=4"
    assert run(["train", *options.split(), "--threads", "1", "--out", str(checkpoint)]) == 0
    monkeypatch.setattr(add.subprocess, "run", lambda words, check: run(words[3:]))
    monkeypatch.setattr("sys.argv", ["add.py", str(checkpoint), "--run", "run"])
    add.main()
    network = zoo.networks()[name]
    network.verify()
    assert network.about == "No recipe has gaussian on digits under band noise, 4 columns shown: 2 step epochs."
    assert network.command.startswith("smoothcert train --data digits") and "--set width=4" in network.command
    found = network.measured
    assert (found.norm, found.n, found.alpha, found.inputs) == ("patch", 8, 0.0, 25)
    assert (
        found.command
        == f"smoothcert certify {name} --data digits --noise band --set width=4 --skip 20 --out runs/{name}"
    )
    capsys.readouterr()
    assert run(["zoo"]) == 0
    told = capsys.readouterr().out
    assert "band 4" in told and "certified accuracy in % at radii (patch, side in pixels) and ACR" in told
    assert run(["zoo", name]) == 0 and "digits (train), band 4, seed 0" in capsys.readouterr().out


def test_what_is_unfinished_or_misnamed_is_refused(add):
    config = {"epoch": 2, "settings": Settings("digits", "mlp", epochs=3).table()}
    with pytest.raises(SystemExit, match="must be finished; got epoch 2 of 3"):
        add.check("digits-mlp-gaussian", config)
    with pytest.raises(SystemExit, match="must begin with digits-mlp-gaussian"):
        add.check("cifar10-mlp-gaussian", config | {"epoch": 3})
