"""How help is laid out: options by panel, one list for small commands, and examples at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

PANELS = ("What", "Noise", "Draws", "Data", "Means")  # in the order of help
FEW = 8  # options that need no panels


def _option(panel: str) -> Callable[..., Any]:
    return functools.partial(typer.Option, rich_help_panel=panel)


what, noise, draws, data, means = map(_option, PANELS)


class PanelCommand(TyperCommand):
    """A command whose help is plain text. Typer itself draws panels as boxes only, too wide for 80 columns."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then the options of each panel."""
        for title, records in sections(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """One command a line, to be copied: never wrapped."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def sections(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Names and help of a command's arguments and options, by panel; few options stand in one list."""
    many = sum(param.param_type_name == "option" for param in command.params) > FEW
    found: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *PANELS, "Options")}
    for param in command.get_params(ctx):
        panel = getattr(param, "rich_help_panel", None) or PANELS[-1]  # --help, which is typer's
        title = "Arguments" if param.param_type_name == "argument" else panel if many else "Options"
        if (record := param.get_help_record(ctx)) is not None:
            found[title].append(record)
    return {title: records for title, records in found.items() if records}
