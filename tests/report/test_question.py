"""What was asked is said wherever figures stand, and figures of different questions are not ranked."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import log_of, run_of

from smoothcert.report import metrics, plots, render, tables
from smoothcert.report.html import page
from smoothcert.report.metrics import Share
from smoothcert.report.tables import warning
from smoothcert.runs.run import Claim, Row, Run


def record(name: str, radii: list[float] | None, against: str = "guess", *proven: float) -> Run:
    test = {"name": "spending", "radii": radii, "alpha": 0.05, "beta": 0.05, "cap": 500, "spacing": 100}
    sampling: dict[str, Any] = {"name": "fixed", "n": 90, "alpha": 0.001} if radii is None else test
    rows = [Row(i, 1, 1 if radius > 0 else -1, radius, low=0.9) for i, radius in enumerate(proven)]
    return run_of(rows, name, sampling=sampling, procedure={"name": "certify", "n0": 100, "against": against})


ONE = record("one", [0.5], "guess", 0.5, 0.5, 0.0)
CURVE = record("curve", [0.25, 0.3, 1.0], "leader", 0.3, 0.25, 0.0)
LABELS = record("labels", [0.5], "labels", 0.5, 0.5, 0.5)
FULL = record("full", None, "guess", 0.9, 0.4, 0.0)
LOG = log_of(FULL.rows)


def test_the_question_in_plain_words() -> None:
    assert ONE.claim.words == ("radius 0.5 was asked for; larger radii were not tried",)
    assert CURVE.claim.words == (
        "radii 0.25, 0.3 and 1 were asked for; radii between them, and larger ones, were not tried",
        "the leading class was tested: no draws were spent on choosing the class",
    )
    assert "the true label was tested, wrong labels are never reported" in LABELS.claim.words[1]
    assert FULL.claim.words == LOG.claim.words == ()


def test_the_warning_is_about_what_acr_means() -> None:
    assert warning([ONE.claim, FULL.claim]) is not None
    assert warning([ONE.claim, LABELS.claim]) is not None
    assert warning([FULL.claim, LOG.claim]) is None
    ways = [Claim("l2", "smoothing", how, radii=(0.5,)) for how in ("leader", "guess")]
    assert warning(ways) is None  # another way, the same question
    assert warning([]) is None


def test_radii_beyond_the_question_are_unknown_not_zero() -> None:
    found = metrics.figures(ONE, [0.0, 0.5, 0.75])
    assert found.certified_accuracy == {0.0: Share(2, 3), 0.5: Share(2, 3), 0.75: None}
    told = metrics.as_json(found)
    assert told["certified_accuracy"]["0.75"] is None and told["intervals"]["certified_accuracy"]["0.75"] is None
    assert told["question"] == {"radii": [0.5], "against": "guess", "words": list(ONE.claim.words)}
    assert metrics.as_json(metrics.figures(LOG))["question"] == {"radii": None, "against": "unstated", "words": []}


def test_default_radii_are_those_asked_for() -> None:
    assert metrics.default_radii([CURVE]) == [0.25, 0.3, 1.0]
    assert metrics.default_radii([ONE, CURVE]) == [0.25, 0.3, 0.5, 1.0]
    assert metrics.default_radii([CURVE, FULL]) == [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]


def test_a_test_of_given_radii_has_no_distribution_of_bounds() -> None:
    assert metrics.lows(ONE) is None and list(metrics.lows(FULL)) == [0.9, 0.9, 0.9]


def test_different_questions_are_not_ranked() -> None:
    def best(*records: Run) -> dict[str, tuple[bool, ...]]:
        found = [metrics.figures(record, [0.25, 0.5]) for record in records]
        return {column.head: column.best for column in tables.columns(found)}

    mixed = best(ONE, FULL)
    assert mixed["ACR"] == mixed["0.25"] == (False, False)  # at 0.25 the first proves what it proves at 0.5
    assert mixed["0.5"] == (True, False)
    assert best(ONE, LABELS)["0.5"] == (False, False)
    assert best(FULL, LOG)["ACR"] == (True, True)


@pytest.mark.parametrize("layout", [render.plain_text, render.markdown, render.latex])
def test_every_table_says_it(layout: Any) -> None:
    shown = " ".join(layout(tables.table([metrics.figures(run, [0.5]) for run in (ONE, FULL)])).split())
    assert "one: radius 0.5 was asked for; larger radii were not tried" in shown
    assert "their ACR do not compare" in shown
    alone = layout(tables.table([metrics.figures(FULL, [0.5])]))
    assert "asked for" not in alone and "compare" not in alone


def test_the_curve_ends_where_the_question_does() -> None:
    x, y = plots.steps(CURVE)
    assert x == [0.0, 0.25, 0.3, 1.0]
    assert [share.hits for share in y] == [2, 2, 1, 0]
    (axes,) = plots.curve_figure([ONE]).axes
    line, marks = axes.get_lines()
    assert list(line.get_xdata()) == [0.0, 0.5] and list(line.get_ydata()) == [2 / 3, 2 / 3]  # no fall to zero
    assert list(marks.get_xdata()) == [0.5]


def test_the_page_says_it_first() -> None:
    text = page([ONE, LABELS, FULL])
    assert text.index("Before you read the figures") < text.index("At a glance")
    assert "<strong>one, labels:</strong> radius 0.5 was asked for; larger radii were not tried." in text
    assert "their ACR do not compare" in text
    assert "Certified accuracy at radius 0.5" in text and "radii above 0.5 were not tried" in text
    assert "Before you read the figures" not in page([FULL, LOG])
    alone = page([LABELS])
    assert "<li>Radius 0.5 was asked for" in alone and "compare" not in alone.split("</style>")[1]
    assert "only the true one was tested here" in alone
