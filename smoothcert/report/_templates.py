"""Fills the templates beside this file and in sections/: values are escaped, a name that is not given is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def fill(template: str, **values: Any) -> str:
    """The template as text."""
    import jinja2

    world = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, HERE / "sections"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return world.get_template(template).render(**values)
