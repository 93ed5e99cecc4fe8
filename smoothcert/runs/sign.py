"""Signatures: who vouches for a run, or for one certificate.

What is signed is an in-toto statement (https://in-toto.io/Statement/v1) in a DSSE envelope, by Ed25519: of a run the
last link of its chain, which stands for every row and every recipe there was, with the question and the claim in plain
sight; of a certificate the hash of the whole document. The statement is made anew from what is there and must be the
same; then the signature must be by a key that the reader trusts. Keys are those of `openssl genpkey` and `ssh-keygen`.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import foreign
from smoothcert.errors import OptionError, OutputError, RunError
from smoothcert.files import write_whole
from smoothcert.runs.run import Run
from smoothcert.runs.store import links

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FILE = "signature.json"
PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
LARGEST_KEY = 2**16  # bytes
UNSIGNED = "it is not signed: all this shows that it is consistent, not who made it"


@dataclass(frozen=True)
class OneSignature:
    """By one key."""

    keyid: str
    sig: str


@dataclass(frozen=True)
class Envelope:
    """As DSSE has it."""

    payload: str
    payloadType: str  # noqa: N815 — the standard's own name
    signatures: tuple[OneSignature, ...]


@dataclass(frozen=True, eq=False)
class TrustedKey:
    """Somebody's public key, and what to call its owner."""

    name: str
    key: Ed25519PublicKey


def statement_of_run(run: Run) -> dict[str, Any]:
    """What a signature of a run says; refused where its chain does not hold."""
    if run.folder is None:
        raise RunError(f"{run.name} must be a run of smoothcert to be signed; got a log")
    problems, end = links(run.folder)
    if problems:
        raise RunError(f"run {run.name} must be as it was written to be signed; {problems[0]}")
    about = {
        "question": run.asked.tables(), "claim": dataclasses.asdict(run.claim), "entries": end.place,
        "rows": len(run.rows), "inputs": run.inputs,
    }  # fmt: skip
    return _statement("run", end.link.hex(), about)


def statement_of_document(table: Mapping[str, Any]) -> dict[str, Any]:
    """What a signature of a certificate document says; the document is without its signature."""
    about = {"answer": table.get("answer"), "words": table.get("words")}
    return _statement("certificate", hashlib.sha256(_canonical(table)).hexdigest(), about)


def _statement(what: str, digest: str, about: Mapping[str, Any]) -> dict[str, Any]:
    subject = [{"name": what, "digest": {"sha256": digest}}]
    made = {"_type": STATEMENT, "subject": subject, "predicateType": f"urn:smoothcert:{what}:1", "predicate": about}
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


def signed(statement: Mapping[str, Any], key: Ed25519PrivateKey, also: Any = None) -> dict[str, Any]:
    """The envelope; with the signatures of `also`, an earlier one, where that is of the same statement."""
    payload = _canonical(statement)
    kept: list[OneSignature] = []
    if also is not None:
        before = _envelope(also)
        kept = [one for one in before.signatures if one.keyid != key_id(key.public_key())]
        kept = kept if _decoded(before.payload) == payload else []
    mine = OneSignature(key_id(key.public_key()), base64.b64encode(key.sign(_encoded(payload))).decode())
    envelope = Envelope(base64.b64encode(payload).decode(), PAYLOAD, (*kept, mine))
    table: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(envelope)))
    return table


def checked(
    envelope: Any, statement: Callable[[], Mapping[str, Any]], trusted: Sequence[TrustedKey]
) -> tuple[list[str], list[str], list[str]]:
    """Of an envelope, or of None where there is none: what is wrong, what is left open, and which trusted keys signed.

    `statement` makes anew what must have been signed.
    """
    if envelope is None:
        return (["it must be signed by a trusted key; it is not signed"] if trusted else []), [UNSIGNED], []
    found = _envelope(envelope)
    payload, ids = _decoded(found.payload), ", ".join(one.keyid[:16] for one in found.signatures)
    signers = [one.name for one in trusted if any(_holds(one.key, mark.sig, payload) for mark in found.signatures)]
    problems, left = _other(payload, statement), list[str]()
    if not trusted:
        left.append(f"it carries signatures of keys {ids}, which were not checked (--trust): this shows no origin")
    elif not signers:
        problems.append(f"it must be signed by a trusted key; it carries signatures of keys {ids}")
    return problems, left, signers


def _other(payload: bytes, statement: Callable[[], Mapping[str, Any]]) -> list[str]:
    """In what a signed statement is not the one that follows from what is there."""
    said = foreign.parse_json(payload, "the payload of a signature")
    try:
        made = dict(statement())
    except RunError as error:
        return [f"what was signed is not what is here: {error}"]
    if said == made:
        return []
    about, now = (one.get("predicate") if isinstance(one, dict) else None for one in (said, made))
    keys = [key for key in now or {} if not isinstance(about, dict) or about.get(key) != (now or {})[key]]
    return [f"what was signed is not what is here: {', '.join(keys) or 'entries'} differ since then"]


def _holds(key: Ed25519PublicKey, mark: str, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(_decoded(mark), _encoded(payload))
        return True
    except InvalidSignature:
        return False


def _encoded(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed says of itself what it is, and how long."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def _envelope(table: Any) -> Envelope:
    try:
        found: Envelope = foreign.typed(Envelope, table, "signature")
    except (TypeError, ValueError) as error:
        raise RunError(f"a signature must be a DSSE envelope; got something else ({error})") from error
    if found.payloadType != PAYLOAD or not found.signatures:
        raise RunError(f"a signature must be one of {PAYLOAD}; got {foreign.shown(found.payloadType)}")
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise RunError(f"a signature must be base64; got something else ({error})") from error


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sign_run(run: Run, key: Ed25519PrivateKey) -> Path:
    """Write the signature of a run into its folder, beside those of other keys."""
    made = signed(statement_of_run(run), key, signature_of(run))
    path = (run.folder or Path()) / FILE
    write_whole(path, json.dumps(made, indent=1).encode() + b"\n")
    return path


def signature_of(run: Run) -> Any:
    """The envelope in a run's folder; None where there is none."""
    path = None if run.folder is None else run.folder / FILE
    if path is None or not path.exists():
        return None
    return foreign.parse_json(foreign.content(path, "signature"), f"signature '{path}'")


def key_id(key: Ed25519PublicKey) -> str:
    """The hash of a public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def read_private(path: Path) -> Ed25519PrivateKey:
    """An Ed25519 key of OpenSSL (PEM) or OpenSSH, without a passphrase."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    held = foreign.content(path, "key", OptionError, LARGEST_KEY)
    read = load_ssh_private_key if b"OPENSSH" in held else load_pem_private_key
    try:
        key = read(held, None)
    except Exception as error:  # a foreign file can provoke anything in its reader
        raise OptionError(f"key '{path}' must be an Ed25519 private key, open; got: {_first(error)}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(f"key '{path}' must be an Ed25519 private key; got another kind")
    return key


def read_trusted(path: Path) -> TrustedKey:
    """A public key of OpenSSL (PEM) or OpenSSH; its owner is named by OpenSSH's comment, or else by the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

    held = foreign.content(path, "public key", OptionError, LARGEST_KEY)
    openssh = held.startswith(b"ssh-")
    try:
        key = load_ssh_public_key(held) if openssh else load_pem_public_key(held)
    except Exception as error:  # as above
        raise OptionError(f"public key '{path}' must be one of Ed25519; got: {_first(error)}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise OptionError(f"public key '{path}' must be one of Ed25519; got another kind")
    comment = " ".join(held.decode(errors="replace").split()[2:]) if openssh else ""
    return TrustedKey(f"{comment or path.stem} (key {key_id(key)[:16]})", key)


def new_key(path: Path) -> Path:
    """Make a key, for its owner's eyes only, and its public half beside it, as PATH.pub."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(f"{path.name}.pub")
    for one in (path, public):
        if one.exists():
            raise OutputError(f"{one} must not exist yet; got a file, which may be somebody's key")
    key = Ed25519PrivateKey.generate()
    held = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    shown = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    write_whole(path, held, mode=0o600)
    write_whole(public, shown)
    return public


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
