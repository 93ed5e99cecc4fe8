"""Old names of `section` and `render`."""

from smoothcert.report.render import latex, markdown, one_line, tex, text
from smoothcert.report.render import plain_text as text_of
from smoothcert.report.section import Column, Table, plain, transposed

__all__ = ["Column", "Table", "latex", "markdown", "one_line", "plain", "tex", "text", "text_of", "transposed"]
