"""`smoothcert aces certify`, `select` and `combine`: from networks to a table over all thresholds."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import forging
import numpy as np
import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.runs.components import GRID, components
from smoothcert.runs.exchange import open_run
from smoothcert.runs.store import read

DATA = "--data few.npz --sigma 0.25 --n 400 --n0 20 --look 100 --alpha 0.05"
NETWORKS = "--certify switches:steep --core switches:core"


@pytest.fixture
def smoothcert(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "few.npz", number=40)
    small_run.write_data(tmp_path / "others.npz", number=30, seed=1)

    def call(line):
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def rows(folder):
    return [(row.index, row.predicted, row.radius) for row in read(Path(folder)).rows]


def test_a_run_holds_every_threshold(smoothcert):
    """Rows at any θ, made anew, are what combining the first run gives at that θ."""
    code, out, _ = smoothcert(f"aces certify {NETWORKS} {DATA} --out run")
    assert code == 0 and "certified selection rate" in out and "smoothcert aces combine --certify run" in out
    found = components(Path("run"), None)
    for theta in ("0.0", "0.1", "0.3", "0.57", "1.0"):
        assert smoothcert(f"aces certify {NETWORKS} {DATA} --theta {theta} --out at-{theta}")[0] == 0
        answers = found.at([float(theta)]).answers
        assert rows(f"at-{theta}") == list(
            zip(range(40), answers.label[0].tolist(), answers.radius[0].tolist(), strict=True)
        )
    assert smoothcert("verify run --redraw 40")[0] == 0
    assert "all as recorded" in smoothcert("verify at-0.57 --redraw 2")[1]


def test_theta_one_is_the_plain_run_but_for_the_halved_alpha(smoothcert):
    """The draws are those of `smoothcert certify`: its radii at alpha are printed beside those at alpha/2, exactly."""
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --theta 1.0 --out run")[0] == 0
    line = DATA.replace("--look 100 ", "")
    assert smoothcert(f"certify switches:steep {line} --out plain")[0] == 0
    assert smoothcert(f"certify switches:steep {line.replace('0.05', '0.025')} --out half")[0] == 0
    found = components(Path("run"), None)
    for verdicts, folder in ((found.origin.alone, "plain"), (found.certified, "half")):
        columns = zip(range(40), verdicts.label.tolist(), verdicts.radius.tolist(), strict=True)
        assert rows(folder) == list(columns)
    assert rows("run") == rows("half")
    acr = [json.loads(smoothcert(f"report {folder} --json")[1])["acr"] for folder in ("plain", "half")]
    whole, half = (f"{math.floor(1000 * value) / 1000:.3f}" for value in acr)
    assert acr[0] > acr[1] > 0
    assert (
        f"ACR {whole} at alpha 0.05, {half} at half of it, which is theta 1"
        in smoothcert("aces combine --certify run")[1]
    )


def test_a_changed_histogram_is_found_by_drawing_again(smoothcert, tmp_path):
    """One copy moved to another bin of entropy: the classes are as they were, and the rows at this θ too."""
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --theta 1.0 --out run")[0] == 0
    answers = forging.answers(tmp_path / "run", 3)
    bins = answers[2][3][1]
    if isinstance(bins[0], int):  # a histogram: its first bin, then votes
        bins[1], bins[2] = bins[1] + 1, bins[2] - 1
    else:
        bins[0][1], bins[1][1] = bins[0][1] + 1, bins[1][1] - 1
    forging.sql(tmp_path / "run", "UPDATE certificates SET answers = ? WHERE idx = 3", json.dumps(answers))
    forging.rechain(tmp_path / "run")
    assert smoothcert("verify run --redraw 0")[0] == 0
    code, out, _ = smoothcert("verify run --redraw 40")
    assert code == 1 and "input 3: 1 of 300 test votes in column 2 differ when drawn again" in out


def test_components_of_separate_runs_give_the_same(smoothcert):
    """A selection network and a core drawn by themselves combine with the certified run as if drawn with it."""
    together = f"aces certify {NETWORKS} --select switches:select {DATA} --theta 0.5 --out together"
    assert smoothcert(together)[0] == 0
    assert smoothcert("verify together --redraw 5")[0] == 0
    assert smoothcert(f"aces select switches:select {DATA} --out selecting")[0] == 0
    assert smoothcert("predict switches:core --data few.npz --sigma 0.25 --n 20 --out accurate")[0] == 0
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --out entropy")[0] == 0
    # Streams of noise have the names of what they are for, so the selector's draws differ when it is drawn alone.
    apart = components(Path("entropy"), Path("accurate"), "selecting")
    whole = components(Path("together"), None)
    assert np.array_equal(apart.core, whole.core) and np.array_equal(apart.certified.radius, whole.certified.radius)
    sure = (apart.at(GRID).selection.label == whole.at(GRID).selection.label).mean()
    assert 0.9 < sure <= 1.0
    forced = components(Path("together"), None, "entropy").at(GRID)
    assert np.array_equal(forced.answers.radius, components(Path("entropy"), None).at(GRID).answers.radius)
    code, out, _ = smoothcert("aces combine --certify entropy --core accurate --select selecting --theta all --json")
    table = json.loads(out)
    assert code == 0 and len(table) == 101 and table[50]["theta"] == 0.5
    assert table[0]["acr"] == 0.0 and table[100]["acr"] > 0.0
    code, _, err = smoothcert("report selecting")
    assert code == 2 and "smoothcert aces combine" in err


def test_a_core_may_be_a_table_and_a_plain_run_the_certified_one(smoothcert):
    assert (
        smoothcert("certify switches:steep --data few.npz --sigma 0.25 --n 400 --n0 20 --alpha 0.05 --out plain")[0]
        == 0
    )
    assert smoothcert(f"aces select switches:select {DATA} --out selecting")[0] == 0
    Path("core.csv").write_text("idx,predict\n" + "\n".join(f"{i},{i % 2}" for i in range(40)) + "\n")
    code, out, _ = smoothcert("aces combine --certify plain --core core.csv --select selecting --theta 0.5 --tables md")
    assert code == 0 and out.startswith("| θ | NAC % | ACR | certified accuracy \\(%\\) at radius: 0 |")
    assert components(Path("plain"), Path("core.csv"), "selecting").core.tolist() == [i % 2 for i in range(40)]
    code, _, err = smoothcert("aces combine --certify plain --core core.csv")
    assert code == 2 and "must hold counts of entropies" in err
    code, _, err = smoothcert("aces combine --certify plain --select selecting")
    assert code == 2 and "--core must name a run of the core network" in err


def test_the_threshold_for_a_demand_is_found_on_other_inputs(smoothcert):
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --out run")[0] == 0
    other = DATA.replace("few.npz", "others.npz")
    assert smoothcert(f"aces certify {NETWORKS} {other} --out other")[0] == 0
    found = components(Path("other"), None).at(GRID)
    natural = (found.answers.natural == found.labels).mean(axis=1)
    demand = float(np.quantile(natural, 0.5))
    code, out, err = smoothcert(f"aces combine --certify run --theta-for natural-accuracy={demand} --holdout other")
    assert code == 0 and "hold-out inputs (other)" in err
    chosen = float(out.splitlines()[3].split()[0])
    gains = np.where(found.answers.label == found.labels, found.answers.radius, 0.0).mean(axis=1)
    met = natural >= demand
    assert met[round(chosen * 100)] and gains[round(chosen * 100)] == gains[met].max()
    for line, words in (
        ("--holdout run", "inputs of --holdout must not be those of --certify; got 40 of them, first index 0"),
        ("", "--theta-for needs --holdout"),
        ("--holdout other --theta 0.1", "give --theta or --theta-for, not both"),
    ):
        code, _, err = smoothcert(f"aces combine --certify run --theta-for acr=0.01 {line}")
        assert code == 2 and words in err and err.count("\n") == 1
    for demand in ("natural-accuracy=2", "acr=lots", "speed=1"):
        code, _, err = smoothcert(f"aces combine --certify run --theta-for {demand} --holdout other")
        assert code == 2 and "--theta-for" in err and err.count("\n") == 1
    assert smoothcert(f"aces certify --certify linear:score --core switches:core {other} --out strange")[0] == 0
    code, _, err = smoothcert("aces combine --certify run --theta-for acr=0.01 --holdout strange")
    assert code == 2 and "networks and noise of --holdout must be those of --certify" in err


def test_a_log_of_a_combination_says_what_its_radii_are(smoothcert):
    """Radii under uniform noise are l1: a log that called them l2 would be wrong by the dimension's root."""
    assert smoothcert(f"aces certify {NETWORKS} --noise uniform {DATA} --out run")[0] == 0
    assert smoothcert("aces combine --certify run --theta 0.3 --log at.tsv")[0] == 0
    claim, own = open_run(Path("at.tsv")).claim, read(Path("run")).claim
    assert claim == own and (claim.norm, claim.guarantee, claim.test_class) == ("l1", "smoothing", "guess")


def test_pictures_log_and_tables(smoothcert, tmp_path):
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --out run")[0] == 0
    assert smoothcert("certify switches:steep --data few.npz --sigma 0.12 --n 200 --out single")[0] == 0
    code, _, err = smoothcert("aces combine --certify run --plots pictures --baseline single --tables latex")
    assert code == 0 and err.count("smoothcert: wrote") == 8
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert names == {f"{name}.{kind}" for name in ("frontier", "at-radius", "selection", "entropy")
                     for kind in ("svg", "png")}  # fmt: skip
    first = (tmp_path / "pictures" / "frontier.svg").read_bytes()
    shutil.rmtree(tmp_path / "pictures")
    assert smoothcert("aces combine --certify run --plots pictures --baseline single")[0] == 0
    assert (tmp_path / "pictures" / "frontier.svg").read_bytes() == first
    said = smoothcert("aces combine --certify run --baseline single")[1].splitlines()[-1]
    assert said.startswith(("for the single network some threshold is as accurate", "no threshold is as good in both"))
    assert smoothcert("aces combine --certify run --theta 0.57 --log at.tsv")[0] == 0
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --theta 0.57 --out at")[0] == 0
    reports = [json.loads(smoothcert(f"report {place} --json")[1]) for place in ("at.tsv", "at")]
    assert reports[0]["acr"] == reports[1]["acr"] and reports[0]["accuracy"] == reports[1]["accuracy"]
    code, _, err = smoothcert("aces combine --certify run --theta 0.1,0.2 --log two.tsv")
    assert code == 2 and "--log needs one theta; got 2" in err


def test_a_run_continues_and_refuses_another_composition(smoothcert, tmp_path):
    line = f"aces certify {NETWORKS} {DATA}"
    assert smoothcert(f"{line} --max 15 --out run")[0] == 0
    assert smoothcert(f"{line} --out whole")[0] == 0
    code, _, err = smoothcert(f"{line} --theta 0.9 --out whole")
    assert code == 2 and "answers another question" in err and "'theta': 0.9" in err
    code, _, err = smoothcert(f"{line.replace('--n 400', '--n 500')} --out whole")
    assert code == 2 and "answers another question" in err
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    forging.sql(tmp_path / "half", "DELETE FROM certificates WHERE idx >= 20", changed=20)
    assert smoothcert(f"{line} --out half")[0] == 0 and rows("half") == rows("whole")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("mine")
    code, _, err = smoothcert(f"{line} --out taken")
    assert code == 2 and "holds other things, such as thesis.tex" in err
    assert not (tmp_path / "taken" / "model").exists()


def test_a_refused_composition_leaves_an_honest_run_as_it_was(smoothcert, tmp_path):
    assert smoothcert(f"certify switches:steep {DATA.replace('--look 100 ', '')} --out own")[0] == 0
    kept = sorted((tmp_path / "own").rglob("*"))
    code, _, err = smoothcert(f"aces certify {NETWORKS} {DATA} --out own")
    assert code == 2 and "answers another question" in err
    assert sorted((tmp_path / "own").rglob("*")) == kept
    assert smoothcert("verify own --redraw 1")[0] == 0


@pytest.mark.parametrize(("line", "words"), [
    ("--certify switches:steep --core linear:three", "classes of a composition's networks must be the same"),
    ("--certify switches:steep --core switches:core --select linear:three", "the selector must have 2 classes"),
    ("--certify switches:steep --core switches:core --theta 0.333", "theta of aces must be one of"),
    ("--certify switches:steep --core nowhere", "there is no 'nowhere'"),
    ("--certify switches:steep --core switches:core --set lam=1", "must be an option of gaussian noise"),
    ("--certify switches:steep --core switches:core --arithmetic exact", "must be multiples of 1/255"),
    ("--certify switches:steep --core switches:core --n 5", "n of aces must be at least"),
    ("--certify switches:steep", "--core"),
])  # fmt: skip
def test_bad_input_is_one_line_and_nothing_is_written(smoothcert, tmp_path, line, words):
    code, _, err = smoothcert(f"aces certify {line} --data few.npz --sigma 0.25 --out run")
    assert code == 2 and words in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_combining_what_does_not_go_together_is_refused(smoothcert):
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --out run")[0] == 0
    assert smoothcert(f"aces certify {NETWORKS} {DATA} --max 10 --out short")[0] == 0
    other = DATA.replace("few.npz", "others.npz")
    assert smoothcert(f"aces certify {NETWORKS} {other} --out other")[0] == 0
    for line, words in (
        ("--select short", "must hold every input of the certified run; index 10 is missing"),
        ("--core other", "index 30 is missing"),
        ("--core nowhere.csv", "must be a readable file"),
        ("--theta 0.005", "theta of a combination must be one of 0, 0.01, …, 1; got 0.005"),
        ("--theta some", "--theta must be all, or numbers"),
        ("--alpha 2", "alpha of a combination must be between 0 and 1"),
        ("--tables pdf", "--tables must be one of latex, md, text"),
    ):
        code, _, err = smoothcert(f"aces combine --certify run {line}")
        assert code == 2 and words in err and err.count("\n") == 1, err
    code, _, err = smoothcert("aces combine --certify short --core other")
    assert code == 2 and "must be of the same data as the certified run; labels differ" in err
    tighter = json.loads(smoothcert("aces combine --certify run --theta 1 --json")[1])[0]
    looser = json.loads(smoothcert("aces combine --certify run --theta 1 --alpha 0.4 --json")[1])[0]
    assert looser["acr"] > tighter["acr"]
