"""ACES on real networks: digits, trained in seconds, certified, combined; and attacked inside what was certified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as library
from smoothcert.cli.main import run
from smoothcert.data import load as load_data
from smoothcert.runs.components import GRID, components

TRAIN = "train --data digits --arch digits_cnn --batch 64 --schedule one_cycle --threads 1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A weak network for noise 0.5 and an accurate one without."""
    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(f"{TRAIN} --sigma 0.5 --epochs 4 --set width=6 --out certified".split()) == 0
        assert run(f"{TRAIN} --sigma 0.05 --epochs 6 --out accurate".split()) == 0
        line = "--data digits --sigma 0.5 --n 500 --alpha 0.01 --threads 1 --max 100 --theta 0.5 --out run"
        assert run(f"aces certify --certify certified --core accurate {line}".split()) == 0
    return folder


def test_the_frontier_joins_the_core_and_the_smoothed_network(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    whole = components(Path("run"), None)
    found = whole.at(GRID)
    natural = (found.answers.natural == found.labels).mean(axis=1)
    gain = np.where(found.answers.label == found.labels, found.answers.radius, 0.0).mean(axis=1)
    core = load_data("digits", "test", max=100)
    clean = library.load("accurate")(core.tensors()).argmax(1).numpy()
    assert (whole.core == clean).all() and natural[0] == (clean == core.labels).mean() > 0.9
    assert natural[0] > natural[-1] and gain[0] == 0.0 < gain[-1]
    # More is selected at larger thresholds, so less is left to the core.
    assert (np.diff((found.selection.label == 1).sum(axis=1)) >= 0).all()
    best = gain[natural >= (natural[0] + natural[-1]) / 2].max()
    assert best > gain[-1] / 4  # half of the accuracy lost is enough for a good part of the radius
    assert run(["verify", "run", "--redraw", "2"]) == 0
    capsys.readouterr()


@pytest.mark.study
def test_no_attack_inside_a_certified_radius_changes_the_answer(place, monkeypatch):
    """PGD on what makes up the composition, smoothed, to the edge of 100 certified balls; then it is asked.

    The same attacks change answers once they may go further, so they can find what there is to find.
    """
    monkeypatch.chdir(place)
    torch.set_num_threads(1)
    line = "--data digits --sigma 0.5 --n 1000 --alpha 0.01 --threads 1 --theta 0.6 --out many"
    assert run(f"aces certify --certify certified --core accurate {line}".split()) == 0
    found = components(Path("many"), None).at([0.6])
    chosen = np.flatnonzero(found.answers.radius[0] > 0.05)[:100]
    assert len(chosen) == 100
    inputs = load_data("digits", "test")
    x, labels = inputs.tensors(chosen), torch.from_numpy(found.answers.label[0][chosen])
    reach = torch.from_numpy(found.answers.radius[0][chosen]).float() * 0.999
    network, aces = library.load("certified").network, library.Aces.load("many/model")
    for aim in (_wrong_class, _doubt, _both):
        attacked = _ascended(network, x, labels, reach, aim)
        assert float((attacked - x).flatten(1).norm(dim=1).sub(reach).max()) <= 0.0
        assert _changed(aces, attacked, labels) == 0
    beyond = _ascended(network, x, labels, reach + 1.0, _wrong_class)
    assert _changed(aces, beyond, labels) > 50


def _changed(aces, attacked, labels):
    """How many answers are others; the composition may also not know, at the edge of a ball."""
    answers = [aces.predict(one, n=4000, alpha=1e-6) for one in attacked]
    return sum(said not in (int(label), library.ABSTAIN) for said, label in zip(answers, labels, strict=True))


def _both(scores, labels):
    return _wrong_class(scores, labels) + _doubt(scores, labels)


def _wrong_class(scores, labels):
    return torch.nn.functional.cross_entropy(scores, labels)


def _doubt(scores, labels):
    return torch.special.entr(torch.softmax(scores, 1)).sum(1).mean()


def _ascended(network, x, labels, reach, aim, steps=30, copies=24, sigma=0.5):
    """Steps uphill on the aim under noise, kept in the ball and in [0,1]."""
    generator = torch.Generator().manual_seed(0)
    moved, wide = x.clone(), reach.view(-1, *(1 for _ in x.shape[1:]))
    for _ in range(steps):
        moved.requires_grad_(True)
        noisy = moved.repeat(copies, 1, 1, 1)
        noisy = noisy + sigma * torch.randn(noisy.shape, generator=generator)
        (slope,) = torch.autograd.grad(aim(network(noisy), labels.repeat(copies)), moved)
        norm = slope.flatten(1).norm(dim=1).clamp(min=1e-12).view_as(wide)
        moved = (moved.detach() + 0.2 * wide * slope / norm).clamp(0.0, 1.0)
        step = moved - x
        length = step.flatten(1).norm(dim=1).clamp(min=1e-12).view_as(wide)
        moved = x + step * (wide * (1 - 1e-6) / length).clamp(max=1.0)
    return moved.detach()
