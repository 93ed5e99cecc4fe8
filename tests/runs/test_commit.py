"""A committed seed: its hash stands there first, the seed comes last, and another attempt says that it is one."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.runs import commit
from smoothcert.runs.store import read, recorded
from smoothcert.spec import HIDDEN, committed

ASKED = ["--sigma", "0.25", "--n", "100", "--n0", "20", "--alpha", "0.05", "--seed", "commit"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))
    small_run.write_data(tmp_path / "data.npz")
    return tmp_path


def certify(out: str, *more: str) -> int:
    return run(["certify", "linear:score", "--data", "data.npz", *ASKED, *more, "--out", out])


class StopError(BaseException):
    """The job is gone."""


def stopped(monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """A run that ends after its fourth row, as by a kill."""
    from smoothcert.runs.store import RunStore

    rows, add = [], RunStore.add

    def few(store: RunStore, row: object) -> None:
        add(store, row)
        rows.append(row)
        if len(rows) == 4:
            store.commit()
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "add", few)
        with pytest.raises(StopError):
            certify(out)


def test_the_hash_comes_first_and_the_seed_last(place: Path, monkeypatch, capsys) -> None:
    stopped(monkeypatch, "run")
    begun = read(place / "run").asked
    assert begun.seed == HIDDEN and begun.commitment is not None and begun.commitment.nonce == ""
    told = json.dumps(recorded(place / "run")) + (place / "run" / "recipe.toml").read_text()
    secret = json.loads((place / "run" / commit.FILE).read_text())
    assert str(secret["seed"]) not in told and secret["nonce"] not in told and begun.commitment.digest in told
    assert stat.S_IMODE((place / "run" / commit.FILE).stat().st_mode) == 0o600
    assert (
        f"committed to a secret seed, attempt 1 at this question: {begun.commitment.digest}" in capsys.readouterr().err
    )
    assert run(["verify", "run", "--trust-code"]) == 1  # unfinished, and nothing can be drawn again
    said = capsys.readouterr().out
    assert "the run is unfinished" in said and "the seed is told when the run is complete" in said
    assert run(["certificate", "run", "0"]) == 2
    assert certify("run") == 0
    done = read(place / "run").asked
    assert done.seed == secret["seed"] and done.fingerprint == begun.fingerprint
    assert begun.commitment.digest == committed(done.question, 1, done.seed, secret["nonce"])
    assert not (place / "run" / commit.FILE).exists()
    assert run(["verify", "run", "--trust-code", "--redraw", "all"]) == 0
    assert certify("run") == 0  # which is complete
    assert read(place / "run").asked == done


def test_the_rows_are_those_of_the_seed_that_is_told(place: Path) -> None:
    assert certify("run") == 0
    seed = str(read(place / "run").asked.seed)
    assert run(["certify", "linear:score", "--data", "data.npz", *ASKED[:-1], seed, "--out", "plain"]) == 0
    rows = [[(row.predicted, row.radius, row.answers) for row in read(place / name).rows] for name in ("run", "plain")]
    assert rows[0] == rows[1]


def test_another_attempt_says_so(place: Path, capsys) -> None:
    assert certify("first") == 0 and certify("second") == 0
    assert [read(place / name).asked.commitment.attempt for name in ("first", "second")] == [1, 2]
    assert read(place / "first").asked.seed != read(place / "second").asked.seed
    capsys.readouterr()
    assert run(["verify", "second", "--trust-code"]) == 0
    assert "it is attempt 2 at this question" in capsys.readouterr().out
    assert certify("third", "--sigma", "0.5") == 0  # another question
    assert read(place / "third").asked.commitment.attempt == 1


def test_a_kill_before_the_first_recipe_is_forgotten(place: Path, monkeypatch) -> None:
    """The journal has begun, with a commitment that nobody saw; the next attempt begins anew with another one."""
    from smoothcert.spec import Recipe

    def killed(*_: object) -> None:
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "write", killed)
        with pytest.raises(StopError):
            certify("run")
    assert (place / "run" / commit.FILE).exists() and not (place / "run" / "recipe.toml").exists()
    assert certify("run") == 0
    assert run(["verify", "run", "--trust-code", "--redraw", "all"]) == 0
    (place / "run" / "recipe.toml").unlink()
    assert certify("run") == 2  # whose seed nobody says any more


def test_a_refused_run_leaves_no_secret(place: Path) -> None:
    np.savez(place / "data.npz", x=np.full((2, 4), 0.5, dtype=np.float32), y=np.array([0, 9]))
    assert certify("run") == 2
    assert not (place / "run").exists()


def test_a_run_with_a_plain_seed_is_not_continued_with_a_secret_one(place: Path, capsys) -> None:
    assert run(["certify", "linear:score", "--data", "data.npz", *ASKED[:-1], "0", "--out", "run"]) == 0
    assert certify("run") == 2
    assert "is a run with seed 0; got --seed commit" in capsys.readouterr().err


def test_a_lost_or_foreign_secret_is_one_line(place: Path, monkeypatch, capsys) -> None:
    stopped(monkeypatch, "run")
    held = (place / "run" / commit.FILE).read_text()
    for text in ("", "{}", '{"seed": "1", "nonce": 1, "attempt": 1}', held.replace('"seed": ', '"seed": 1')):
        (place / "run" / commit.FILE).write_text(text)
        assert certify("run") == 2
    (place / "run" / commit.FILE).unlink()
    assert certify("run") == 2
    assert "the secret of a committed seed" in capsys.readouterr().err
    (place / "run" / commit.FILE).write_text(held)
    assert certify("run") == 0
