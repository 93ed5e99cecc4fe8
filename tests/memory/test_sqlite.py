"""The file of a memory: refused when it is not one, whole when the disk is not, and found out when tampered with."""

from __future__ import annotations

import shutil
import sqlite3
import time

import numpy as np
import pytest

import smoothcert.memory
from smoothcert.errors import OutputError, RunError
from smoothcert.memory import Memory, sqlite


def point(*values):
    return np.array(values, dtype=np.float32)


@pytest.fixture
def path(tmp_path):
    """A closed memory of three regions in two dimensions."""
    with Memory.create(tmp_path / "m.sqlite", "abc", "l2", (2,)) as memory:
        for number in range(3):
            memory.admit(point(number, 0), number, 0.25)
    return tmp_path / "m.sqlite"


def change(path, statement, *values):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.mark.parametrize("frozen", [False, True])
def test_what_is_no_memory_is_refused_in_one_line(tmp_path, frozen):
    with pytest.raises(RunError, match=r"none must be a memory; there is no such file"):
        Memory.open(tmp_path / "none", frozen)
    with pytest.raises(RunError, match="there is no such file"):
        Memory.open(tmp_path, frozen)
    (tmp_path / "text").write_text("label,radius\n" * 400)
    with pytest.raises(RunError, match="text must be a memory of smoothcert; got: file is not a database"):
        Memory.open(tmp_path / "text", frozen)
    (tmp_path / "empty").touch()
    with pytest.raises(RunError, match="empty must be a memory of smoothcert; got an empty database"):
        Memory.open(tmp_path / "empty", frozen)
    change(tmp_path / "other", "CREATE TABLE regions (id INTEGER)")
    with pytest.raises(RunError, match="other must be a memory of smoothcert; got another database"):
        Memory.open(tmp_path / "other", frozen)


def test_a_later_version_is_refused(path):
    change(path, "PRAGMA user_version=3")
    with pytest.raises(RunError, match="must be a memory of version 2; got version 3"):
        Memory.open(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match=r"m\.sqlite must be"):
        memory = Memory.open(path)
        [memory.query(point(number, 0)) for number in range(3)]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM regions WHERE id = 2", "regions after 0 in .* must be whole"),
        ("DELETE FROM basis", "directions in .* must be whole"),
        ("UPDATE basis SET mean = x'00'", "directions in .* must be whole"),
        ("UPDATE regions SET coordinates = x'00' WHERE id = 3", "regions after 0 in .* must be whole"),
        ("DELETE FROM memory", "owner in .* must be whole"),
        ("UPDATE memory SET norm = 'l7'", "owner in .* must be whole"),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_missing_and_misshapen_values_are_refused(path, statement, words, frozen):
    change(path, statement)
    with pytest.raises(RunError, match=words):
        Memory.open(path, frozen)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("DROP TABLE regions; CREATE VIEW regions AS SELECT 1 AS id, 1 AS label, 9.0 AS radius, 9.0 AS certified, "
         "zeroblob(24) AS coordinates", "'regions' is a view"),
        (f"DROP TABLE memory; CREATE VIEW memory AS {ENDLESS} i AS identity, 'a', 'l2', '[2]' FROM n WHERE i < 0",
         "'memory' is a view"),
        (f"ALTER TABLE basis RENAME TO b; CREATE VIEW basis AS {ENDLESS} i AS id, '' AS mean, '' AS directions FROM n",
         "'basis' is a view"),
        ("CREATE TRIGGER t AFTER INSERT ON regions BEGIN UPDATE regions SET radius = 9 WHERE id = new.id; END",
         "'t' is a trigger"),
        ("CREATE TABLE more (id INTEGER)", "'more' is a table"),
        ("CREATE INDEX by_label ON regions (label)", "'by_label' is a index"),
        ("DROP TABLE vectors", "'vectors' is missing"),
        ("ALTER TABLE regions ADD COLUMN note TEXT", "'regions' is another table"),
        ("DROP TABLE vectors; CREATE TABLE vectors (id INTEGER PRIMARY KEY, y BLOB, x BLOB AS (y)) STRICT",
         "'vectors' is another table"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("frozen", [False, True])
def test_other_tables_views_and_triggers_are_refused_before_they_are_asked(path, script, words, frozen):
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    begun = time.monotonic()
    with pytest.raises(RunError, match=rf"must hold the tables of a memory and nothing else; .*{words}") as refused:
        Memory.open(path, frozen)
    assert time.monotonic() - begun < 2 and "\n" not in str(refused.value)


LOOSE = "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, ') STRICT', ')       ')"
TIGHT = "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, ')       ', ') STRICT')"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE regions SET radius = 9e999 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = -9e999 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = 0 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = -0.25 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = 2e38 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = 'wide' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = x'00' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET certified = 9e999 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET certified = 'much' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET label = -1 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET label = 1.5 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET label = 'cat' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET coordinates = 'text' WHERE id = 2", "regions after 0"),
        (f"UPDATE regions SET coordinates = x'000000000000F87F{'00' * 16}' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET coordinates = 7 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET id = -2 WHERE id = 2", "regions after 0"),
        ("INSERT INTO regions SELECT 0, label, radius, certified, coordinates FROM regions WHERE id = 1", "regions"),
        (f"UPDATE basis SET mean = x'000000000000F07F{'00' * 8}'", "directions"),
        ("UPDATE basis SET directions = 5", "directions"),
        ("UPDATE basis SET directions = 'long'", "directions"),
        ("UPDATE vectors SET x = 'text' WHERE id = 2", "centre of region 2"),
        ("UPDATE vectors SET x = 5 WHERE id = 2", "centre of region 2"),
        ("UPDATE vectors SET x = zeroblob(12) WHERE id = 2", "centre of region 2"),
        ("UPDATE vectors SET x = x'0000C07F00000000' WHERE id = 2", "centre of region 2"),
        ("UPDATE memory SET shape = '[' WHERE 1", "owner"),
        ("UPDATE memory SET shape = '[2.0]' WHERE 1", "owner"),
        ("UPDATE memory SET shape = '{}' WHERE 1", "owner"),
        ("UPDATE memory SET shape = '[true, 2]' WHERE 1", "owner"),
        ("UPDATE memory SET shape = '[1000000000000]' WHERE 1", "owner"),
        (f"UPDATE memory SET shape = '{'[' * 100_000}' WHERE 1", "owner"),
        ("UPDATE memory SET classifier = '' WHERE 1", "owner"),
        ("UPDATE memory SET identity = x'07' WHERE 1", "owner"),
        ("INSERT INTO memory SELECT * FROM memory", "owner"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("frozen", [False, True])
def test_damaged_cells_give_one_line(path, statement, words, frozen):
    """Tables are made loose, filled with what a strict one would refuse, and made strict again."""
    for script in (LOOSE, statement, TIGHT):
        connection = sqlite3.connect(path)
        connection.executescript(script)
        connection.close()
    with pytest.raises(RunError, match=rf"{words}.* in .* must be whole; got damaged or missing values") as refused:
        memory = Memory.open(path, frozen)
        [memory.query(point(number, 0)) for number in range(3)]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM vectors WHERE id = 2", "UPDATE vectors SET x = x'0000' WHERE id = 2"]
)
def test_a_lost_centre_is_missed_when_it_is_needed(path, statement):
    change(path, statement)
    memory = Memory.open(path)
    assert memory.query(point(0, 0)) is not None
    for ask in (lambda: memory.query(point(1, 0)), memory.check):
        with pytest.raises(RunError, match=r"centre of region 2 in .* must be whole"):
            ask()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE regions SET radius = 0.75, certified = 2 WHERE id = 3", "regions 2 and 3 of labels 1 and 2 must not"),
        ("UPDATE regions SET radius = 0.26 WHERE id = 3", "region 3 must be no larger than what was certified"),
        ("UPDATE regions SET coordinates = zeroblob(24) WHERE id = 3", "coordinates of region 3 must be its centre's"),
        ("UPDATE vectors SET x = (SELECT x FROM vectors WHERE id = 1) WHERE id = 3", "coordinates of region 3 must"),
    ],
)
def test_check_finds_what_was_tampered_with(path, statement, words):
    with Memory.open(path) as memory:
        assert memory.check() == []
    change(path, statement)
    with Memory.open(path, frozen=True) as memory:
        wrong = memory.check()
    assert wrong[0].startswith(words)


def test_create_touches_nothing_that_is_there(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"m\.sqlite must not exist yet; got a database that is in use"):
        Memory.create(path, "abc", "l2", (2,))
    assert path.read_bytes() == before
    (tmp_path / "text").write_text("mine\n" * 400)
    with pytest.raises(RunError, match="file is not a database"):
        Memory.create(tmp_path / "text", "abc", "l2", (2,))
    assert (tmp_path / "text").read_text() == "mine\n" * 400
    with pytest.raises(OutputError, match="must be writable; got: unable to open database file"):
        Memory.create(tmp_path / "no" / "folder", "abc", "l2", (2,))
    (tmp_path / "begun").touch()  # what a creation that was killed at its start leaves
    assert len(Memory.create(tmp_path / "begun", "abc", "l2", (2,))) == 0


def test_names_that_a_url_would_mistake(tmp_path):
    path = tmp_path / "a b?mode=ro#%20é.sqlite"
    Memory.create(path, "abc", "l2", (2,)).close()
    assert len(Memory.open(path)) == 0 and path.is_file()


def test_a_full_disk_costs_what_does_not_fit_and_nothing_else(tmp_path):
    memory = Memory.create(tmp_path / "m", "abc", "l2", (3000,))
    rng = np.random.default_rng(0)
    points = rng.random((40, 3000), dtype=np.float32)
    connection = memory._store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages + 50}")  # the disk ends here
    kept = 0
    with pytest.raises(OutputError, match=r"must be writable; got: database or disk is full \(regions already stored"):
        for x in points:
            memory.admit(x, 0, 0.5)
            kept += 1
    assert 5 < kept < 30 and memory.query(points[kept]) is None
    assert all(memory.query(x) is not None for x in points[:kept])
    connection.execute("PRAGMA max_page_count=1000000")
    assert memory.admit(points[kept], 1, 0.5).stored and memory.query(points[kept]).number == kept + 1
    assert memory.check() == [] and memory.stats().regions == kept + 1


def test_an_error_half_way_leaves_the_file_and_the_index_as_they_were(path, monkeypatch):
    memory = Memory.open(path)
    calls = iter([smoothcert.memory.settle] * 2)
    monkeypatch.setattr(smoothcert.memory, "settle", lambda *offer: next(calls)(*offer))
    with pytest.raises(StopIteration):
        memory._admit_all([(point(number, 9), 0, 0.25) for number in range(3)])
    assert memory.query(point(0, 9)) is None and len(memory) == 3 and memory.query(point(1, 0)).number == 2
    assert Memory.open(path).stats().regions == 3


def test_a_lock_that_is_never_released_is_reported(path, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.05)
    memory = Memory.open(path)
    with Memory.open(path)._store.writing():
        assert memory.query(point(1, 0)).label == 1  # readers do not wait
        with pytest.raises(OutputError, match="must be writable; got: database is locked"):
            memory.admit(point(5, 5), 1, 0.5)
    assert memory.admit(point(5, 5), 1, 0.5).stored


def test_frozen_where_nothing_can_be_written(path, tmp_path, monkeypatch):
    """As on a read-only disk: SQLite cannot make the file that readers share."""
    tables = sqlite._tables
    attempts = []

    def refusing(connection):
        attempts.append(connection)
        if len(attempts) % 2:
            raise sqlite3.OperationalError("unable to open database file")
        return tables(connection)

    monkeypatch.setattr(sqlite, "_tables", refusing)
    with Memory.open(path, frozen=True) as memory:
        assert memory.query(point(2, 0)).label == 2
    attempts.clear()
    writer = Memory.open(path)
    writer.admit(point(7, 7), 1, 0.5)  # still in the journal
    for name in ("m.sqlite", "m.sqlite-wal"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    with pytest.raises(RunError, match="must be closed before it is read where nothing can be written"):
        Memory.open(tmp_path / "copy" / "m.sqlite", frozen=True)
