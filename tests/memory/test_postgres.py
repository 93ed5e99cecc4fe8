"""A memory in PostgreSQL: refused when it is none, whole when connections break, and silent about passwords."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from cut_link import CutLink

from smoothcert.errors import OptionError, OutputError, RunError
from smoothcert.memory import Memory, address
from smoothcert.memory.address import Address, shown


def point(*values):
    return np.array(values, dtype=np.float32)


@pytest.fixture
def url(postgres):
    """A closed memory of three regions in two dimensions."""
    url = postgres.url()
    with Memory.create(url, "abc", "l2", (2,)) as memory:
        for number in range(3):
            memory.admit(point(number, 0), number, 0.25)
    return url


def name(url):
    return Address.parse(url).name


def change(postgres, url, *statements):
    for statement in statements:
        postgres.sql(f"SET search_path = {name(url)}; {statement}")


def sessions(postgres, url):
    """Server processes that have this memory open."""
    ask = (
        "SELECT pid FROM pg_locks JOIN pg_namespace ON objid = pg_namespace.oid "
        "WHERE locktype = 'advisory' AND nspname = %s"
    )
    return [pid for (pid,) in postgres.sql(ask, name(url))]


def test_a_url_is_shown_without_what_is_secret():
    url = "postgresql://ann:s3cret@host:1/db?password=s3cret&sslpassword=s3cret&sslmode=require&options=-c%20a%3Ds3cret"
    assert shown(url) == "postgresql://ann@host:1/db?sslmode=require&memory=memory"
    assert shown("postgres://ann:p@s3cret@h/db?memory=one") == "postgres://ann@h/db?memory=one"
    at = Address.parse("postgresql://h1:1,h2:2/db?memory=two&connect_timeout=3")
    assert (at.name, at.conninfo) == ("two", "postgresql://h1:1,h2:2/db?connect_timeout=3")
    with pytest.raises(OptionError, match="must have each") as refused:
        shown("postgresql://ann:s3?cret@host/db")
    assert "s3" not in str(refused.value)
    assert not address.is_url("m.sqlite") and shown("m.sqlite").endswith("/m.sqlite")


@pytest.mark.parametrize("bad", ["", "A", "1a", "a-b", 'a"b', "pg_a", "a" * 64, "é", "a b"])
def test_names_that_no_memory_can_have_are_refused(bad):
    with pytest.raises(OptionError, match="memory= of a URL must be a name of small letters"):
        Memory.open(f"postgresql://h/db?memory={bad}")


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("postgresql://ann:s3cret%zz@127.0.0.1:1/db", OptionError, "got one that libpq cannot read"),
        ("postgresql://ann:s3cret@127.0.0.1:x/db", (OptionError, RunError), "URL of a memory must|must be reachable"),
        ("postgresql://ann:s3cret@127.0.0.1:1/db?no_such=s3cret", OptionError, "got one that libpq cannot read"),
        ("postgresql://ann:s3cret@127.0.0.1:1/db?sslmode=much", RunError, "must be reachable; got"),
        ("postgresql://ann:s3cret@127.0.0.1:1/db", RunError, r"ann@127.0.0.1:1/db\?memory=memory must be reachable"),
    ],
)
def test_what_cannot_be_reached_gives_one_line_without_the_password(url, error, words):
    for ask in (Memory.open, lambda url: Memory.make(url, "abc", "l2", (2,))):
        with pytest.raises(error, match=words) as refused:
            ask(url)
        assert "s3cret" not in str(refused.value) and "\n" not in str(refused.value)


def test_psycopg_is_asked_for_in_one_line(monkeypatch):
    monkeypatch.setattr(address, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"psycopg must be installed .* pip install 'smoothcert\[server\]'"):
        Memory.open("postgresql://h/db")


def test_what_is_no_memory_is_refused(postgres, url):
    with pytest.raises(RunError, match="must be a memory; there is no such schema"):
        Memory.open(postgres.url())
    with pytest.raises(RunError, match="memory=public must be a memory of smoothcert; got another schema"):
        Memory.open(postgres.url("public"))
    with pytest.raises(OutputError, match="memory=public must not exist yet"):
        Memory.create(postgres.url("public"), "abc", "l2", (2,))
    postgres.sql(f"COMMENT ON SCHEMA {name(url)} IS 'smoothcert memory, version 3'")
    with pytest.raises(RunError, match="must be a memory of version 2; got version 3"):
        Memory.open(url)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE vectors",
        "CREATE TABLE more (id int)",
        "ALTER TABLE regions ADD COLUMN note text",
        "ALTER TABLE regions ALTER COLUMN radius TYPE real",
        "ALTER TABLE regions RENAME TO r; CREATE VIEW regions AS SELECT * FROM r",
        "CREATE RULE r AS ON INSERT TO regions DO INSTEAD NOTHING",
        "ALTER TABLE regions ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE public.child_{} () INHERITS (regions)",
        "CREATE FUNCTION public.f_{}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER t BEFORE INSERT ON regions FOR EACH ROW EXECUTE FUNCTION public.f_{}()",
    ],
)
def test_other_tables_views_and_triggers_are_refused(postgres, url, statement):
    change(postgres, url, statement.replace("{}", name(url)))
    with pytest.raises(RunError, match=r"must hold the tables of a memory and nothing else; '.*' is"):
        Memory.open(url)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM regions WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET id = -2 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = 'NaN' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET radius = 0 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET certified = 'Infinity' WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET label = -1 WHERE id = 2", "regions after 0"),
        ("UPDATE regions SET coordinates = '\\x00' WHERE id = 2", "regions after 0"),
        ("DELETE FROM basis", "directions"),
        ("UPDATE basis SET mean = '\\x00'", "directions"),
        ("DELETE FROM vectors WHERE id = 2", "centre of region 2"),
        ("UPDATE vectors SET x = '\\x0000c07f00000000' WHERE id = 2", "centre of region 2"),
        ("DELETE FROM memory", "owner"),
        ("INSERT INTO memory SELECT * FROM memory", "owner"),
        ("UPDATE memory SET shape = '[2.0]'", "owner"),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_damaged_cells_give_one_line(postgres, url, statement, words, frozen):
    change(postgres, url, statement)
    with pytest.raises(RunError, match=rf"{words}.* in .* must be whole; got damaged or missing values") as refused:
        memory = Memory.open(url, frozen)
        [memory.query(point(number, 0)) for number in range(3)]
    assert "\n" not in str(refused.value)


def test_several_memories_share_a_database_and_not_a_region(postgres, url):
    other = Memory.create(postgres.url(), "xyz", "l1", (2,))
    assert other.query(point(1, 0)) is None and other.admit(point(1, 0), 7, 0.5).seen == 0
    with Memory.open(url) as memory:
        assert memory.query(point(1, 0)).label == 1 and memory.identity != other.identity


def test_numbers_follow_on_each_other_though_a_transaction_was_rolled_back(url, monkeypatch):
    memory = Memory.open(url)
    with pytest.raises(ZeroDivisionError), memory._store.writing():
        memory._regions.keep(point(9, 9), 1, 0.25, 0.25)
        raise ZeroDivisionError
    memory._regions.forget()
    assert memory.admit(point(5, 5), 1, 0.25).seen == 3 and memory.query(point(5, 5)).number == 4
    assert memory.query(point(9, 9)) is None


def test_what_is_read_together_is_of_one_moment(url):
    memory, other = Memory.open(url), Memory.open(url)
    with memory._store.reading():
        before = memory._store.stamp()
        assert other.admit(point(5, 5), 1, 0.25).stored
        assert memory._store.stamp() == before and sum(len(found) for _, found in memory._store.regions(0)) == 3
    assert memory._store.stamp() != before and memory.query(point(5, 5)).number == 4


def test_a_lock_that_is_never_released_is_reported(url, monkeypatch):
    other = Memory.open(url)
    monkeypatch.setattr(address, "PATIENCE", 0.2)
    memory = Memory.open(url)
    monkeypatch.undo()
    with other._store.writing():
        assert memory.query(point(1, 0)).label == 1  # readers do not wait
        with pytest.raises(OutputError, match=r"must be writable; got: .*lock timeout"):
            memory.admit(point(5, 5), 1, 0.5)
    assert memory.admit(point(5, 5), 1, 0.5).stored


def test_a_process_that_stands_still_in_an_admission_does_not_stop_the_others(url, monkeypatch):
    memory, still = Memory.open(url), Memory.open(url)
    monkeypatch.setattr(address, "PATIENCE", 0.2)
    standing = still._store.writing()
    standing.__enter__()
    still._regions.catch_up()
    still._regions.keep(point(5, 5), 2, 0.25, 0.25)
    monkeypatch.undo()
    assert memory.admit(point(5, 5), 1, 0.25).stored  # as soon as the other has lost its turn
    with pytest.raises(RunError, match=r"must stay reachable; got: .*idle-in-transaction timeout"):
        standing.__exit__(None, None, None)
    still._regions.forget()
    assert still.query(point(5, 5)).label == 1 and still.stats().regions == 4


def test_an_admission_is_on_the_disk_whatever_the_session_was_told(url):
    memory = Memory.open(f"{url}&options=-c%20synchronous_commit%3Doff")
    assert memory._store._link.rows("SHOW synchronous_commit") == [("on",)]
    stronger = Memory.open(f"{url}&options=-c%20synchronous_commit%3Dremote_apply")
    assert stronger._store._link.rows("SHOW synchronous_commit") == [("remote_apply",)]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_is_not_noticed_by_those_who_ask(postgres, url, mode):
    memory, frozen = Memory.open(url), Memory.open(url, frozen=True)
    postgres.restart(mode)
    assert memory.query(point(1, 0)).label == 1 and frozen.query(point(2, 0)).label == 2
    postgres.restart(mode)
    assert memory.admit(point(5, 5), 1, 0.25) == (1, pytest.approx(0.25), None, None, True, 3)
    postgres.restart(mode)
    assert memory.check() == [] and memory.stats().regions == 4 and frozen.query(point(5, 5)) is None


def test_a_server_that_comes_back_late_is_waited_for(postgres, url):
    memory = Memory.open(url)
    postgres.stop("immediate")
    late = threading.Timer(0.5, postgres.start)
    late.start()
    assert memory.query(point(1, 0)).label == 1
    late.join()


def test_a_server_that_stays_away_is_reported(postgres, url, monkeypatch):
    memory = Memory.open(url)
    monkeypatch.setattr(address, "PATIENCE", 0.2)
    postgres.stop("fast")
    try:
        for ask in (lambda: memory.query(point(1, 0)), lambda: memory.admit(point(5, 5), 1, 0.5)):
            begun = time.monotonic()
            with pytest.raises(RunError, match="must be reachable; got: ") as refused:
                ask()
            assert time.monotonic() - begun < 30 and "\n" not in str(refused.value)
    finally:
        postgres.start()
    assert memory.query(point(1, 0)).label == 1 and memory.admit(point(5, 5), 1, 0.5).seen == 3


def test_a_session_that_is_ended_in_the_middle_of_an_admission_leaves_nothing_behind(postgres, url, monkeypatch):
    memory, ended = Memory.open(url), []
    insert = memory._store.insert

    def interrupted(region):
        number = insert(region)
        if not ended:
            ended.extend(sessions(postgres, url))
            [postgres.sql("SELECT pg_terminate_backend(%s)", pid) for pid in ended]
        return number

    monkeypatch.setattr(memory._store, "insert", interrupted)
    assert memory.admit(point(5, 5), 1, 0.25).seen == 3 and len(ended) == 1
    with Memory.open(url) as other:
        assert other.stats().regions == 4 and other.check() == []


@pytest.mark.parametrize("cut", ["before", "after"])
def test_an_unanswered_commit_is_settled_and_nothing_is_stored_twice(url, cut):
    wire = CutLink(url)
    memory = Memory.open(wire.url)
    wire.cut = cut
    told = memory.admit(point(5, 5), 1, 0.25)
    assert wire.cut is None and (told.stored, told.seen, told.label) == (True, 3, 1)
    assert wire.commits == (2 if cut == "before" else 1)  # what was committed is not done again
    assert memory.query(point(5, 5)).number == 4 and memory.admit(point(6, 6), 2, 0.25).seen == 4
    with Memory.open(url) as other:
        assert other.stats().regions == 5 and other.check() == []
    wire.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_many_offers_of_one_transaction_with_an_unanswered_commit(url, cut):
    """Offers that were stored, offers that were not, and one made twice are answered as if nothing had been."""
    offers = [(point(5, 5), 1, 0.25), (point(5, 5), 1, 0.25), (point(0, 0), 7, 0.5), (point(5.3, 5), 2, 0.25)]
    wire, quiet = CutLink(url), Memory.open(url)
    memory = Memory.open(wire.url)
    wire.cut = cut
    told = memory._admit_all(offers)
    assert [(one.stored, one.conflict, one.seen) for one in told] == [
        (True, None, 3), (False, None, 4), (False, "switched", 4), (True, "shrunk", 4),
    ]  # fmt: skip
    assert quiet.stats().regions == 5 and quiet.check() == []
    wire.close()


def test_an_older_state_of_the_database_is_refused(postgres, url):
    memory = Memory.open(url)
    assert memory.query(point(1, 0)).label == 1
    change(postgres, url, "DELETE FROM vectors WHERE id = 3; DELETE FROM regions WHERE id = 3")
    with pytest.raises(RunError, match="must hold the 3 regions it held before; got 2: an older state"):
        memory.query(point(1, 0))


def test_another_memory_in_its_place_is_refused(postgres, url):
    memory = Memory.open(url)
    postgres.restart("fast")
    postgres.sql(f"DROP SCHEMA {name(url)} CASCADE")
    Memory.create(url, "abc", "l2", (2,)).close()
    with pytest.raises(RunError, match=r"must be the memory it was, .*; got another one"):
        memory.query(point(1, 0))


def test_a_memory_that_was_closed_stays_closed(url):
    memory = Memory.open(url)
    memory.close()
    with pytest.raises(RunError, match="must be open; got a connection that was closed"):
        memory.query(point(1, 0))


def test_frozen_needs_no_more_than_to_read(postgres, url):
    postgres.sql("DROP ROLE IF EXISTS reader_of_m")
    postgres.sql("CREATE ROLE reader_of_m LOGIN")
    postgres.sql(f"GRANT USAGE ON SCHEMA {name(url)} TO reader_of_m")
    postgres.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name(url)} TO reader_of_m")
    theirs = url.replace("tests@", "reader_of_m@")
    with Memory.open(theirs, frozen=True) as memory:
        assert memory.query(point(1, 0)).label == 1 and memory.check() == []
    with Memory.open(theirs) as memory, pytest.raises(OutputError, match="must be writable; got: permission denied"):
        memory.admit(point(5, 5), 1, 0.5)
    with pytest.raises(OutputError, match="must be writable; got: permission denied for database"):
        Memory.create(postgres.url().replace("tests@", "reader_of_m@"), "abc", "l2", (2,))
    postgres.sql("DROP OWNED BY reader_of_m; DROP ROLE reader_of_m")


def test_discarded_only_if_empty_and_nobody_has_it_open(postgres, url):
    Memory.discard(url)
    Memory.open(url).close()
    empty = postgres.url()
    with Memory.create(empty, "abc", "l2", (2,)):
        Memory.discard(empty)
        Memory.open(empty).close()
    while sessions(postgres, empty):  # a server process ends a moment after its connection
        time.sleep(0.01)
    Memory.discard(empty)
    with pytest.raises(RunError, match="there is no such schema"):
        Memory.open(empty)
    Memory.discard(empty)
    Memory.discard(postgres.url("public"))
    assert postgres.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'public'") == [(1,)]
