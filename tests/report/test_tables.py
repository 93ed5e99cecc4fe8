"""Tables: rounded down, the best marked, names escaped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import log_of, run_of

from smoothcert.report import metrics, render, tables
from smoothcert.report.metrics import Figures, Share
from smoothcert.runs.run import Claim, Row, Run

RADII = [0.0, 0.25, 0.5]


def run(name: str, *radii: float, kind: str = "certify", wrong: int = 0) -> Figures:
    rows = [Row(i, 1, 1, radius) for i, radius in enumerate(radii)]
    rows += [Row(len(radii) + i, 1, -1, 0.0) for i in range(wrong)]
    return metrics.figures(log_of(rows, name, kind), RADII)


def renamed(found: Figures, **changes: object) -> Figures:
    return replace(found, run=replace(found.run, **changes))


def text_table(runs: list[Figures], width: int = 100) -> str:
    return render.plain_text(tables.table(runs), width)


def markdown(runs: list[Figures]) -> str:
    return render.markdown(tables.table(runs))


def latex(runs: list[Figures]) -> str:
    return render.latex(tables.table(runs))


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
        shown = text_table([wide], width)
        assert shown.count("33.3") == 21
        assert all(len(line) <= max(width, 48) for line in shown.splitlines())
    assert "*" not in shown


def test_text_marks_the_best() -> None:
    lines = text_table([NEAR, FAR]).splitlines()
    near, far = ([line.split() for line in lines if line.split()[:1] == [name]] for name in ("near", "far_100%"))
    assert near[0] == ["near", "66.6*", "66.6*", "0.0"]
    assert near[1] == ["near", "0.250", "33.3", "3"]
    assert far[1][1] == "0.300*"
    assert far[0] == ["far_100%", "33.3", "33.3", "33.3*"]
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
    assert not any(
        any(column.best) for column in tables.columns([NEAR, renamed(NEAR, claim=replace(NEAR.claim, norm="l1"))])
    )


def test_equals_are_all_best() -> None:
    assert all(column.best == (True, True) for column in tables.columns([NEAR, NEAR])[:2])


def test_acr_never_stands_without_radii() -> None:
    for runs in ([NEAR], [NEAR, FAR], [NEAR, run("p", kind="predict", wrong=1)]):
        heads = [column.head for column in tables.columns(runs)]
        assert heads[:4] == ["0", "0.25", "0.5", "ACR"]
    assert "ACR" not in [column.head for column in tables.columns([run("p", 0.0, kind="predict")])]


def test_markdown_is_one_table_with_names_escaped() -> None:
    evil = renamed(NEAR, name="a|b_c*`<i>\nd")
    lines = markdown([evil, FAR]).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert rows[2] == r"| a\|b\_c\*\`\<i\> d | **66.6** | **66.6** | 0.0 | 0.250 | 33.3 | 3 |"
    assert rows[3].endswith("| 33.3 | 33.3 | **33.3** | **0.300** | 66.6 | 3 |")
    assert len({row.replace(r"\|", "").count("|") for row in rows}) == 1


def test_latex_is_a_booktabs_tabular_with_names_escaped() -> None:
    text = latex([renamed(NEAR, name=r"50%_a&b$\x^~{}#"), FAR])
    name = r"50\%\_a\&b\$\textbackslash{}x\textasciicircum{}\textasciitilde{}\{\}\#"
    assert rf"{name} & \textbf{{66.6}} & \textbf{{66.6}} & 0.0 & 0.250 &" in text
    assert r"\multicolumn{3}{c}{certified accuracy (\%) at radius, l2, inputs in [0,1]}" in text
    assert r"\cmidrule(lr){2-4}" in text  # run, then the radii
    for mark in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrrrr}", r"\end{tabular}"):
        assert text.count(mark) == 1


@pytest.mark.parametrize("layout", [text_table, markdown, latex])
def test_an_unfinished_run_is_said_to_be(layout: object) -> None:
    assert "3 of 9" in layout([renamed(NEAR, inputs=9)])  # type: ignore[operator]


def best(*runs: Run) -> dict[str, tuple[bool, ...]]:
    return {column.head: column.best for column in tables.columns([metrics.figures(run, [0.0, 0.25]) for run in runs])}


def two_rows(*radii: float) -> list[Row]:
    return [Row(i, 1, 1, radius) for i, radius in enumerate(radii)]


@pytest.mark.parametrize(
    "other",
    [
        run_of(two_rows(0.2, 0.3), "b", data_digest="e" * 64),  # another data set
        run_of(two_rows(0.2, 0.3, 0.4), "b"),  # another subset
        log_of([Row(0, 1, 1, 0.2), Row(5, 1, 1, 0.3)], "b"),  # other indices
        log_of([Row(0, 1, 1, 0.2), Row(1, 2, 2, 0.3)], "b"),  # other labels
    ],
    ids=["data", "subset", "indices", "labels"],
)
def test_nothing_is_best_across_different_inputs(other: Run) -> None:
    one = run_of(two_rows(0.3, 0.3), "a")
    assert not any(any(marks) for marks in best(one, other).values())
    assert tables.OTHER_INPUTS in text_table([metrics.figures(run, [0.0]) for run in (one, other)]).replace("\n", " ")
    assert best(one, replace(one, name="again"))["0"] == (True, True)


def test_a_radius_that_promises_nothing_is_not_ranked_with_certificates() -> None:
    one = log_of(two_rows(0.3, 0.3), "a")
    none = replace(one, claim=Claim("l2", "none", "guess"))
    assert not any(best(one, none)["0.25"]) and not any(best(one, none)["ACR"])


def test_a_larger_acr_with_fewer_right_answers_is_pointed_out() -> None:
    few, many = run("few", 3.0, wrong=2), run("many", 0.3, 0.3, wrong=1)
    said = [line for line in tables.notes([few, many]) if "ACR" in line]
    assert said == [
        "ACR is larger but certified accuracy at radius 0 smaller in few than many: a few large radii raise ACR; "
        "compare certified accuracy at the radii that matter"
    ]
    assert not any("ACR is larger" in line for line in tables.notes([many, many]))


def test_what_was_not_hashed_and_what_a_log_does_not_state_is_said() -> None:
    source = run_of(two_rows(0.3), model_covers="source")
    assert any("weights outside the source" in line for line in tables.said_of(source))
    assert tables.said_of(run_of(two_rows(0.3))) == []
    assert any("does not state the norm" in line for line in tables.said_of(log_of(two_rows(0.3), norm="unstated")))


def test_the_table_fits_fifty_columns() -> None:
    found = metrics.figures(run_of([Row(i, 1, 1, 0.3, 100_000, 12.0, 1) for i in range(3)], "a-run-with-a-long-name"))
    assert max(map(len, text_table([found], 50).splitlines())) <= 50
