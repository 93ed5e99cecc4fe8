"""Published settings: whole, each with its source, refused where nobody published any, and overruled in plain sight."""

from __future__ import annotations

import dataclasses
import re

import pytest

from smoothcert import catalog
from smoothcert.cli.main import run
from smoothcert.errors import OptionError
from smoothcert.training import Settings, recipes
from smoothcert.training.checkpoints import read_config
from smoothcert.training.setup import borrowed, objective

NAMES = ("cohen", "consistency", "dds", "ens", "esb", "macer", "smoothadv", "smoothmix")
WHOLE = {
    *("arch", "epochs", "batch", "lr", "schedule", "drops", "optimiser", "momentum", "nesterov", "weight_decay"),
    "augment",
}
EVERY = [(name, *combination) for name in NAMES for combination in recipes.find(name).combinations()]


def test_these_are_there():
    assert tuple(recipes.names()) == NAMES


@pytest.mark.parametrize(("name", "data", "loss", "sigma"), EVERY)
def test_a_recipe_is_whole_and_every_value_has_a_source(name, data, loss, sigma):
    found = recipes.find(name).training(data, loss, sigma)
    assert set(found.settings) >= WHOLE | ({"image_size"} if data == "imagenet" else set())
    options = {field.name for field in dataclasses.fields(catalog.find("training.objectives", loss)[0]) if field.init}
    # A step of PGD is 2·epsilon/steps long in all of them, which is what none stands for; nobody smooths labels.
    assert set(found.options) == options - {"smoothing", *(["step_size"] if "attack" in options else [])}
    assert all(value.source for value in (*found.settings.values(), *found.options.values()))
    values = {key: value.value for key, value in {**found.settings}.items()}
    settings = Settings(
        data, **values, objective=loss, sigma=sigma,
        objective_options={key: value.value for key, value in found.options.items()},
    ) if data != "imagenet" else Settings(
        "pictures", **values, objective=loss, sigma=sigma, data_set=data,
        objective_options={key: value.value for key, value in found.options.items()},
    )  # fmt: skip
    assert found.told(settings) == "" and borrowed(settings) == ""
    assert objective(settings).options.items() >= {key: value.value for key, value in found.options.items()}.items()


def test_every_source_is_used():
    for name in NAMES:
        text = (recipes.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        keys = re.findall(r"^(\w+) = \"", text.split("[sources]")[1].split("[[row]]")[0], re.MULTILINE)
        assert all(f'"{key}"' in text.split("[[row]]", 1)[1] for key in keys), name


PUBLISHED = {
    # Cohen's code and experiments.MD.
    ("cohen", "cifar10", None, 0.25): "epochs 90, lr 0.1, drops 30 60, momentum 0.9, nesterov no, weight_decay 0.0001, "
    "batch 400, augment crop_flip, copies 1",
    # ENS, App. G.4.
    ("ens", "cifar10", None, 1.0): "epochs 150, drops 50 100, nesterov yes, weight_decay 0.0001, batch 256",
    ("ens", "imagenet", "consistency", 1.0): "epochs 90, drops 30 60, consistency 5, entropy 0.1",
    ("ens", "cifar10", "smoothadv", 0.25): "steps 10, copies 8, epsilon 1, warmup 10",
    # MACER's code; SWEEN, App. C.1, for σ = 0.5.
    ("macer", "cifar10", None, 0.5): "epochs 440, lr 0.01, drops 200 400, weight_decay 0.0005, batch 64, copies 16, "
    "strength 4, hinge 8, beta 16",
    # ESB, Table 2, section 4 and App. D.
    ("esb", "cifar10", None, 0.25): "lr 0.1, epochs 150, drops 50 100, steps 2, copies 8, epsilon 1, strength 12",
    ("esb", "cifar10", "smoothadv", 1.0): "steps 2, copies 4, epsilon 2",
    ("esb", "svhn", None, 0.5): "lr 0.01, steps 2, copies 4, epsilon 0.5, strength 4",
    ("esb", "svhn", "smoothadv", 0.5): "epsilon 0.25",
    # DDS, sections 4, 4.2 and 4.3.
    ("dds", "cifar10", "smoothadv", 0.12): "epochs 200, steps 2, epsilon 0.25, copies 1, sigma_warmup 50",
    ("dds", "cifar10", "macer", 0.12): "copies 64, strength 12, hinge 8, sigma_draws 8",
}


@pytest.mark.parametrize(("asked", "expected"), PUBLISHED.items())
def test_values_are_those_published(asked, expected):
    name, *combination = asked
    found = recipes.find(name).training(*combination)
    told = {
        key: recipes.shown(value.value).replace(",", " ") for key, value in {**found.settings, **found.options}.items()
    }
    assert [f"{word.split()[0]} {told[word.split()[0]]}" for word in expected.split(", ")] == expected.split(", ")


@pytest.mark.parametrize(("asked", "words"), [
    (("macer", "cifar10", None, 0.12), r"sigma of recipe macer for macer on cifar10 .*, 0\.25, 0\.5, 1; got"),
    (("consistency", "imagenet", None, 0.25), r"published, 0\.5, 1; got 0\.25"),
    (("cohen", "mnist", None, 0.25), r"data of recipe cohen for gaussian must .*cifar10, imagenet; got mnist"),
    (("cohen", "cifar10", "macer", 0.25), r"objective of recipe cohen must be one that was published, gaussian"),
])  # fmt: skip
def test_what_nobody_published_is_refused(asked, words):
    name, *combination = asked
    with pytest.raises(OptionError, match=words):
        recipes.find(name).training(*combination)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A recipe for data that are always there; its file is all there is to it."""
    (tmp_path / "mine.toml").write_text(
        'title = "A small one"\nobjective = "consistency"\n[sources]\nnote = "a note"\n'
        '[[row]]\ndata = ["digits"]\nobjective = ["consistency"]\nsigma = [0.25]\n'
        'settings.arch = ["mlp8", "note"]\nsettings.epochs = [2, "note"]\nsettings.batch = [512, "note", "all"]\n'
        'settings.drops = [[1], "note"]\nsettings.weight_decay = [0.001, "note"]\nsettings.nesterov = [false, "note"]\n'
        'options.consistency = [3.0, "note"]\noptions.copies = [2, "note"]\n'
    )
    monkeypatch.setattr(recipes, "FOLDER", tmp_path)


def test_a_recipe_is_followed_recorded_and_kept_when_training_goes_on(own, tmp_path, capsys):
    out = tmp_path / "net"
    assert run(["train", "--recipe", "mine", "--threads", "1", "--out", str(out)]) == 0
    settings = read_config(out)["settings"]
    assert (settings["recipe"], settings["arch"], settings["epochs"], settings["drops"]) == ("mine", "mlp8", 2, [1])
    assert settings["objective_options"] == {"consistency": 3.0, "copies": 2} and settings["nesterov"] is False
    assert "recipe mine but" not in capsys.readouterr().err
    assert run(["train", "--recipe", "mine", "--threads", "1", "--out", str(out)]) == 0
    assert run(["train", "--recipe", "mine", "--epochs", "1", "--out", str(out)]) == 2
    assert "epochs of the training" in capsys.readouterr().err


def test_what_is_given_wins_and_is_said(own, tmp_path, capsys):
    given = ["--epochs", "1", "--weight-decay", "0", "--momentum", "0.5", "--nesterov", "--set", "copies=3"]
    assert run(["train", "--recipe", "mine", *given, "--threads", "1", "--out", str(tmp_path / "net")]) == 0
    told = capsys.readouterr().err
    assert "recipe mine but for epochs 1 (published: 2), nesterov yes (published: no), weight_decay 0" in told
    assert "copies 3 (published: 2), the rate never falls: drops 1 lie behind 1 epochs" in told
    settings = read_config(tmp_path / "net")["settings"]
    assert (settings["epochs"], settings["weight_decay"], settings["momentum"]) == (1, 0.0, 0.5)
    assert settings["nesterov"] is True and settings["objective_options"] == {"consistency": 3.0, "copies": 3}


def test_another_schedule_gives_up_the_drops(own, capsys):
    assert run(["train", "--recipe", "mine", "--schedule", "one_cycle", "--describe"]) == 0
    assert "rate 0.1 by one_cycle, 2 epochs\n" in capsys.readouterr().out


def test_describe_prints_the_recipe_with_its_sources_and_trains_nothing(own, tmp_path, capsys):
    assert run(["train", "--recipe", "mine", "--epochs", "5", "--describe", "--out", str(tmp_path / "net")]) == 0
    told = capsys.readouterr().out
    assert told.startswith("recipe mine, A small one; digits, consistency, sigma 0.25\n  arch mlp8 (a note)\n")
    assert "  batch 512 (a note: all)\n" in told and "  consistency's copies 2 (a note)\n" in told
    assert "recipe mine but for epochs 5 (published: 2)\n" in told and "5 epochs, ÷10 at 1\n" in told
    assert not (tmp_path / "net").exists()


def test_values_of_another_sigma_are_never_taken_silently(tmp_path, capsys):
    settings = Settings("digits", "mlp8", "smoothadv", sigma=0.12)
    words = "smoothadv at sigma 0.12 takes the values published for 0.25: steps 10, epsilon 1, copies 8"
    assert words in borrowed(settings)
    given = dataclasses.replace(settings, objective_options={"steps": 1, "epsilon": 0.1, "copies": 1})
    assert borrowed(given) == "" == borrowed(dataclasses.replace(settings, sigma=0.25))
    assert run(["train", "--arch", "mlp8", "--objective", "smoothadv", "--sigma", "0.12", "--describe"]) == 0
    assert words in capsys.readouterr().out
