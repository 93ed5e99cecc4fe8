"""Seeds that nobody can have chosen: drawn in secret, committed to before the first draw, told when a run is complete.

A run whose seed was picked after looking at several is not what α says. With `--seed commit` the seed is drawn at
random; its hash, over question, attempt, seed and a nonce of 256 bits, is the first thing that the run's journal holds.
Seed and nonce lie in RUN/seed.secret, readable by their owner only, until every input has its row; then they go into
the recipe, and anybody can draw again. Whoever must believe that the hash came first should be given it at the start.

How often a question was begun with another seed is counted on the machine (SMOOTHCERT_CACHE/commitments) and stands in
the commitment itself, so that it cannot be changed afterwards: a second attempt says that it is one.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

from smoothcert import foreign
from smoothcert.errors import RunError
from smoothcert.files import cache_folder, write_whole, writing
from smoothcert.spec import Commitment, Recipe, Spec, committed

FILE = "seed.secret"


def with_secret_seed(spec: Spec, folder: Path) -> Spec:
    """The same with a seed that is committed to: that of the run in this folder, or a new one."""
    recipe = folder / "recipe.toml"
    if recipe.exists():
        return _continued(spec, folder, Recipe.read(recipe).spec)
    question, seed, nonce = spec.question, secrets.randbits(64), secrets.token_hex(32)
    attempt = _begun(question) + 1
    return replace(spec, seed=seed, commitment=Commitment(committed(question, attempt, seed, nonce), attempt, nonce))


def keep(spec: Spec, folder: Path) -> None:
    """Before the first entry of a run: its secret, for its owner's eyes, and one attempt more at its question."""
    if spec.commitment is None:
        return
    secret = {"seed": spec.seed, "nonce": spec.commitment.nonce, "attempt": spec.commitment.attempt}
    write_whole(folder / FILE, json.dumps(secret).encode() + b"\n", mode=0o600)
    path = _attempts(spec.question)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"+")


def _continued(spec: Spec, folder: Path, begun: Spec) -> Spec:
    """With the seed that the run in this folder has."""
    if begun.commitment is None:
        raise RunError(f"{folder} is a run with seed {begun.seed}; got --seed commit. Choose another --out")
    if begun.revealed:
        return replace(spec, seed=begun.seed, commitment=begun.commitment)
    path = folder / FILE
    table = foreign.parse_json(foreign.content(path, "the secret of a committed seed"), f"'{path}'")
    try:
        seed, nonce, attempt = (
            foreign.typed(kind, table[key], key) for key, kind in (("seed", int), ("nonce", str), ("attempt", int))
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"'{path}' must hold seed, nonce and attempt; it is damaged ({error})") from error
    digest = committed(spec.question, attempt, seed, nonce)
    if begun.commitment.digest != digest:
        raise RunError(f"{folder} answers another question, or '{path}' is not its secret; choose another --out")
    return replace(spec, seed=seed, commitment=Commitment(digest, attempt, nonce))


def told(folder: Path) -> None:
    """The secret is none any more: the recipe holds it."""
    (folder / FILE).unlink(missing_ok=True)


def _begun(question: str) -> int:
    """How often a run of this question was begun here."""
    path = _attempts(question)
    return len(foreign.content(path, "the count of attempts")) if path.exists() else 0


def _attempts(question: str) -> Path:
    return cache_folder() / "commitments" / question
