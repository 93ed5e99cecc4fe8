"""Tables: rounded down, the best marked, names escaped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from smoothcert.report import metrics, tables
from smoothcert.report.metrics import Figures, Share
from smoothcert.runs.run import Record, Row

RADII = [0.0, 0.25, 0.5]


def run(name: str, *radii: float, kind: str = "certify", wrong: int = 0) -> Figures:
    rows = [Row(i, 1, 1, radius) for i, radius in enumerate(radii)]
    rows += [Row(100 + i, 1, -1, 0.0) for i in range(wrong)]
    return metrics.figures(Record(name, "predict" if kind == "predict" else "certify", tuple(rows)), RADII)


NEAR = run("near", 0.375, 0.375, wrong=1)  # 66.6 66.6 0
FAR = run("far_100%", 0.9, wrong=2)  # 33.3 33.3 33.3


def test_shares_round_down_and_what_is_exact_stays() -> None:
    assert [tables.percent(Share(*s)) for s in [(2, 3), (374, 500), (1999, 2000), (0, 7), (7, 7), (29, 100)]] == [
        "66.6",
        "74.8",
        "99.9",
        "0.0",
        "100.0",
        "29.0",
    ]
    assert tables.percent(None) == tables.decimal(None) == tables.count(None) == tables.duration(None) == "–"
    assert tables.decimal(0.42888) == "0.428"


def test_durations_are_said_as_people_say_them() -> None:
    said = [tables.duration(s) for s in (0.04, 59.9, 60.0, 3599.6, 8440.8, 100000.0)]
    assert said == ["0.0 s", "59.9 s", "1 min 00 s", "1 h 00 min", "2 h 20 min", "27 h 46 min"]


def test_text_has_every_radius_whatever_the_width() -> None:
    wide = run("wide", 5.0)
    wide = replace(wide, certified_accuracy={r / 4: Share(1, 3) for r in range(21)})
    for width in (40, 80, 200):
        shown = tables.text_table([wide], width)
        assert shown.count("33.3") == 21
        assert all(len(line) <= max(width, 48) for line in shown.splitlines())
    assert "*" not in shown


def test_text_marks_the_best() -> None:
    lines = tables.text_table([NEAR, FAR]).splitlines()
    near, far = ([line.split() for line in lines if line.split()[:1] == [name]] for name in ("near", "far_100%"))
    assert near[0] == ["near", "3", "33.3", "0.250"]
    assert near[1] == ["near", "66.6*", "66.6*", "0.0"]
    assert far[0][-1] == "0.300*"
    assert far[1] == ["far_100%", "33.3", "33.3", "33.3*"]
    assert "* best of its column" in lines


def test_a_single_run_has_no_best_and_zero_is_never_best() -> None:
    assert not any(any(column.best) for column in tables.columns([NEAR]))
    nothing = [run("a", wrong=2), run("b", wrong=3)]
    assert not any(any(column.best) for column in tables.columns(nothing))


def test_a_figure_only_one_run_has_is_not_the_best_of_anything() -> None:
    clean = replace(NEAR, clean_accuracy=Share(1, 3))
    (column,) = [column for column in tables.columns([clean, FAR]) if column.head == "clean %"]
    assert column.cells == ("33.3", "–")
    assert column.best == (False, False)


def test_radii_of_two_norms_are_not_ranked() -> None:
    assert not any(any(column.best) for column in tables.columns([NEAR, replace(NEAR, norm="l1")]))


def test_equals_are_all_best() -> None:
    assert all(column.best == (True, True) for column in tables.columns([NEAR, NEAR])[-3:-1])


def test_acr_never_stands_without_radii() -> None:
    for runs in ([NEAR], [NEAR, FAR], [NEAR, run("p", kind="predict", wrong=1)]):
        heads = [column.head for column in tables.columns(runs)]
        assert "ACR" in heads and heads[-3:] == ["0", "0.25", "0.5"]
    assert "ACR" not in [column.head for column in tables.columns([run("p", 0.0, kind="predict")])]


def test_markdown_is_one_table_with_names_escaped() -> None:
    evil = replace(NEAR, name="a|b_c*`<i>\nd")
    lines = tables.markdown([evil, FAR]).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert rows[2].startswith(r"| a\|b\_c\*\`\<i\> d | 3 | 33.3 |")
    assert rows[2].endswith("| **66.6** | **66.6** | 0.0 |")
    assert rows[3].endswith("| **0.300** | 33.3 | 33.3 | **33.3** |")
    assert len({row.replace(r"\|", "").count("|") for row in rows}) == 1


def test_latex_is_a_booktabs_tabular_with_names_escaped() -> None:
    text = tables.latex([replace(NEAR, name=r"50%_a&b$\x^~{}#"), FAR])
    assert r"50\%\_a\&b\$\textbackslash{}x\textasciicircum{}\textasciitilde{}\{\}\# & 3 & 33.3 &" in text
    assert r"\textbf{66.6} & \textbf{66.6} & 0.0 \\" in text
    assert r"\multicolumn{3}{c}{certified accuracy (\%) at radius, l2, inputs in [0,1]}" in text
    assert r"\cmidrule(lr){5-7}" in text  # run, inputs, abstained, ACR, then the radii
    for mark in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrrrr}", r"\end{tabular}"):
        assert text.count(mark) == 1


@pytest.mark.parametrize("layout", [tables.text_table, tables.markdown, tables.latex])
def test_an_unfinished_run_is_said_to_be(layout: object) -> None:
    assert "3 of 9" in layout([replace(NEAR, asked=9)])  # type: ignore[operator]
