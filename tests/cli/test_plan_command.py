"""`smoothcert plan` through the command line."""

from __future__ import annotations

import json
import math

import pytest
import small_run

from smoothcert.cli import main, plan
from smoothcert.cli.main import run

if "plan" not in main.COMMANDS:
    main.app.command("plan")(plan.command)

LOG = """idx\tlabel\tpredict\tradius\tcorrect\ttime
0\t3\t3\t0.378\t1\t0:00:10
1\t7\t-1\t0.0\t0\t0:00:10
2\t4\t4\t0.978\t1\t0:00:10
3\t4\t5\t0.12\t0\t0:00:10
"""


@pytest.fixture
def planned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "log.tsv").write_text(LOG)

    def call(words, code=0):
        assert run(["plan", *words.split()]) == code
        captured = capsys.readouterr()
        if code:
            assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("smoothcert: ")
            return captured.err
        return json.loads(captured.out) if "--json" in words else captured.out

    return call


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--radius 0.5", "--sigma must be given"),
        ("--sigma 0 --radius 0.5", "sigma of gaussian"),
        ("--sigma 0.25 --radius 5", "within reach of the noise"),
        ("--sigma 0.25 --radius 0.9 --cap 300", "at least 43412 draws to certify radius 0.9; its cap is 300"),
        ("--sigma 0.25 --radius -1", "radii of spending"),
        ("--sigma 0.25 --radii 0.5,0.25", "must be rising"),
        ("--sigma 0.25 --radii a", "--radii"),
        ("--sigma 0.25 --radius 0.5 --radii 0.5", "give --radius or --radii, not both"),
        ("--sigma 0.25 --n 5", "n of fixed must be at least 10"),
        ("--sigma 0.25 --alpha 2", "alpha"),
        ("--sigma 0.25 --radius 0.5 --beta 0", "beta of spending"),
        ("--sigma 0.25 --n0 0", "n0 of plan"),
        ("--sigma 0.25 --rate -3", "rate of plan"),
        ("--sigma 0.25 --inputs 0", "inputs of plan"),
        ("--sigma 0.25 --like absent", "got nothing there"),
        ("--sigma 0.25 --like log.tsv --like-n 0", "like-n of plan"),
    ],
)
def test_refused_plans_are_one_line(planned, words, message):
    assert message in planned(words, code=2)


def test_a_known_radius(planned):
    found = planned("--sigma 0.25 --radius 0.5 --cap 5000 --json")
    assert set(found) == {
        "norm", "alpha", "beta", "n", "radii", "needs", "reach", "kinds", "inputs", "notes", "rate", "schemes",
    }  # fmt: skip
    assert found["needs"] == [pytest.approx(0.9772499)] and found["reach"] == pytest.approx(0.9526, abs=1e-3)
    assert [scheme["name"] for scheme in found["schemes"]] == [
        "fixed n=100000", "staged", "anytime", "spending", "spending, leader",
    ]  # fmt: skip
    for scheme in found["schemes"]:
        assert set(scheme) == {"name", "error", "kinds", "like"} and scheme["like"] is None
        assert scheme["error"] <= 0.001 and list(scheme["kinds"]) == list(found["kinds"])
        assert set(scheme["kinds"]["certain"]) == {"draws", "draws_error", "certified", "certified_error"}


def test_a_log_gives_totals_and_time(planned):
    words = "--sigma 0.25 --radius 0.25 --cap 5000 --like log.tsv --inputs 1000 --json"
    found = planned(words)
    fixed = found["schemes"][0]["like"]
    assert found["inputs"] == 1000 and fixed["total_draws"] == 1000 * 100_100
    assert found["rate"]["draws"] == pytest.approx(100_100 / 10) and "as fast as log.tsv was" in found["rate"]["source"]
    assert fixed["seconds"] == pytest.approx(10_000) and fixed["certified"] == 0.5
    spending = found["schemes"][3]["like"]
    assert spending["total_draws"] < fixed["total_draws"] / 50 and spending["certified"] == pytest.approx(0.5, abs=0.01)
    assert any("100000 draws at alpha 0.01" in note for note in found["notes"])
    assert any("1 abstentions" in note for note in found["notes"])
    assert planned(words + " --rate 1001")["schemes"][0]["like"]["seconds"] == pytest.approx(100_000)


PUBLISHED = """idx\tlabel\tpredict\tradius\tcorrect\ttime
0\t3\t3\t0.378\t1\t0:00:10
1\t7\t-1\t0.0\t0\t0:00:10
2\t4\t4\t{0}\t1\t0:00:10
3\t4\t4\t{0}\t1\t0:00:10
"""


@pytest.mark.parametrize(("ceiling", "alpha"), [("0.953", "0.001"), ("0.978", "0.01"), ("1.0", "0.05")])
def test_the_ceiling_of_a_log_shows_its_alpha(planned, tmp_path, ceiling, alpha):
    (tmp_path / "log.tsv").write_text(PUBLISHED.format(ceiling))
    notes = planned("--sigma 0.25 --radius 0.25 --cap 3000 --like log.tsv --json")["notes"]
    assert f"radii of log.tsv are taken for Clopper–Pearson bounds of 100000 draws at alpha {alpha}" in notes
    said = f"alpha {alpha} is read off log.tsv: 2 inputs share its largest radius, {float(ceiling):g}"
    assert any(note.startswith(said) for note in notes)
    given = planned("--sigma 0.25 --radius 0.25 --cap 3000 --like log.tsv --like-alpha 0.05 --json")["notes"]
    assert "draws at alpha 0.05" in given[0] and not any("read off" in note for note in given)


def test_without_a_ceiling_the_usual_alpha_is_taken_and_said(planned, tmp_path):
    (tmp_path / "log.tsv").write_text(PUBLISHED.format("0.5"))
    notes = planned("--sigma 0.25 --radius 0.25 --cap 3000 --like log.tsv --json")["notes"]
    assert "log.tsv does not state its alpha, and no ceiling shows it: 0.001 is assumed" in notes


def test_what_a_log_states_is_not_guessed(planned, tmp_path, capsys):
    small_run.make(tmp_path / "run", small_run.write_data(tmp_path / "data.npz"))
    assert run(["export", "run", "--to", "cohen", "--out", "own.tsv"]) == 0
    capsys.readouterr()
    words = "--sigma 0.25 --radius 0.1 --cap 3000 --like own.tsv --like-n 500"
    assert "draws at alpha 0.05" in planned(words + " --json").get("notes")[0]
    assert "like-alpha of plan must be the alpha that own.tsv states, 0.05; got 0.01" in planned(
        words + " --like-alpha 0.01", code=2
    )
    said = planned(words.replace("--sigma 0.25", "--noise uniform --sigma 0.25"), code=2)
    assert "noise of plan must be one for l2 radii, as own.tsv states; got uniform noise" in said


@pytest.mark.parametrize("more", ["", " --like-alpha 0.001", " --like-alpha 0.1"])
def test_a_log_with_radii_out_of_reach_is_refused(planned, more):
    said = planned("--sigma 0.12 --radius 0.25 --like log.tsv" + more, code=2)
    assert "radii of log.tsv must be at most 0.4" in said and "got 0.978" in said
    assert said.endswith("sigma, like-n or like-alpha is not that of the log\n")


def test_a_composition_has_no_one_probability(planned, tmp_path, capsys):
    small_run.write_data(tmp_path / "data.npz")
    words = "--certify linear:score --core linear:score --select lines:b --data data.npz --sigma 0.25 --n 400"
    assert run(["aces", "certify", *words.split(), "--out", "aces"]) == 0
    capsys.readouterr()
    said = planned("--radius 0.1 --like aces", code=2)
    assert "run aces must be one of smoothcert certify or predict; got aces" in said


def test_the_dimension_is_the_runs_or_said(planned):
    words = "--noise gaussian_grid --sigma 0.25 --radius 0.25 --cap 3000 --json"
    assert planned(words)["notes"] == ["no run says how large its inputs are: 150528 coordinates are assumed"]
    assert planned("--sigma 0.25 --radius 0.25 --cap 3000 --json")["notes"] == []


def test_a_curve_and_the_full_radius(planned):
    curve = planned("--sigma 0.25 --radii 0.1,0.25 --cap 3000 --n 3000 --like log.tsv --json")
    assert len(curve["needs"]) == 2 and curve["schemes"][3]["like"]["certified"] == pytest.approx(0.5, abs=0.01)
    full = planned("--sigma 0.25 --n 1000 --like log.tsv --json")
    fixed, pilot = full["schemes"]
    assert full["radii"] == [] and fixed["like"]["draws"] == 1100
    assert 0 < fixed["like"]["radius"] < full["reach"] and pilot["kinds"]["hopeless"]["radius"] == 0.0


def test_the_text_says_what_matters(planned):
    text = planned("--sigma 0.25 --radius 0.25 --cap 3000 --n 50 --like log.tsv")
    for words in ("can prove l2 radii up to", "needs P(class) ≥ 0.841345", "exact", "spending, leader", "worst error",
                  "4 inputs like those", "draws a second", "note: radii of log.tsv"):  # fmt: skip
        assert words in text
    assert "\x1b" not in text and max(map(len, text.splitlines())) <= 120
    assert "note: fixed" not in text
    assert "note: fixed n=30: n of fixed must be at least 40" in planned("--sigma 0.25 --radius 0.25 --n 30 --cap 500")


def test_a_run_is_measured_here_and_keeps_its_sigma(planned, tmp_path):
    small_run.make(tmp_path / "run", small_run.write_data(tmp_path / "data.npz"))
    found = planned("--radius 0.1 --cap 3000 --like run --json")
    assert found["rate"]["source"] == "measured here just now" and found["rate"]["draws"] > 0
    assert found["inputs"] == 12 and math.isfinite(found["schemes"][0]["like"]["seconds"])
    said = planned("--sigma 0.5 --radius 0.1 --like run", code=2)
    assert "must be that of run, gaussian noise (l2), sigma 0.25; got gaussian noise (l2), sigma 0.5" in said
    (tmp_path / "data.npz").unlink()
    assert "as fast as run was" in planned("--radius 0.1 --cap 3000 --like run --json")["rate"]["source"]
