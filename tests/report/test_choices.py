"""Runs on the same inputs that differ in what was chosen: said in one line, once, wherever they stand side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import ABSTAINED, WRONG, record, stored
from scipy.stats import binom

from smoothcert.bounds import proven_radii
from smoothcert.classifiers import composite
from smoothcert.classifiers.composite import Composite, Member
from smoothcert.cli.main import run
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report.choices import notes, tries
from smoothcert.report.families import find
from smoothcert.runs.run import Run

RADII = [0.1, 0.6, WRONG, 0.3, ABSTAINED]
SOFT = "comparing them is fair, but the figures of the one that is picked as the best of 2 are optimistic"
LABELS = {"name": "certify", "n0": 10, "against": "labels"}
MORE = {"name": "fixed", "n": 900, "alpha": 0.01}
SEEDS = (
    "a, b and c certify the same inputs and differ in seed (0, 1, 2) alone, as repeated draws of one question: any of "
    "them is as valid as another, but picking the best afterwards overstates it; name one beforehand, or correct for "
    "3 tries (its certificates hold at α = 0.003 in place of 0.001)"
)


def made(name: str, **changes: Any) -> Run:
    return record(name, RADII, changes)


def sigma(level: float) -> dict[str, Any]:
    return {"name": "gaussian", "sigma": level}


def test_seeds_are_repeated_draws_of_one_question() -> None:
    assert notes([made("a"), made("b", seed=1), made("c", seed=2)]) == [SEEDS]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"noise": sigma(0.5)}, "σ (0.25, 0.5)"),
        ({"sampling": MORE}, "n (90, 900), α (0.001, 0.01)"),
        ({"seed": 3, "noise": sigma(0.5)}, "seed (0, 3), σ (0.25, 0.5)"),
        ({"procedure": LABELS}, "tested class (guess, labels)"),
        ({"sampling": {"name": "spending", "radii": [0.5], "alpha": 0.001}}, "sampling (fixed, spending)"),
    ],
)
def test_what_was_chosen_is_named(changes: dict[str, Any], said: str) -> None:
    (line,) = notes([made("a"), made("b", **changes)])
    assert line.startswith(f"a and b certify the same inputs and differ in {said}: picking the best of them afterwards")
    assert "choose on other inputs, or correct for 2 tries" in line


def test_a_choice_of_inputs_is_a_choice() -> None:
    """Every 20th of what every 10th was asked about; a hash tells that the values differ, not that none are shared."""
    (line,) = notes([made("a"), record("b", RADII[:3], {"skip": 20, "data_digest": "e" * 64})])
    assert line.startswith("a and b certify partly the same inputs and differ in skip (10, 20): picking the best")


def test_models_are_compared_with_a_softer_remark() -> None:
    (line,) = notes([made("a"), made("b", model_digest="b" * 64)])
    assert line.startswith(f"a and b are different models on the same inputs: {SOFT}")
    (line,) = notes([made("a"), made("b", model_digest="b" * 64, seed=5)])
    assert "different models on the same inputs and differ in seed (0, 5): comparing" in line


def test_one_model_tried_again_among_others_is_told_for_all() -> None:
    (line,) = notes([made("a"), made("b", model_digest="b" * 64), made("c", noise=sigma(0.5))])
    assert "differ in model (2 of them), σ (0.25, 0.5): picking the best" in line and "correct for 3 tries" in line


def test_nothing_is_said_where_nothing_can_be_picked() -> None:
    a = made("a")
    assert notes([a]) == notes([]) == []
    assert notes([a, replace(a, name="again")]) == []  # a copy is no second try
    assert notes([a, record("log", RADII)]) == []  # nor is a run's own log
    assert notes([a, made("b", data_digest="e" * 64)]) == []  # other values
    assert notes([a, made("b", data="other", data_digest="e" * 64)]) == []
    assert notes([a, made("b", noise={"name": "uniform", "sigma": 0.25})]) == []  # another norm is not better or worse
    assert notes([a, made("b", procedure={"name": "predict", "n": 20, "alpha": 0.01}, sampling=None)]) == []


def test_logs_do_not_say_in_what_they_differ() -> None:
    (line,) = notes([record("x", RADII), record("y", [0.2, *RADII[1:]])])
    assert line.startswith(f"x and y are of the same inputs, and logs do not say in what they differ: {SOFT}")


def test_callables_of_one_file_are_different_models() -> None:
    shared = {"model_covers": "source", "model_digest": "c" * 64}
    (line,) = notes([made("a", model="lines:a", **shared), made("b", model="lines:b", **shared)])
    assert "different models" in line


def test_many_runs_make_no_long_line() -> None:
    (line,) = notes([made(f"v{i}", seed=i) for i in range(40)])
    assert line.startswith(
        "v0, v1, v2, v3, v4 and 35 others certify the same inputs and differ in seed (0, 1, 2, 3, 4, …)"
    )
    assert "correct for 40 tries (its certificates hold at α = 0.04" in line
    assert notes([made("a", seed=i) for i in range(3)])[0].startswith("a (×3) certify")


def test_weights_of_an_ensemble_are_chosen_too(tmp_path: Path) -> None:
    members = tuple(Member(f"m{i}", str(i) * 64, True) for i in range(2))
    runs = []
    for name, weights in (("even", [0.5, 0.5]), ("odd", [0.1, 0.9])):
        put = Composite("ensemble", members, {"name": "soft_vote", "weights": weights})
        composite.write(tmp_path / name, put)
        runs.append(made(name, model=str(tmp_path / name), model_digest=put.digest.hex))
    (line,) = notes(runs)
    assert "even and odd certify the same inputs and differ in weights (0.5/0.5, 0.1/0.9): picking" in line


@pytest.mark.parametrize("name", ["x" * 400, "x\x00y", "x" * 5000 + "/y"])
def test_a_model_that_no_file_can_be_called_is_no_traceback(name: str) -> None:
    counted = {"members": 2, "rows": 1, "asked": 1, "early": 0}
    runs = [made("a"), made("b", seed=1), record("c", RADII, {"model": name, "seed": 2}, member_calls=counted)]
    assert len(notes(runs)) == 1 and find(runs).families == []


def test_the_best_of_several_tries_has_their_risk_together() -> None:
    """Exactly: an input at p = ½ is certified wrongly by one try with at most α, by the best of 3 with more than α."""
    n, alpha, tried = 100, 0.05, 3
    radii = proven_radii(np.arange(n + 1), n, alpha, Gaussian(0.25), 4)
    once = binom.pmf(np.arange(n + 1), n, 0.5)[radii > 0.0].sum()
    best = 1.0 - (1.0 - once) ** tried
    (found,) = tries([made(str(i), seed=i, sampling={"name": "fixed", "n": n, "alpha": alpha}) for i in range(tried)])
    assert found.alpha == pytest.approx(tried * alpha)
    assert once <= alpha < best <= found.alpha


def test_exact_certificates_have_no_risk_to_add_up() -> None:
    counted = {"name": "exhaustive"}
    one, two = ({"noise": {"name": "splitting", "lam": lam}, "sampling": counted} for lam in (1.0, 2.0))
    assert notes([made("a", **one), made("b", seed=1, **one)]) == []  # nothing is drawn, so no seed can be shopped for
    (line,) = notes([made("a", **one), made("b", **two)])
    assert "differ in lam (1.0, 2.0)" in line and line.endswith("or correct for 2 tries")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for seed, name in enumerate("abc"):
        stored(tmp_path / name, [0.1 + seed / 10, *RADII[1:]], seed=seed)
    monkeypatch.chdir(tmp_path)
    return ["a", "b", "c"]


@pytest.mark.parametrize(
    "options",
    ["", "--tables md", "--tables latex", "--transpose", "--paper esb", "--paper dds --names x,x,x"],
)
def test_every_report_says_it_once(options: str, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", *runs, *options.split()]) == 0
    shown = " ".join(capsys.readouterr().out.replace("\\", "").replace("$alpha$", "α").split())
    names = "x (×3)" if "--names" in options else "a, b and c"
    assert shown.count(SEEDS.replace("a, b and c", names)) == 1


def test_the_page_and_the_json_say_it_once(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", *runs, "--html", "page.html", "--json"]) == 0
    assert Path("page.html").read_text().count(SEEDS) == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["notes"] for one in told] == [[SEEDS]] * 3
    assert run(["report", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []


def test_compare_says_it_with_and_without_a_limit(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = SEEDS.replace("a, b and c", "a and b").replace("0, 1, 2", "0, 1").replace("3 tries", "2 tries")
    said = said.replace("0.003", "0.002")
    for options in ([], ["--fail-below", "acr=-1"], ["--tables", "md"]):
        assert run(["compare", "a", "b", *options]) == 0
        assert " ".join(capsys.readouterr().out.replace("\\", "").split()).count(said) == 1
    assert run(["compare", "a", "b", "--json", "--fail-below", "acr=5"]) == 1
    assert json.loads(capsys.readouterr().out)["notes"] == [said]


def test_history_says_it_over_all_questions(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Another σ is another question, and so another table: exactly what somebody who shops around has."""
    stored(Path("d"), RADII, noise=sigma(0.5))
    said = "a, b, c and d certify the same inputs and differ in seed (0, 1, 2), σ (0.25, 0.5): picking the best"
    for options in ([], ["--tables", "md"], ["--tables", "latex"]):
        assert run(["history", ".", *options]) == 0
        assert capsys.readouterr().out.replace("\\", "").count(said) == 1
    assert run(["history", ".", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [line["notes"][0].startswith(said) for line in told] == [True, True]
