"""Writes docs/commands.md, the reference of every command, from the commands themselves: `python docs/commands.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from smoothcert.cli.main import app
from smoothcert.cli.panels import sections

PAGE = Path(__file__).parent / "commands.md"
HEAD = """\
# Commands

Every command with its arguments and options, as `smoothcert COMMAND --help` tells them. `python docs/commands.py`
writes this page. The [glossary](glossary.md) explains the words.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(told(context) for context in leaves(typer.main.get_command(app), None, "smoothcert"))


def leaves(command: Any, parent: Any, name: str) -> Iterator[Any]:
    """A context for every command that has no others below it."""
    context = typer.Context(command, parent=parent, info_name=name)
    for inner, below in getattr(command, "commands", {}).items():
        yield from leaves(below, context, inner)
    if not hasattr(command, "commands"):
        yield context


def told(context: Any) -> str:
    """One command: what it does, its options by panel, its examples."""
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"\n## {context.command_path}\n\n{inspect.cleandoc(command.help)}\n\nUsage: `{usage}`\n"]
    for title, records in sections(command, context).items():
        rows = "".join(row(*record) for record in records if record[0] != "--help")
        parts.append(f"\n| {title} | | Default |\n|---|---|---|\n{rows}" if rows else "")
    if command.epilog:
        parts.append(f"\n```\n{command.epilog}\n```\n")
    return "".join(parts)


def row(names: str, text: str) -> str:
    """A line of the table; what click writes in brackets has a column of its own."""
    words, _, extra = text.partition("  [")
    default = extra.removesuffix("]").removeprefix("default: ").removeprefix("(").removesuffix(")")
    return f"| `{names}` | {words} | {default} |\n".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
