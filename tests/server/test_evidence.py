"""Certificates of a service on disk: in a file and in PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from smoothcert.errors import OptionError, OutputError
from smoothcert.server import evidence
from smoothcert.server.evidence import KeptCertificate, open_evidence


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "evidence.sqlite")
    server = request.getfixturevalue("postgres")
    server.sql("DROP SCHEMA IF EXISTS smoothcert_evidence CASCADE")
    return server.url()


def kept(number, owner="alice", region=None):
    return KeptCertificate(f"id{number}", owner, {"n": number, "text": "ü"}, region)


def test_what_is_kept_is_found_by_its_owner_alone(place):
    store = open_evidence(place)
    store.keep([kept(1), kept(2, "bob")])
    store.close()
    again = open_evidence(place)
    assert again.find("id1", "alice") == {"n": 1, "text": "ü"}
    assert again.find("id1", "bob") is None and again.find("id1", "") is None and again.find("id3", "alice") is None
    again.close()


def test_regions_and_secrets(place):
    store = open_evidence(place)
    store.keep([kept(1, region=("m", 7)), kept(2)])
    assert store.of_region("m", 7) == "id1"
    assert store.of_region("m", 8) == store.of_region("other", 7) == ""
    assert store.told("c") == ""
    store.tell("c", "ab")
    store.tell("c", "other")  # the first one stays
    assert store.told("c") == "ab"
    store.close()


def test_one_sent_again_is_the_same(place):
    store = open_evidence(place)
    store.keep([kept(1)])
    store.keep([kept(1), kept(2)])
    assert store.find("id1", "alice")["n"] == 1 and store.find("id2", "alice")["n"] == 2
    store.close()


def test_several_threads_and_replicas_share_it(place):
    stores = [open_evidence(place) for _ in range(2)]

    def work(start):
        for number in range(start, start + 10):
            stores[number % 2].keep([kept(number)])

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(stores[0].find(f"id{number}", "alice")["n"] == number for number in range(40))
    for store in stores:
        store.close()


def test_a_database_that_comes_back_has_lost_nothing(postgres):
    store = open_evidence(postgres.url())
    store.keep([kept("before")])
    postgres.restart("immediate")
    store.keep([kept("after")])
    assert store.find("idbefore", "alice") and store.find("idafter", "alice")
    store.close()


def test_readers_do_not_wait_long_for_writers(place, monkeypatch):
    monkeypatch.setattr(evidence, "BRIEF", 0.05)
    store = open_evidence(place)
    store.keep([kept(1)])
    with store._lock:  # as who waits for a database holds it
        for ask in (lambda: store.find("id1", "alice"), lambda: store.told("c")):
            with pytest.raises(OutputError, match=r"must be free within 0\.05 s"):
                ask()
        store.close()  # leaves it be
    assert store.find("id1", "alice")
    store.close()


def test_a_database_that_stays_away_is_said_to_be(postgres, monkeypatch):
    monkeypatch.setattr(evidence, "BRIEF", 0.2)
    store = open_evidence(postgres.url())
    postgres.stop("fast")
    with pytest.raises(OutputError, match="must be reachable"):
        store.find("id1", "alice")
    postgres.start()
    assert store.find("nobody's", "alice") is None
    store.close()


def test_what_is_no_store_is_refused_in_one_line(tmp_path):
    with pytest.raises(OptionError, match="must be a file, or postgresql"):
        open_evidence(str(tmp_path))
    (tmp_path / "text").write_text("no database at all, but some text\n" * 100)
    with pytest.raises(OutputError, match="must be a database of its own"):
        open_evidence(str(tmp_path / "text"))
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE VIEW smoothcert_certificates AS SELECT 1 AS id")
    other.commit()
    other.close()
    with pytest.raises(OutputError, match="must be a database of its own"):
        open_evidence(str(tmp_path / "other")).keep([kept(1)])
