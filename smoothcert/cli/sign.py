"""`smoothcert sign`: vouch for a run by a key; `smoothcert verify --trust` names who did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import wrote
from smoothcert.errors import OptionError
from smoothcert.progress import remark


def command(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="Sign the run in this folder.")] = None,
    key: Annotated[Path | None, typer.Option(help="Sign with this Ed25519 private key, of OpenSSL or OpenSSH.")] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", help="First make a key in this file, and FILE.pub beside it.")
    ] = None,
) -> None:
    """Sign a run with your key.

    The signature covers every row, what was asked and how it was carried out. It is kept in the run's folder.

    smoothcert sign --new-key my.key
    smoothcert sign runs/a --key my.key
    smoothcert verify runs/a --trust my.key.pub
    """
    from smoothcert.runs import sign
    from smoothcert.runs.store import read

    if (key is None) == (new_key is None):
        raise OptionError(f"sign needs one of --key and --new-key; got {'none' if key is None else 'both'}")
    if run is None and key is not None:
        raise OptionError("sign needs the folder of a run; got none")
    found = None if run is None else read(run)
    if new_key is not None:
        wrote(new_key, sign.new_key(new_key))
        remark(f"keep {new_key} to yourself, and give {new_key}.pub to those who are to trust you")
    if found is not None:
        wrote(sign.sign_run(found, sign.read_private(key or new_key or Path())))
        if found.unfinished:
            remark(f"the run is unfinished: {len(found.rows)} of {found.inputs} inputs are signed for")
