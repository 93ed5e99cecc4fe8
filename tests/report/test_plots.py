"""Curves: exact at every radius, the same bytes each time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from made_runs import log_of

from smoothcert.errors import OptionError, RunError
from smoothcert.report import plots
from smoothcert.report.metrics import certified_accuracy
from smoothcert.report.sections import bounds
from smoothcert.runs.run import Row

RECORD = log_of((Row(0, 1, 1, 0.5), Row(1, 1, 1, 0.2), Row(2, 1, 1, 0.5), Row(3, 1, 0, 2.0), Row(4, 1, -1, 0.0)), "a")
OTHER = log_of((Row(0, 1, 1, 0.7, low=0.8), Row(1, 1, -1, 0.0, low=0.4)), "$x^{ <&> _")


def test_steps_are_the_curve_at_every_radius() -> None:
    x, y = plots.steps(RECORD)
    assert x == [0.0, 0.2, 0.5, 0.5]
    assert [share.hits for share in y] == [3, 3, 2, 0]
    for radius in (0.0, 0.1, 0.2, 0.2000001, 0.5, 0.5000001):
        # Between its corners the line holds the value of the next corner ("pre").
        drawn = next((share for corner, share in zip(x, y, strict=True) if corner >= radius), y[-1])
        assert drawn == certified_accuracy(RECORD, radius)


def test_the_line_is_drawn_with_these_steps() -> None:
    (axes,) = plots.curve_figure([RECORD]).axes
    (line,) = axes.get_lines()
    assert line.get_drawstyle() == "steps-pre"
    assert list(line.get_xdata()) == [0.0, 0.2, 0.5, 0.5]
    assert list(line.get_ydata()) == [0.6, 0.6, 0.4, 0.0]
    assert axes.get_xlabel() == "ℓ₂ radius (inputs in [0, 1])"
    assert axes.get_ylim() == (0.0, 1.0)


def test_several_runs_are_named_and_told_apart() -> None:
    records = [log_of(RECORD.rows, f"_run {i}") for i in range(8)]
    (axes,) = plots.curve_figure(records).axes
    looks = {(str(line.get_color()), str(line.get_linestyle())) for line in axes.get_lines()}
    assert len(looks) == 8
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == [f"_run {i}" for i in range(8)]


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        plots.save(plots.curve_figure([RECORD, OTHER]), tmp_path / f"{name}.svg")
    for suffix in (".svg", ".png"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()
    ET.parse(tmp_path / "one.svg")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_any_of_the_two_names_writes_both(tmp_path: Path) -> None:
    figure = plots.curve_figure([RECORD])
    assert plots.save(figure, tmp_path / "a.png") == (tmp_path / "a.svg", tmp_path / "a.png")
    assert plots.save(figure, tmp_path / "b")[0].exists()
    with pytest.raises(OptionError, match=r"must end in \.svg or \.png"):
        plots.save(figure, tmp_path / "c.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]


def test_an_inline_figure_takes_the_colours_of_its_page() -> None:
    text = plots.inline_svg(plots.curve_figure([RECORD, OTHER]), 'a "quoted" <label>', "curve")
    root = ET.fromstring(text)
    assert root.get("aria-label") == 'a "quoted" <label>'
    assert plots.INK not in text and "currentColor" in text
    assert "var(--c0)" in text and "var(--c1)" in text and plots.PALETTE[0] not in text
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids and len(ids) == len(set(ids)) and all(str(id_).startswith("curve-") for id_ in ids)
    assert "$x^{ <&> _" in "".join(root.itertext())


def test_the_distribution_of_bounds_is_drawn_where_it_is_known() -> None:
    assert bounds.section([RECORD], [0.0]) is None
    assert bounds.section([RECORD, OTHER], [0.0]) is not None
    figure = plots.low_figure([RECORD, OTHER])
    line = figure.axes[0].get_lines()[0]
    assert list(line.get_xdata()) == [0.0, 0.4, 0.8, 1.0]
    assert list(line.get_ydata()) == [0.0, 0.5, 1.0, 1.0]
    assert str(line.get_color()) == plots.PALETTE[1]  # the colour its run has in the other figure


def test_nothing_certified_still_draws_and_predictions_do_not() -> None:
    assert plots.png(plots.curve_figure([log_of((Row(0, 1, -1, 0.0),))]))
    with pytest.raises(RunError, match="at least one certify run"):
        plots.curve_figure([log_of(RECORD.rows, "p", "predict")])


def test_pyplot_and_its_state_are_not_touched() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from smoothcert.report import plots; from smoothcert.runs.run import *; "
        "run = Run(name='a', kind='certify', rows=(Row(0, 1, 1, .5),), claim=Claim('l2', 'unstated', 'unstated')); "
        "plots.png(plots.curve_figure([run])); "
        "print('matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]
