"""Signatures: keys of other tools are read, what was signed is checked to the letter, and keys are told apart."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import small_run
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from smoothcert.cli.main import run
from smoothcert.errors import OptionError, OutputError, RunError
from smoothcert.runs import sign
from smoothcert.runs.store import read


@pytest.fixture
def made(tmp_path: Path) -> Path:
    small_run.make(tmp_path / "run", small_run.write_data(tmp_path / "data.npz"))
    return tmp_path / "run"


def findings(found: Path, *keys: Path) -> tuple[list[str], list[str], list[str]]:
    whole = read(found)
    trusted = [sign.read_trusted(key) for key in keys]
    return sign.checked(sign.signature_of(whole), lambda: sign.statement_of_run(whole), trusted)


def test_the_encoding_is_that_of_the_standard() -> None:
    """The example of the DSSE protocol, with its own payload type, byte by byte."""
    assert sign._encoded(b"hello") == b"DSSEv1 28 application/vnd.in-toto+json 5 hello"


def test_a_new_key_is_its_owners_alone_and_never_overwrites(tmp_path: Path) -> None:
    public = sign.new_key(tmp_path / "k")
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600 and public.name == "k.pub"
    with pytest.raises(OutputError, match="must not exist yet"):
        sign.new_key(tmp_path / "k")
    assert sign.read_trusted(public).name.startswith("k (key ")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_keys_of_openssl_sign_and_are_trusted(made: Path, tmp_path: Path) -> None:
    key, public = tmp_path / "o.pem", tmp_path / "alice.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    sign.sign_run(read(made), sign.read_private(key))
    problems, left, (signer,) = findings(made, public)
    assert problems == left == [] and signer.startswith("alice (key ")
    # And openssl itself says that the signature holds.
    envelope = json.loads((made / sign.FILE).read_text())
    (tmp_path / "payload").write_bytes(sign._encoded(base64.b64decode(envelope["payload"])))
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", tmp_path / "payload"]
    assert subprocess.run([*words, "-sigfile", tmp_path / "sig"], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")
def test_keys_of_openssh_sign_and_name_their_owner(made: Path, tmp_path: Path) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bob at the lab", "-f", key], check=True)
    sign.sign_run(read(made), sign.read_private(key))
    assert findings(made, tmp_path / "id.pub")[2][0].startswith("bob at the lab (key ")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked"], check=True)
    with pytest.raises(OptionError, match="must be an Ed25519 private key, open"):
        sign.read_private(tmp_path / "locked")


def test_several_sign_and_each_is_told(made: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        sign.new_key(tmp_path / name)
    for name in ("a", "b", "b"):
        sign.sign_run(read(made), sign.read_private(tmp_path / name))
    assert len(json.loads((made / sign.FILE).read_text())["signatures"]) == 2
    assert [name.split()[0] for name in findings(made, tmp_path / "a.pub", tmp_path / "b.pub")[2]] == ["a", "b"]
    problems, _, signers = findings(made, tmp_path / "c.pub")
    assert signers == [] and problems[0].startswith("it must be signed by a trusted key; it carries signatures of keys")
    (left,) = findings(made)[1]
    assert "which were not checked (--trust): this shows no origin" in left


def test_a_signature_moved_to_another_run_is_named(made: Path, tmp_path: Path) -> None:
    sign.new_key(tmp_path / "a")
    small_run.make(tmp_path / "other", tmp_path / "data.npz", seed=1)
    sign.sign_run(read(made), sign.read_private(tmp_path / "a"))
    shutil.copy(made / sign.FILE, tmp_path / "other" / sign.FILE)
    problems, _, signers = findings(tmp_path / "other", tmp_path / "a.pub")
    assert signers and problems == ["what was signed is not what is here: question differ since then"]


def test_a_payload_of_another_key_does_not_pass(made: Path, tmp_path: Path) -> None:
    """The statement is right, the mark is somebody else's; and a mark is bound to its payload."""
    sign.new_key(tmp_path / "a")
    sign.sign_run(read(made), Ed25519PrivateKey.generate())
    assert findings(made, tmp_path / "a.pub")[2] == []
    sign.sign_run(read(made), sign.read_private(tmp_path / "a"))
    envelope = json.loads((made / sign.FILE).read_text())
    envelope["payload"] = base64.b64encode(base64.b64decode(envelope["payload"]) + b" ").decode()
    (made / sign.FILE).write_text(json.dumps(envelope))
    assert findings(made, tmp_path / "a.pub")[2] == []


@pytest.mark.parametrize("text", [
    "", "[]", "{}", "[" * 10_000, '{"payload": 1, "payloadType": "x", "signatures": []}',
    '{"payload": "%", "payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid": "a", "sig": "b"}]}',
])  # fmt: skip
def test_what_is_no_signature_is_one_line(made: Path, text: str) -> None:
    (made / sign.FILE).write_text(text)
    with pytest.raises(RunError) as caught:
        findings(made)
    assert "\n" not in str(caught.value)


def test_what_is_no_key_is_one_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("no key")
    for path in (tmp_path / "fifo", tmp_path / "text", tmp_path, tmp_path / "absent"):
        assert run(["sign", str(made), "--key", str(path)]) == 2
        assert run(["verify", str(made), "--trust", str(path)]) == 2
        assert all("key" in line for line in capsys.readouterr().err.splitlines())
    for words in (["sign"], ["sign", str(made)], ["sign", str(made), "--key", "a", "--new-key", "b"]):
        assert run(words) == 2
    assert not (made / sign.FILE).exists()


def test_a_broken_chain_is_not_signed(made: Path, tmp_path: Path) -> None:
    import forging

    forging.sql(made, "UPDATE certificates SET radius = radius / 2 WHERE idx = 3")
    with pytest.raises(RunError, match="must be as it was written to be signed"):
        sign.sign_run(read(made), Ed25519PrivateKey.generate())
