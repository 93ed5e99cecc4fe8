"""One section in five ways: nothing is lost on the way to text, Markdown, LaTeX, HTML or JSON."""

from __future__ import annotations

import pytest

from smoothcert.report import render
from smoothcert.report.plots import canvas
from smoothcert.report.section import Figure, Section, Table, plain, table_of

INNER = Section("", "Run a", tables=(table_of("branch", ["taken %"], [("0 <b>", ["50.0"])]),))
GROUPED = Table("θ", ("0.5\nthis run", "1"), (plain("ACR", ["0.1", "0.2"]), plain("0", ["9\n8 to 10", "7"], "sure")))
SECTION = Section(
    "some",
    "Some runs",
    tables=(GROUPED,),
    figures=(Figure(lambda: canvas((2.0, 2.0), "across", "up")[0], "a picture of nothing", "caption"),),
    notes=("nothing was drawn",),
    lead="what it is",
    parts=(INNER, Section("none", "Empty")),
    data={0: {"some": 1}},
)


def test_text_has_tables_notes_and_parts():
    shown = render.plain_text(SECTION)
    for words in ("Some runs", "8 to 10", "sure", "nothing was drawn", "Run a", "0 <b>", "50.0"):
        assert words in shown
    assert "Empty" not in shown


@pytest.mark.parametrize(("brief", "expected"), [((), ""), (("one line",), "one line")])
def test_a_section_may_be_brief_in_a_terminal(brief: tuple[str, ...], expected: str):
    assert render.plain_text(Section("a", "A", notes=("long",), brief=brief)).strip() == expected


def test_html_escapes_and_shows_everything():
    page = render.html(SECTION)
    for words in ('<section aria-labelledby="some">', "What it is.", "Nothing was drawn.", "a picture of nothing",
                  "Caption.", "0 &lt;b&gt;", "8 to 10</span>", 'colspan="1">sure',
                  '<h3 id="some-1">Run a'):  # fmt: skip
        assert words in page
    assert "Empty" not in page
    assert render.html(Section("a", "A", data={0: {"x": 1}})) == ""


def test_markdown_and_latex():
    shown = render.markdown(SECTION)
    assert "### Some runs" in shown and "| 0.5 this run | 0.1 | 9 8 to 10 |" in shown and "- nothing was drawn" in shown
    assert render.latex(SECTION).count("\\begin{tabular}") == 2


def test_json_gathers_the_fields_of_a_run():
    other = Section("other", data={0: {"more": 2}, 1: {"more": 3}})
    assert render.json([SECTION, other], 0) == {"some": 1, "more": 2}
    assert render.json([SECTION, other], 1) == {"more": 3}
