"""Every script of examples/ runs from an empty folder, is short, and shows what it says it shows."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a script as `python examples/NAME.py`, with an empty cache; what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(pattern, text)]


def test_every_script_is_short_and_has_a_test_here():
    text = Path(__file__).read_text()
    for script in SCRIPTS:
        assert len(script.read_text().splitlines()) < 60 and f'"{script.name}"' in text


def test_own_model(printed):
    text = printed("own_model.py")
    assert len(re.findall(r"^a \d: ", text, re.MULTILINE)) == 20
    (right,), (radius,) = numbers(r"(\d+) of 20 rightly", text), numbers(r"radius (\S+)$", text)
    assert right >= 12 and 0.15 < radius < 0.676  # the most that 2 000 draws can prove


def test_ensemble(printed):
    text = printed("ensemble.py")
    alone, (together,) = numbers(r"network \d: .* (\S+)", text), numbers(r"together: .* radius (\S+),", text)
    assert len(alone) == 3 and together > sum(alone) / 3


def test_known_radius(printed):
    text = printed("known_radius.py")
    fixed, known = numbers(r"(\S+) draws an input", text)
    assert fixed == 20_000 and known < fixed / 4
    assert numbers(r"disagree about (\d+)", text)[0] <= 2


def test_lightning_training(printed):
    text = printed("lightning_training.py")
    (latest, others), (chosen,) = numbers(r"(\S+) of \d+ inputs certified", text), numbers(r"chosen by (\S+):", text)
    assert "of 250 inputs" in text and chosen >= latest > 0.5 and abs(others - chosen) < 0.2


def test_aces_tradeoff(printed):
    text = printed("aces_tradeoff.py")
    rows = re.findall(r"^ +(\d\.\d)  (\S+)  (\S+)$", text, re.MULTILINE)
    right, acr = [float(row[1]) for row in rows], [float(row[2]) for row in rows]
    assert right[0] > right[-1] and acr[0] == 0.0 < acr[-1]  # accurate at one end, robust at the other
    assert acr == sorted(acr)


def test_compare_training(printed):
    text = printed("compare_training.py")
    assert text.count("$ smoothcert") == 6 and Path("smoothcert-compare/report.html").exists()
    assert "run-gaussian" in text and "run-consistency" in text


@pytest.mark.filterwarnings("ignore")  # fifteen epochs are not many
def test_scikit_learn(printed):
    text = printed("scikit_learn.py")
    clean, noisy = numbers(r"radius ([\d.]+)", text)
    assert noisy > clean + 0.05 and "scores are predict_proba of MLPClassifier in Pipeline" in text


def test_hugging_face(printed):
    text = printed("hugging_face.py")
    assert numbers(r"at 0.25: (\d+) of 20", text)[0] >= 4 and "all as recorded" in text


def test_tabular(printed):
    text = printed("tabular.py")
    assert numbers(r"(\d+) of 50 are proven", text)[0] >= 30
    assert "worst area alone: ± " in text and len(re.findall("of its own units", text)) == 3


def test_programs(printed):
    text = printed("programs.py")
    radii = numbers(r"radius (\S+)", text)
    assert len(radii) == 4 and len(set(radii)) == 1 and radii[0] > 0.1
