"""Keys: kept hashed, found in constant time over all of them, watched for changes; and the command that makes them."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest
from live import Clock

from smoothcert.cli.main import run
from smoothcert.errors import OptionError, RunError
from smoothcert.server.keys import KeyRing, add_key, hashed, read_keys, revoke_key


def test_a_key_opens_until_it_is_revoked(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.toml", Clock()
    first, second = add_key(file, "alice", ["predict", "certify"], 60, 1000), add_key(file, "bob", ["evidence"])
    ring = KeyRing(file, clock)
    found = ring.find(first)
    assert found is not None and (found.name, found.scopes) == ("alice", ("predict", "certify"))
    assert (found.requests_per_minute, found.draws_per_minute) == (60, 1000)
    assert ring.find(second) is not None and ring.find(second).name == "bob"
    assert ring.find("") is ring.find(first[:-1]) is ring.find(hashed(first)) is ring.find("é\udcff") is None
    revoke_key(file, "alice")
    assert ring.find(first) is not None  # the file is looked at once a second
    clock.now = 1.0
    assert ring.find(first) is None and ring.find(second) is not None


def test_the_file_tells_no_key_and_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    keys = [add_key(file, name, ["predict"]) for name in ("a", "b")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(key in file.read_text() or key[4:] in file.read_text() for key in keys)
    assert [key.sha256 for key in read_keys(file)] == [hashed(key) for key in keys]
    assert all(key.startswith("smc_") and len(key) == 47 for key in keys) and keys[0] != keys[1]
    assert list(tmp_path.iterdir()) == [file]


def test_a_client_has_one_good_key_and_may_have_another_after_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    old = add_key(file, "alice", ["predict"])
    with pytest.raises(OptionError, match="must be new; 'alice' already has a valid key"):
        add_key(file, "alice", ["predict"])
    revoke_key(file, "alice")
    with pytest.raises(OptionError, match="must be that of a good one"):
        revoke_key(file, "alice")
    new = add_key(file, "alice", ["evidence"])
    ring = KeyRing(file)
    assert ring.find(old) is None and ring.find(new) is not None


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("[[key]]\nname = 1\n")])
def test_a_file_that_became_unreadable_leaves_the_keys_and_is_logged(tmp_path, spoil, caplog) -> None:
    file, clock = tmp_path / "keys.toml", Clock()
    key = add_key(file, "alice", ["predict"])
    ring = KeyRing(file, clock)
    spoil(file)
    with caplog.at_level(logging.ERROR, "smoothcert.server"):
        for clock.now in (1.0, 2.0, 3.0):
            assert ring.find(key) is not None
    assert [record.getMessage() for record in caplog.records] == [
        "keys could not be read again; those read before stay"
    ]


GOOD = f'name = "a"\nsha256 = "{"0" * 64}"\nscopes = ["predict"]\n'
OTHER, NONE = GOOD.replace('"a"', '"b"'), GOOD.replace('["predict"]', "[]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it holds no key"),
        ("key = 1", "key"),
        (f"[[key]]\n{GOOD}[[key]]\n{GOOD}", "a name stands there twice"),
        (f"[[key]]\n{GOOD}[[key]]\n{OTHER}", "a sha256 stands there twice"),
        (f"[[key]]\n{GOOD}other = 1", "no field of key"),
        (f"other = 1\n[[key]]\n{GOOD}", "no table is called 'other'"),
        (f"[[key]]\n{GOOD.replace('predict', 'all')}", "must be one of predict, certify, evidence; got 'all'"),
        (f"[[key]]\n{NONE}", "scope of key a must be among"),
        (f"[[key]]\n{GOOD.replace('000', 'xyz')}", "sha256 of key a must be 64 hexadecimal digits"),
        (f"[[key]]\n{GOOD}requests_per_minute = -1", "requests_per_minute of key a must be a whole number"),
        (f"[[key]]\n{GOOD}draws_per_minute = 1.5", "must be a whole number"),
        ("\0", "must be TOML"),
    ],
)
def test_files_that_are_no_keys_files(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(RunError) as refused:
        KeyRing(file)
    assert said in str(refused.value)


def test_the_command_prints_the_key_alone(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["keys", "add", "alice", "--scope", "predict,certify", "--draws-per-minute", "5000"]) == 0
    said = capsys.readouterr()
    (key,) = said.out.splitlines()
    found = KeyRing(Path("keys.toml")).find(key)
    assert found is not None and found.draws_per_minute == 5000 and key not in said.err
    assert run(["keys", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["name"] == "alice" and listed["scopes"] == ["predict", "certify"] and "sha256" not in listed
    assert run(["keys", "revoke", "alice"]) == 0 and "the key of alice is revoked" in capsys.readouterr().out
    assert run(["keys", "list"]) == 0 and "alice" in capsys.readouterr().out
    assert run(["keys", "add", "bob", "--scope", "all"]) == 2
    assert "scope of a key must be among predict, certify, evidence; got 'all'" in capsys.readouterr().err
