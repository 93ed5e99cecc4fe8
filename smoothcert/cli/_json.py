"""Answers as JSON: the option, and the one way they are printed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Option = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def say(answer: Any) -> None:
    """To stdout; a number that JSON does not know is a bug and not a word."""
    import json

    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False))
