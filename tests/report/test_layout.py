"""Tables turned round and laid out: nothing is lost, whatever the width."""

from __future__ import annotations

import pytest

from smoothcert.report import render
from smoothcert.report.section import Column, Table, plain, transposed

TABLE = Table(
    "run",
    ("a", "b"),
    (
        plain("σ", ["0.25", "0.50"]),
        Column("0.00", ("70.0", "60.0"), (True, False), 0.0, "accuracy"),
        Column("0.25", ("50.0", "55.0"), (False, True), 0.25, "accuracy"),
        Column("0.00", ("90.0", "–"), (False, False), 0.0, "selection"),
    ),
    ("a note",),
)


def test_titles_span_their_columns_in_latex() -> None:
    text = render.latex(TABLE)
    assert r" &  & \multicolumn{2}{c}{accuracy} & \multicolumn{1}{c}{selection} \\" in text
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-5}" in text
    assert r"run & $\sigma$ & 0.00 & 0.25 & 0.00 \\" in text
    assert r"a & 0.25 & \textbf{70.0} & 50.0 & 90.0 \\" in text


def test_several_titles_go_into_the_heads_of_markdown_and_of_rows() -> None:
    assert "| run | σ | accuracy: 0.00 | accuracy: 0.25 | selection: 0.00 |" in render.markdown(TABLE)
    turned = transposed(TABLE)
    assert turned.names == ("σ", "accuracy: 0.00", "accuracy: 0.25", "selection: 0.00")
    assert [(column.head, column.cells) for column in turned.columns] == [
        ("a", ("0.25", "70.0", "50.0", "90.0")),
        ("b", ("0.50", "60.0", "55.0", "–")),
    ]
    assert turned.columns[0].best == (False, True, False, False)
    assert "* best of its row" in render.plain_text(turned) and "* best of its column" in render.plain_text(TABLE)


def test_one_title_is_said_once() -> None:
    accuracy = Column("0.00", ("70.0",), (False,), 0.0, "accuracy")
    single = Table("run", ("a",), (plain("σ", ["0.25"]), accuracy))
    assert transposed(single).names == ("σ", "0.00")
    assert transposed(single).notes == ("numbers in the first column: accuracy",)
    assert render.markdown(single).startswith("accuracy\n\n| run |")


@pytest.mark.parametrize("width", [30, 60, 200])
def test_every_column_is_shown_whatever_the_width(width: int) -> None:
    wide = Table("run", ("a name that is long", "b"), tuple(plain(f"head {i}", [f"{i}x", f"{i}y"]) for i in range(25)))
    shown = render.plain_text(wide, width)
    assert all(f"head {i}" in shown and f"{i}x" in shown and f"{i}y" in shown for i in range(25))
    assert all(len(line) <= width for line in shown.splitlines())


def test_marks_of_markup_are_printed_as_they_are() -> None:
    evil = Table("run", ("[bold]a|b_c",), (plain("100% [red]", ["±1"]),), ("see #1",))
    assert "[bold]a|b_c" in render.plain_text(evil) and "100% [red]" in render.plain_text(evil)
    assert r"\[bold\]a\|b\_c" in render.markdown(evil)
    assert r"$\pm$1" in render.latex(evil) and r"see \#1" in render.latex(evil)
