"""certify, predict, verify and memory with a memory in PostgreSQL, from the command line; and copies of memories."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

import islands
import memory_run
import numpy as np
import pytest

from smoothcert.cli.main import run
from smoothcert.errors import OutputError, RunError
from smoothcert.memory import Memory, cells, places
from smoothcert.runs.store import read

BASE = ("islands:score", "--n", "300", "--n0", "50", "--alpha", "0.05", *islands.LEVELS)


class Place(NamedTuple):
    """A folder with data and two runs, `file` beside the memory `m` and `base` beside the one at the URL."""

    folder: Path
    url: str

    def certify(self, out, *options):
        words = ["--data", str(self.folder / "data.npz"), "--out", str(self.folder / out)]
        return run(["certify", *BASE, *words, *options])


@pytest.fixture(scope="module")
def place(postgres, tmp_path_factory):
    found = Place(tmp_path_factory.mktemp("shared"), postgres.url())
    islands.write_data(found.folder / "data.npz")
    assert found.certify("file", "--memory", str(found.folder / "m")) == 0
    assert found.certify("base", "--memory", secret(found.url)) == 0
    return found


def secret(url):
    return url.replace("tests@", "tests:s3cret@")


def words(capsys):
    return " ".join(capsys.readouterr().out.split())


def contents(place):
    """Everything but the directions, of which a copy has only those in use."""
    store = places.open_store(place, frozen=True)
    with store.reading():
        found = (store.identity, store.owner, *places.fingerprint(store))
    store.close()
    return found


def test_a_run_is_the_same_beside_a_file_and_beside_a_database(place):
    assert memory_run.rows(place.folder / "file") == memory_run.rows(place.folder / "base")
    assert contents(place.folder / "m")[2:] == contents(place.url)[2:] and contents(place.url)[2] == 33


def test_no_password_is_stored_or_said(place, capsys):
    assert read(place.folder / "base").memory.place == place.url
    for file in (place.folder / "base").rglob("*"):
        assert not file.is_file() or b"s3cret" not in file.read_bytes()
    for asked in (["stats", secret(place.url)], ["copy", secret(place.url), secret(place.url)]):
        run(["memory", *asked])
    said = capsys.readouterr()
    assert "s3cret" not in said.out + said.err and "must not exist yet" in said.err


def test_verify_replays_the_memory_in_the_database(place, postgres, capsys):
    assert run(["verify", str(place.folder / "base")]) == 0
    assert "40 answers of the memory replayed: all as recorded" in words(capsys)
    assert run(["verify", str(place.folder / "base"), "--memory", secret(place.url)]) == 0
    assert run(["verify", str(place.folder / "base"), "--memory", postgres.url()]) == 2
    assert "must be a whole memory of smoothcert; got: " in capsys.readouterr().err
    assert run(["verify", str(place.folder / "file"), "--memory", place.url]) == 2
    assert "must be the memory that answered" in capsys.readouterr().err


def test_verify_finds_another_radius_in_the_database(place, postgres, capsys):
    other = postgres.url()
    assert run(["memory", "copy", place.url, other]) == 0
    name = other.rpartition("=")[2]
    postgres.sql(f"UPDATE {name}.regions SET radius = radius / 2, certified = certified / 2 WHERE id = 3")
    assert run(["verify", str(place.folder / "base"), "--memory", other]) == 1
    assert "NOT AS RECORDED" in words(capsys)


def test_stats_check_query_and_create(place, postgres, capsys):
    data = str(place.folder / "data.npz")
    assert run(["memory", "check", place.url]) == 0
    assert "33 regions: no two of different labels meet" in words(capsys)
    found = []
    for at in (place.url, str(place.folder / "m")):
        assert run(["memory", "query", at, "--data", data, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert run(["memory", "stats", at, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["labels"])
    assert found[:2] == found[2:]
    new = postgres.url()
    assert run(["memory", "create", new, "islands:score", "--shape", "2"]) == 0
    assert run(["memory", "create", new, "islands:score", "--shape", "2"]) == 2
    assert "must not exist yet" in capsys.readouterr().err


def test_predict_and_frozen_ask_the_database_and_leave_it_as_it_is(place):
    before = contents(place.url)
    given = ["--data", str(place.folder / "data.npz"), "--sigma", "0.02", "--n", "100", "--memory", place.url]
    assert run(["predict", "islands:score", *given, "--out", str(place.folder / "asked")]) == 0
    assert run(["certify", "islands:score", *given, "--frozen", "--out", str(place.folder / "frozen")]) == 0
    assert run(["verify", str(place.folder / "frozen")]) == 0
    assert sum(row.draws == 0 for row in read(place.folder / "asked").rows) > 20 and contents(place.url) == before


def test_a_run_that_does_not_come_about_leaves_no_memory(place, postgres, capsys):
    url = postgres.url()
    assert place.certify("data.npz/no", "--memory", url) == 2
    with pytest.raises(RunError, match="there is no such schema"):
        Memory.open(url)


def test_copies_are_exact_there_and_back(place, postgres, tmp_path, capsys):
    there, again, back = postgres.url(), postgres.url(), tmp_path / "back.sqlite"
    for source, target in ((place.folder / "m", there), (there, again), (again, back), (back, tmp_path / "file")):
        assert run(["memory", "copy", str(source), str(target)]) == 0
        assert "33 regions; go on with one of the two only" in words(capsys)
    assert len({contents(at) for at in (place.folder / "m", there, again, back, tmp_path / "file")}) == 1
    assert run(["verify", str(place.folder / "file"), "--memory", there]) == 0
    with Memory.open(there) as memory:  # it goes on where the other stopped
        assert memory.admit(np.array([9, 9], dtype=np.float32), 0, 0.1).seen == 33


@pytest.mark.parametrize("to", ["file", "database"])
def test_a_copy_is_refused_where_something_is_and_where_the_source_is_wrong(place, postgres, tmp_path, to, capsys):
    wrong, target = tmp_path / "wrong", str(tmp_path / "new") if to == "file" else postgres.url()
    places.copy(place.url, wrong)
    with sqlite3.connect(wrong) as base:
        base.execute("UPDATE regions SET radius = 2, certified = 2 WHERE id = 3")
    base.close()
    assert run(["memory", "copy", str(wrong), target]) == 2
    assert "a memory must be sound to be copied; got" in capsys.readouterr().err
    assert run(["memory", "stats", target]) == 2  # nothing is there
    assert not (tmp_path / "new").exists()
    Memory.create(target, "abc", "l2", (2,)).close()
    before = contents(target)
    assert run(["memory", "copy", place.url, target]) == 2
    assert "must not exist yet; got a database that is in use" in capsys.readouterr().err
    assert contents(target) == before


@pytest.mark.parametrize("to", ["file", "database"])
def test_a_copy_that_fails_in_the_middle_leaves_nothing(place, postgres, tmp_path, to, monkeypatch):
    target = tmp_path / "new" if to == "file" else postgres.url()
    pack, left = cells.pack_vector, iter(range(70))  # 33 for the fingerprint, the rest while the copy is written

    def failing(x):
        if next(left, None) is None:
            raise OutputError("the disk must have room; got none")
        return pack(x)

    monkeypatch.setattr(cells, "pack_vector", failing)
    monkeypatch.setattr(places, "pack_vector", failing)
    with pytest.raises(OutputError, match="the disk must have room"):
        places.copy(place.url, target)
    monkeypatch.undo()
    assert not (tmp_path / "new").exists() and places.copy(place.url, target) == 33
