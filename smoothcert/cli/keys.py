"""`smoothcert keys`: who may use a service, for what, and how much."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from smoothcert.cli.console import Json, print_grid, print_json, put, say, wrote
from smoothcert.errors import OptionError
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.server.keys import Scope

app = typer.Typer(help="Add, list and revoke the keys of a service.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name the client.")]
File = Annotated[Path, typer.Option(help="Keep the keys in this file, which `smoothcert serve` watches.")]
DEFAULT = Path("keys.toml")


@app.command("add")
def add(
    name: Name,
    scope: Annotated[str, typer.Option(help="Allow these, separated by commas: predict, certify, evidence.")],
    requests_per_minute: Annotated[
        int, typer.Option(help="Allow this many requests a minute; 0 allows any number.")
    ] = 0,
    draws_per_minute: Annotated[int, typer.Option(help="Allow this many draws a minute; 0 allows any number.")] = 0,
    file: File = DEFAULT,
) -> None:
    """Make a key and print it once.

    The file keeps only its hash.

    smoothcert keys add alice --scope predict,certify,evidence --draws-per-minute 10000000
    """
    from smoothcert.server.keys import SCOPES, add_key

    scopes = [part.strip() for part in scope.split(",")]
    if other := [part for part in scopes if part not in SCOPES]:
        raise OptionError(f"scope of a key must be among {', '.join(SCOPES)}; got '{other[0]}'")
    secret = add_key(file, name, cast("list[Scope]", scopes), requests_per_minute, draws_per_minute)
    wrote(file)
    remark(f"this is the key of {name}; it is kept nowhere, and sent as `Authorization: Bearer KEY`")
    put(secret)


@app.command("list")
def list_(file: File = DEFAULT, as_json: Json = False) -> None:
    """List the keys, their scopes and their limits.

    smoothcert keys list
    """
    from smoothcert.server.keys import read_keys

    keys = read_keys(file)
    if as_json:
        fields = ("name", "scopes", "requests_per_minute", "draws_per_minute", "created", "revoked")
        print_json([{field: getattr(key, field) for field in fields} for key in keys])
        return
    lines = [
        (key.name, ",".join(key.scopes), _limit(key.requests_per_minute), _limit(key.draws_per_minute),
         key.created[:10] or "–", key.revoked[:10] or "–")
        for key in keys
    ]  # fmt: skip
    heads = ("name", "scopes", "requests a minute", "draws a minute", "created", "revoked")
    print_grid(120, heads, lines, words=("scopes", "created", "revoked"))


@app.command("revoke")
def revoke(name: Name, file: File = DEFAULT) -> None:
    """Revoke a client's key.

    A running service notices within a second or two.

    smoothcert keys revoke alice
    """
    from smoothcert.server.keys import revoke_key

    revoke_key(file, name)
    wrote(file)
    say(f"the key of {name} is revoked")


def _limit(per_minute: int) -> str:
    return f"{per_minute:,}" if per_minute else "–"
