"""Where tables are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(width: int) -> Console:
    """Standard output, as wide as the terminal; so wide where there is none, as in a file or a pipe."""
    from rich.console import Console

    found = Console(highlight=False)
    if not found.is_terminal:
        found.width = width
    return found
