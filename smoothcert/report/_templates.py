"""Old name of `render.fill`."""

from smoothcert.report.render import fill

__all__ = ["fill"]
