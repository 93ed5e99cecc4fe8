"""`smoothcert audit`: finds nothing in honest runs; names a raised radius, a changed count, a swapped file."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import denoisers
import forging
import linear
import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.contracts import input_key
from smoothcert.data import load as load_data
from smoothcert.runs.store import read


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def honest(place):
    small_run.make(place / "run", small_run.write_data(place / "data.npz"))
    return place


@pytest.fixture
def network(place):
    """A run of a checkpoint folder."""
    denoisers.write(place / "net", "digits_cnn", 3, width=4)
    denoisers.write(place / "other", "digits_cnn", 4, width=4)
    return place


def change(statement, *values, folder="run"):
    forging.sql(Path(folder), statement, *values)
    forging.rechain(Path(folder))


def audited(capsys, *words, folder="run"):
    """Exit code, and what is found in all checks, by name."""
    capsys.readouterr()
    code = run(["audit", folder, *([] if "--seed" in words else ["--seed", "0"]), *map(str, words), "--json"])
    table = json.loads(capsys.readouterr().out)
    return code, {check["name"]: check for check in table["checks"]}, table


def certified(model, out="run", *words):
    given = ["--data", "digits", "--skip", "100", "--threads", "1"]
    return run(["certify", model, *given, *(words or ("--sigma", "0.25", "--n", "200")), "--out", out])


def test_nothing_is_found_in_an_honest_run(honest, capsys):
    code, checks, table = audited(capsys, "--redraw", 12)
    assert code == 0 and table["verdict"] == "nothing found" and table["error"] == 0.001
    assert list(checks) == ["files", "counts", "noise", "batches", "fresh", "attack"]
    assert all(check["trials"] > 0 and not check["violations"] for check in checks.values())
    assert checks["counts"]["trials"] == 24 and checks["attack"]["trials"] == checks["fresh"]["trials"] > 5
    assert run(["audit", "run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("    not more than alpha")]
    assert len(lines) == 7 and all(line.startswith("held ") for line in lines[:6])
    assert lines[-1].startswith("nothing found (trials: files 2, counts 15, noise ")
    assert lines[-1].endswith("an honest run is accused with probability at most 0.001)")


def test_the_noise_that_is_looked_at_is_that_of_the_run(honest, capsys, monkeypatch):
    """Streams are keyed by the content of an input, not by its number."""
    from smoothcert.audit import assumptions

    seen, true = set(), assumptions.words
    monkeypatch.setattr(assumptions, "words", lambda stream, *rest: (seen.add(stream), true(stream, *rest))[1])
    assert audited(capsys)[0] == 0
    inputs = load_data("data.npz")
    keys = {input_key(inputs.tensor(place)) for place in range(len(inputs))}
    assert {stream.input for stream in seen} == keys and {stream.purpose for stream in seen} == {"guess", "test"}


def test_what_is_excused_is_truly_wrong(place, capsys):
    """At alpha 0.05 two certificates of this honest run are false: found, told, and not held against the run."""
    small_run.make(place / "run", small_run.write_data(place / "data.npz"), n=100, seed=35)
    code, checks, _ = audited(capsys)
    inputs, rows = load_data("data.npz"), {row.index: row for row in read(Path("run")).rows}
    wrong = {i for i in rows if rows[i].radius > abs(float(linear.margin(inputs.tensor(i))))}
    told = {int(line.split(":")[0].removeprefix("input ")) for line in checks["attack"]["excused"]}
    assert code == 0 and told == wrong and len(wrong) == 2


def test_a_raised_radius_is_named(honest, capsys):
    change("UPDATE certificates SET radius = radius * 1.1 WHERE idx = 3")
    code, checks, _ = audited(capsys)
    assert code == 1
    (problem,) = checks["counts"]["violations"]
    assert problem.startswith("input 3: counts give radius")


def test_a_changed_count_is_named(honest, capsys):
    stored = forging.answers(Path("run"), 5)
    stored[1][3][0][0][1] -= 1
    change("UPDATE certificates SET answers = ? WHERE idx = 5", json.dumps(stored))
    code, checks, _ = audited(capsys)
    assert code == 1 and all(problem.startswith("input 5: ") for problem in checks["counts"]["violations"])


def test_votes_that_were_made_up_with_their_radius_are_named(honest, capsys):
    """Counts and radius that go together are caught by fresh seeds, though nothing is drawn again from the old ones."""
    from smoothcert.bounds import lower_bound
    from smoothcert.contracts import Evidence
    from smoothcert.noise.gaussian import Gaussian

    with sqlite3.connect("run/certificates.sqlite") as connection:
        rows = connection.execute("SELECT idx, predicted, answers, low FROM certificates WHERE predicted >= 0")
        index, label, text, _ = min(rows, key=lambda row: row[3])
    stored = json.loads(text)
    stored[1][3][0] = [[label, 500]]
    low = lower_bound(500, 500, 0.05)
    radius = Evidence(label, ((500,),), 500, low, 1 - low, 0.05).certificate(Gaussian(0.25), 4).radius
    change("UPDATE certificates SET answers=?, radius=?, low=? WHERE idx=?", json.dumps(stored), radius, low, index)
    code, checks, _ = audited(capsys, "--redraw", 0)
    assert code == 1 and checks["counts"]["violations"] == []
    assert [v for v in checks["fresh"]["violations"] if v.startswith(f"input {index}: 500 of 500 stored votes are for")]


def test_radii_that_are_all_too_large_fall_under_attack(honest, capsys):
    with sqlite3.connect("run/certificates.sqlite") as connection:
        connection.execute("UPDATE certificates SET radius = radius * 1.5 + 0.1 WHERE predicted >= 0")
    code, checks, _ = audited(capsys)
    assert code == 1 and len(checks["attack"]["violations"]) > 4
    assert all("draws keep label" in violation for violation in checks["attack"]["violations"])


def test_a_swapped_model_is_named_and_not_asked(network, capsys):
    assert certified("net") == 0
    assert audited(capsys)[0] == 0
    shutil.copy("other/weights.safetensors", "net/weights.safetensors")
    code, checks, _ = audited(capsys)
    assert code == 1 and list(checks) == ["files", "counts", "noise", "attack"]
    assert "is not the one that was certified" in checks["files"]["violations"][0]
    assert checks["counts"]["violations"] == [] and checks["attack"]["trials"] == 0


def test_a_swapped_part_of_a_model_is_named(network, capsys):
    denoisers.write(Path("d"), "dncnn3", 1, width=4)
    assert run(["denoise", "net", "--with", "d", "--out", "both"]) == 0
    assert certified("both") == 0
    assert audited(capsys)[0] == 0
    shutil.copy("other/weights.safetensors", "net/weights.safetensors")
    code, checks, _ = audited(capsys)
    assert code == 1 and "must be what it was when that folder was made" in checks["files"]["violations"][0]


def test_other_data_is_named(honest, capsys):
    small_run.write_data(honest / "data.npz", seed=1)
    code, checks, _ = audited(capsys)
    assert code == 1 and "is not what was certified" in checks["files"]["violations"][0]


@pytest.mark.parametrize(
    "words",
    [
        ("--n", "200", "--noise", "uniform", "--sigma", "0.5"),
        ("--n", "200", "--noise", "discrete", "--set", "keep=0.9", "--set", "values=17"),
        ("--noise", "splitting", "--set", "lam=1", "--set", "grid=16", "--sampling", "exhaustive"),
        ("--n", "200", "--noise", "gaussian_grid", "--sigma", "0.25", "--set", "grid=16"),
        ("--n", "200", "--sigma", "0.25", "--sampling", "runner_up"),
    ],
    ids=lambda words: words[-1],
)
def test_every_noise_can_be_audited(network, capsys, words):
    assert certified("net", "run", *words) == 0
    code, checks, _ = audited(capsys, "--steps", 2, "--draws", 16, "--n", 100)
    assert code == 0 and "steps of ascent" in checks["attack"]["tried"]
    assert checks["attack"]["trials"] + checks["fresh"]["trials"] > 0


def test_known_radii_and_predictions_can_be_audited(honest, capsys):
    given = ["--data", "data.npz", "--sigma", "0.25"]
    assert run(["certify", "linear:score", *given, "--radius", "0.1", "--out", "known"]) == 0
    code, checks, _ = audited(capsys, folder="known")
    assert code == 0 and checks["attack"]["trials"] > 3
    assert run(["predict", "linear:score", *given, "--out", "predicted"]) == 0
    code, checks, _ = audited(capsys, folder="predicted")
    assert code == 0 and checks["attack"]["trials"] == 0 and checks["counts"]["trials"] == 15


def test_accuracy_under_attack_is_between_certified_and_clean(honest, capsys):
    code, _, table = audited(capsys, "--radii", "0.1,0.3,5", "--draws", 128)
    stands = table["under_attack"]
    assert code == 0 and [stand["radius"] for stand in stands] == [0, 0.1, 0.3, 5]
    assert all(stand["certified"] <= stand["right"] <= stands[0]["right"] == 12 for stand in stands)
    assert stands[-1]["right"] == 0 and stands[1]["right"] > 0
    assert run(["audit", "run", "--radii", "0.1"]) == 0
    assert "radius 0.1: accuracy 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "must be the folder of a run"),
        (["run", "--inputs", "0"], "inputs of audit must be -1 (all) or at least 1; got 0"),
        (["run", "--n", "0"], "n of audit must be a positive whole number; got 0"),
        (["run", "--error", "2"], "error of audit must be between 0 and 1, both excluded; got 2.0"),
        (["run", "--radii", "0.5,x"], "--radii must be numbers with commas between; got '0.5,x'"),
        (["run", "--radii", "-1"], "--radii must be positive numbers; got '-1'"),
        (["run", "--seed", "-1"], "seed must be a whole number"),
        (["run", "--redraw", "-1"], "redraw of audit must be 0 or more; got -1"),
        (["run", "--model", "nowhere"], "there is no 'nowhere'"),
        (["run", "--data", "nowhere"], "data must be one of"),
    ],
)
def test_nonsense_gets_one_line(honest, capsys, words, said):
    capsys.readouterr()
    assert run(["audit", *words]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and said in errors[0]


def test_a_composition_is_checked_as_far_as_it_can_be(honest, capsys):
    words = "--branch linear:score@0.5 --branch lines:a@0.25 --select lines:b --sigma 0.25 --n 400 --alpha 0.05"
    assert run(["route", "certify", *words.split(), "--data", "data.npz", "--out", "routed"]) == 0
    code, checks, _ = audited(capsys, folder="routed")
    assert code == 0 and checks["attack"]["trials"] == 0 and "a composition is not" in checks["attack"]["tried"]
    change("UPDATE certificates SET radius = radius + 0.01 WHERE idx = 8", folder="routed")
    assert audited(capsys, folder="routed")[0] == 1
    assert run(["audit", "routed", "--radii", "0.5"]) == 2


@pytest.mark.study
def test_nothing_is_found_in_two_hundred_honest_digits(place, capsys):
    words = "--data digits --arch digits_cnn --sigma 0.25 --epochs 15 --schedule one_cycle --threads 1 --out net"
    assert run(["train", *words.split()]) == 0
    words = "--data digits --max 200 --sigma 0.25 --n 10000 --threads 1 --out run"
    assert run(["certify", "net", *words.split()]) == 0
    code, checks, _ = audited(capsys, "--inputs", -1, "--threads", 1)
    assert code == 0 and checks["attack"]["trials"] > 180 and checks["attack"]["excused"] == []
