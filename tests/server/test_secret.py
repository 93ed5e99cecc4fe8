"""The secret of a service: one process has it, its hash is published, it is told when it is retired, and only then."""

from __future__ import annotations

import json
import stat

import pytest

from smoothcert.errors import OutputError, RunError
from smoothcert.server import secret
from smoothcert.spec import hash_of_secret


def test_it_stays_the_same_until_it_is_told(tmp_path):
    with secret.held(tmp_path / "s") as first:
        assert len(first.value) == 32
    assert stat.S_IMODE((tmp_path / "s" / "secret").stat().st_mode) == 0o600
    with secret.held(tmp_path / "s") as again:
        assert again == first
    told = json.loads(secret.reveal(tmp_path / "s").read_text())
    assert bytes.fromhex(told["secret"]) == first.value and told["commitment"] == hash_of_secret(first.value)
    with secret.held(tmp_path / "s") as next_one:
        assert next_one != first


def test_a_service_that_runs_keeps_it_for_itself(tmp_path):
    with secret.held(tmp_path), pytest.raises(OutputError, match="must be of one service at a time"):
        secret.reveal(tmp_path)
    with secret.held(tmp_path), pytest.raises(OutputError, match="another one is running"), secret.held(tmp_path):
        pass
    assert (tmp_path / "secret").exists() and not (tmp_path / "told").exists()


def test_it_never_shows(tmp_path):
    with secret.held(tmp_path) as held:
        assert held.value.hex() not in repr(held) and held.value.hex() not in f"{held}"
        assert held.commitment in repr(held)


def test_what_is_no_secret_is_refused(tmp_path):
    with pytest.raises(RunError, match="there is none"):
        secret.reveal(tmp_path)
    (tmp_path / "secret").write_text("abc")
    with pytest.raises(RunError, match="must hold 32 bytes in hexadecimal"), secret.held(tmp_path):
        pass
