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
        shown = [(param, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        many = sum(param.param_type_name == "option" for param in self.params) > FEW
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{panel: [] for panel in PANELS}, "Options": []}
        for param, record in shown:
            panel = getattr(param, "rich_help_panel", None) or PANELS[-1]  # --help, which is typer's
            title = panel if many else "Options"
            if record is not None:
                sections["Arguments" if param.param_type_name == "argument" else title].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """One command a line, to be copied: never wrapped."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
