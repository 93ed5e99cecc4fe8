"""A run on disk: it holds what was found, belongs to one question and one writer, and refuses what is not its own."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import numpy as np
import pytest
import small_run

from smoothcert.errors import OutputError, RunError
from smoothcert.progress import Watcher
from smoothcert.runs.rows import _dense, _sparse
from smoothcert.runs.store import RunStore, read
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Recipe


def without_seconds(record):
    return [dataclasses.replace(row, seconds=None) for row in record.rows]


@pytest.fixture
def data(tmp_path):
    return small_run.write_data(tmp_path / "data.npz")


def test_a_run_holds_rows_recipe_and_evidence(tmp_path, data):
    small_run.make(tmp_path / "run", data)
    record = read(tmp_path / "run")
    assert [row.index for row in record.rows] == list(range(12)) and record.inputs == 12
    row = record.rows[0]
    assert [(a.purpose, a.draws) for a in row.answers] == [("guess", 50), ("test", 500), ("clean", 1)]
    assert row.draws == 550 and row.seconds > 0 and row.clean == row.label
    assert sum(row.answers[1].counts[0]) == 500
    assert record.asked.tables()["noise"] == {"name": "gaussian", "sigma": 0.25}
    assert Recipe.read(tmp_path / "run" / "recipe.toml").spec.sampling == Fixed(500, 0.05)


def test_a_recipe_survives_its_file_exactly(tmp_path, data):
    recipe, _ = small_run.recipe_for(data)
    recipe.write(tmp_path / "recipe.toml")
    assert Recipe.read(tmp_path / "recipe.toml") == recipe
    assert Recipe.read(tmp_path / "recipe.toml").spec.fingerprint == recipe.spec.fingerprint


class StopError(Exception):
    """Ends a run in the middle, as Ctrl-C does."""


def stop_after(number):
    seen = []

    def finished(draws):
        seen.append(draws)
        if len(seen) == number:
            raise StopError

    return Watcher(finished=finished)


def test_a_run_stopped_and_resumed_equals_an_uninterrupted_one(tmp_path, data):
    small_run.make(tmp_path / "whole", data)
    for number in (1, 4, 2):
        with pytest.raises(StopError):
            small_run.make(tmp_path / "parts", data, stop_after(number), batch=17)
    assert len(read(tmp_path / "parts").rows) == 7
    small_run.make(tmp_path / "parts", data, batch=5)
    assert without_seconds(read(tmp_path / "parts")) == without_seconds(read(tmp_path / "whole"))


def test_a_finished_run_is_left_as_it_is(tmp_path, data):
    small_run.make(tmp_path / "run", data)
    before = read(tmp_path / "run").rows
    small_run.make(tmp_path / "run", data)
    assert read(tmp_path / "run").rows == before


@pytest.mark.parametrize(("option", "value"), [("n", 600), ("alpha", 0.01), ("seed", 1)])
def test_another_question_is_refused_and_nothing_is_lost(tmp_path, data, option, value):
    small_run.make(tmp_path / "run", data)
    before = read(tmp_path / "run")
    with pytest.raises(RunError, match=f"answers another question .*{option}"):
        small_run.make(tmp_path / "run", data, **{option: value})
    assert read(tmp_path / "run") == before


def test_other_means_are_free(tmp_path, data):
    small_run.make(tmp_path / "run", data)
    small_run.make(tmp_path / "run", data, batch=3)
    assert read(tmp_path / "run").means.batch == 3


def test_one_writer_at_a_time(tmp_path, data):
    recipe, _ = small_run.recipe_for(data)
    with RunStore(tmp_path / "run", recipe), pytest.raises(RunError, match="is being written by another process"):
        small_run.make(tmp_path / "run", data)


def test_folders_that_are_not_runs_are_refused(tmp_path, data):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match=r"must be a run or a new folder; it holds other things, such as thesis.tex"):
        small_run.make(tmp_path / "other", data)
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"
    assert len(list((tmp_path / "other").iterdir())) == 1
    with pytest.raises(OutputError, match="must be a folder for a run; got a file"):
        small_run.make(data, data)


def test_damaged_and_foreign_runs_are_refused_in_one_line(tmp_path, data):
    small_run.make(tmp_path / "run", data)
    database, recipe = tmp_path / "run" / "certificates.sqlite", tmp_path / "run" / "recipe.toml"
    good, text = database.read_bytes(), recipe.read_text()

    recipe.write_text(text.replace("sigma = 0.25", "sigma = 0.12"))
    with pytest.raises(RunError, match="must be the one its rows were made with; it has been changed"):
        read(tmp_path / "run")
    for content in ("format = 1", "not toml [", "format = 99", ""):
        recipe.write_text(content)
        with pytest.raises(RunError, match=r"recipe\.toml"):
            read(tmp_path / "run")
    recipe.write_text(text)

    for content in (b"not a database at all, but long enough to be read as one" * 40, good[:5000]):
        database.write_bytes(content)
        with pytest.raises(RunError):
            read(tmp_path / "run")
    database.unlink()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE certificates (idx INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(RunError, match="must be a database of smoothcert; got another one"):
        read(tmp_path / "run")
    database.unlink()
    with pytest.raises(RunError, match=r"must hold certificates\.sqlite; there is none"):
        read(tmp_path / "run")


@pytest.mark.parametrize("outcomes", [1, 10, 100, 1000])
def test_columns_come_back_as_they_were(outcomes):
    """Few outcomes as pairs, histograms as votes in a row; both without loss, and a histogram is the shorter for it."""
    rng = np.random.default_rng(0)
    for share in (0.0, 0.02, 0.3, 1.0):
        for _ in range(20):
            column = tuple(int(v) for v in rng.integers(0, 9, outcomes) * (rng.random(outcomes) < share))
            assert _dense(json.loads(json.dumps(_sparse(column))), outcomes) == column
    assert isinstance(_sparse((7,) * 100)[0], int) and isinstance(_sparse((7,) * 10)[0], list)
    with pytest.raises(ValueError):
        _dense([95, 1, 2, 3, 4, 5, 6, 7], 100)
