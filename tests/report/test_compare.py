"""Two runs on the same inputs: known radii give known differences, and runs that do not compare are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import ABSTAINED, WRONG, log, record, stored

from smoothcert.cli.main import run
from smoothcert.errors import OptionError, RunError
from smoothcert.report import render
from smoothcert.report.compare import as_json, compare, table, too_low
from smoothcert.runs.run import Run

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "locuslab" / "certify"
OURS: dict[str, Any] = {}

OLD = record("old", [0.1, 0.6, WRONG, 0.3, ABSTAINED], OURS)
NEW = record("new", [0.3, 0.2, 0.3, WRONG, ABSTAINED], OURS)


def test_differences_are_those_of_the_inputs() -> None:
    found = compare(OLD, NEW, [0.0, 0.25, 0.5])
    assert [(c.gained, c.lost) for c in found.changes] == [(1, 1), (2, 2), (0, 1)]
    assert [c.value for c in found.changes] == [0.0, 0.0, -0.2]
    assert [(c.before.hits, c.after.hits) for c in found.changes] == [(3, 3), (2, 2), (1, 0)]
    assert found.acr == pytest.approx((0.2, 0.16))
    assert found.acr_change is not None and found.acr_change.value == pytest.approx(-0.04)
    assert found.acr_change.low <= -0.04 <= found.acr_change.high
    assert list(found.figures) == ["0", "0.25", "0.5", "acr"]


def test_the_other_way_round_is_the_other_sign() -> None:
    there, back = compare(OLD, NEW, [0.25, 0.5]), compare(NEW, OLD, [0.25, 0.5])
    for one, other in zip(there.changes, back.changes, strict=True):
        assert one.value == -other.value and one.p_value == other.p_value
        assert tuple(one.interval) == pytest.approx((-other.interval.high, -other.interval.low), abs=1e-6)


def test_a_run_against_itself_is_no_different() -> None:
    found = compare(OLD, replace(OLD, name="again"))
    assert all(change.value == 0.0 and change.p_value == 1.0 for change in found.changes)
    assert found.acr_change == (0.0, 0.0, 0.0)
    assert found.differs == ()


def test_what_differs_besides_is_told() -> None:
    other = record(
        "new",
        [0.3, 0.2, 0.3, WRONG, ABSTAINED],
        {"noise": {"name": "gaussian", "sigma": 0.5}, "model_digest": "b" * 64},
    )
    assert compare(OLD, other).differs == ("model aaaaaaaa ≠ bbbbbbbb", "noise sigma 0.25 ≠ 0.5")


def changed(name: str = "new", **changes: Any) -> Run:
    return replace(NEW, name=name, **changes)


def asked(**changes: Any) -> Run:
    return record("new", [0.3, 0.2, 0.3, WRONG, ABSTAINED], changes)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (changed(rows=tuple(replace(row, label=3) for row in NEW.rows)), "0 of 5 shared indices with the same label"),
        (changed(rows=(replace(NEW.rows[0], label=3), *NEW.rows[1:])), "4 of 5 shared indices with the same label"),
        (changed(rows=tuple(replace(row, index=row.index + 1) for row in NEW.rows)), "be on the same inputs"),
        (asked(data_digest="e" * 64), "be on the same data"),
        (changed(kind="predict"), "hold certify results to be compared with old; got predict"),
        (changed(claim=replace(NEW.claim, norm="l1")), "have radii in l2 to be compared with old; got l1"),
        (changed(claim=replace(NEW.claim, norm="unstated")), "got no norm in new (give it, as in --norm l2)"),
        (asked(procedure={"name": "certify", "against": "labels"}), "test the class of its draws"),
        (asked(preparation={"name": "per_input_sigma"}), "give certificates"),
    ],
)
def test_runs_that_do_not_compare_are_refused_in_one_line(other: Run, said: str) -> None:
    with pytest.raises(RunError, match="run new must ") as caught:
        compare(OLD, other)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def radii_of(name: str, asked_: list[float], rows: list[Any]) -> Run:
    return record(name, rows, {"sampling": {"name": "spending", "radii": asked_}})


def test_other_radii_are_compared_where_both_were_tested_and_not_by_averages() -> None:
    curve = radii_of("curve", [0.25, 0.5], [0.25, 0.5, 0.5, WRONG, ABSTAINED])
    found = compare(OLD, curve)
    assert [(change.radius, change.gained, change.lost) for change in found.changes] == [(0.25, 2, 1), (0.5, 1, 0)]
    assert found.acr is None and found.acr_change is None and list(found.figures) == ["0.25", "0.5"]
    assert "not by ACR" in str(found) and "bootstrap" not in str(found) and as_json(found)["acr"] is None
    one = radii_of("one", [0.5], [0.5, 0.5, WRONG, WRONG, ABSTAINED])
    assert [change.radius for change in compare(one, curve).changes] == [0.5]
    with pytest.raises(OptionError, match=r"must name figures of this comparison \(0\.25, 0\.5\); got 'acr'"):
        too_low(found, {"acr": -0.01})


def test_runs_that_tested_no_radius_in_common_are_refused_in_one_line() -> None:
    curve = radii_of("curve", [0.25, 0.5], [0.25, 0.5, 0.5, WRONG, ABSTAINED])
    with pytest.raises(RunError, match=r"must all have tested one of the radii 0, 0\.3 .*curve: radii 0\.25, 0\.5"):
        compare(OLD, curve, [0.0, 0.3])
    with pytest.raises(RunError, match=r"tested one of the radii 0\.25, 0\.3, 0\.5 "):
        compare(radii_of("other", [0.3], [0.3, 0.3, 0.3, WRONG, ABSTAINED]), curve)


def test_a_log_compares_with_a_run_by_index_and_label() -> None:
    assert compare(OLD, record("log", [0.3, 0.2, 0.3, WRONG, ABSTAINED])).figures["0.5"] == -0.2


def test_the_inputs_of_both_runs_are_compared_and_others_are_told() -> None:
    """FOUND: a log of 500 inputs against one of 10 000 that holds them."""
    few = record("few", [0.3, 0.2, 0.3])
    found = compare(OLD, few, [0.0, 0.25])
    assert [change.before.of for change in found.changes] == [3, 3] and found.left_out == (2, 0)
    assert [(change.gained, change.lost) for change in found.changes] == [(1, 0), (2, 1)]
    assert found.acr == pytest.approx((0.7 / 3, 0.8 / 3)) and as_json(found)["left_out"] == [2, 0]
    said = "only the inputs in both runs are compared; left out: 2 that only old has, 0 that only few has"
    assert said in table(found).notes and "on the same 3 inputs" in "\n".join(table(found).notes)
    assert "left_out" not in as_json(compare(OLD, NEW))
    # Of runs, the data must be the same set; hashes of different subsets cannot say more.
    other = record("new", [0.3, 0.2, 0.3], {"skip": 20, "data_digest": "e" * 64})
    assert "not from a hash" in "\n".join(table(compare(OLD, other)).notes)
    with pytest.raises(RunError, match=r"be on the same data .* got digits \(train\), not digits \(test\)"):
        compare(OLD, record("new", [0.3, 0.2, 0.3], {"split": "train", "data_digest": "e" * 64}))
    unfinished = replace(NEW, rows=NEW.rows[:-1])
    assert compare(OLD, unfinished).left_out == (1, 0)


def test_a_row_does_not_contradict_itself() -> None:
    """FOUND: 77.0, 75.8 and −1.3 where the difference is −1.22; ACR −0.006 for −0.00516."""
    old = record("old", [0.5] * 770 + [WRONG] * 230, OURS)
    new = record("new", [0.5] * 757 + [0.49] + [WRONG] * 242, OURS)
    shown = table(compare(old, new, [0.0]))
    assert [column.cells[0] for column in shown.columns][:3] == ["77.0", "75.8", "−1.20"]
    assert [column.cells[1] for column in shown.columns][:3] == ["0.385", "0.378", "−0.0060"]
    third = table(compare(record("a", [1.0, 1.0, WRONG], OURS), record("b", [1.0, WRONG, WRONG], OURS), [0.0]))
    assert [column.cells[0] for column in third.columns][:3] == ["66.6", "33.3", "−33.33"]


def test_predictions_compare_by_accuracy() -> None:
    found = compare(replace(OLD, kind="predict"), changed(kind="predict"))
    assert found.figures == {"accuracy": 0.0} and found.acr is None
    assert as_json(found)["accuracy"]["only_first"] == 1
    assert "accuracy %" in render.markdown(table(found))


def test_limits_name_what_is_too_low() -> None:
    found = compare(OLD, NEW, [0.25, 0.5])
    assert too_low(found, {"acr": -0.05, "0.25": 0.0, "0.5": -0.21}) == []
    assert too_low(found, {"acr": -0.03, "0.5": -0.1}) == [
        "ACR changed by −0.040, allowed is −0.03",
        "certified accuracy at 0.5 changed by −0.200, allowed is −0.1",
    ]
    with pytest.raises(OptionError, match=r"\(0\.25, 0\.5, acr\); got '0\.75'"):
        too_low(found, {"0.75": 0.0})


def test_the_table_has_a_row_a_figure() -> None:
    shown = table(compare(OLD, NEW, [0.0, 0.5]))
    assert shown.names == ("% at 0", "% at 0.5", "ACR")
    assert [column.head for column in shown.columns] == [
        "old", "new", "difference", "95 % interval", "lost", "gained", "p",
    ]  # fmt: skip
    assert [column.cells[1] for column in shown.columns][:3] == ["20.0", "0.0", "−20.00"]
    long = compare(replace(OLD, name="a/very/long/path/to/old"), NEW)
    assert [column.head for column in table(long).columns][:2] == ["A", "B"]
    assert "A is a/very/long/path/to/old, B is new" in table(long).notes


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    log(tmp_path / "old.tsv", [0.1, 0.6, WRONG, 0.3, ABSTAINED])
    stored(tmp_path / "new", [0.3, 0.2, 0.3, WRONG, ABSTAINED])
    return str(tmp_path / "old.tsv"), str(tmp_path / "new")


def test_the_command_tells_and_fails_below(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *pair, "--json", "--radii", "0.25", "--fail-below", "acr=-0.1,0.50=-0.3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["certified_accuracy"]) == ["0.25", "0.5"] and told["failed"] == []
    assert told["acr"]["difference"] == pytest.approx(-0.04)
    assert run(["compare", *pair, "--tables", "md", "--fail-below", "0.5=-0.1"]) == 1
    captured = capsys.readouterr()
    assert (
        captured.err
        == "smoothcert: new is below old.tsv: certified accuracy at 0.5 changed by −0.200, allowed is −0.1\n"
    )
    assert "| % at 0.5 | 20.0 | 0.0 | −20.00 |" in captured.out


@pytest.mark.parametrize(
    "limit", ["", "acr", "acr=", "=1", "acr=x", "acr=nan", "-1=0", "nan=0", "inf=0", "0.5=1,0.50=2", "acr=1,", "acx=1"]
)
def test_limits_that_are_none_are_one_line(limit: str, pair: tuple[str, str], capsys: Any) -> None:
    assert run(["compare", *pair, f"--fail-below={limit}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    expected = "must be acr, accuracy or radii" if limit else "must have a value"
    assert line.startswith(f"smoothcert: --fail-below {expected}")


def test_published_logs_have_the_right_signs_and_other_data_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    cifar = REFERENCE / "cifar10" / "resnet110"
    if not cifar.exists():
        pytest.skip("the published logs are not here")
    logs = [str(cifar / f"noise_{sigma}" / "test" / f"sigma_{sigma}") for sigma in ("0.25", "0.50")]
    assert run(["compare", *logs]) == 2 and "--norm l2" in capsys.readouterr().err  # they do not state it
    assert run(["compare", *logs, "--radii", "0.25,1", "--json", "--norm", "l2"]) == 0
    near, far = json.loads(capsys.readouterr().out)["certified_accuracy"].values()
    assert near["difference"] == pytest.approx(-0.054) and near["interval"][1] < 0.0
    assert far["difference"] == pytest.approx(0.234) and far["interval"][0] > 0.0
    other = REFERENCE / "imagenet" / "resnet50" / "noise_0.50" / "test" / "sigma_0.50"
    assert run(["compare", logs[1], str(other), "--norm", "l2"]) == 2
    assert "must be on the same inputs" in capsys.readouterr().err


def test_the_norm_of_logs_is_said_by_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("idx\tlabel\tpredict\tradius\tcorrect\n0\t1\t1\t0.5\t1\n")
    pair = [str(tmp_path / name) for name in ("a.tsv", "b.tsv")]
    assert run(["compare", *pair]) == 2
    assert "no norm in a.tsv and b.tsv (give it, as in --norm l2)" in capsys.readouterr().err
    assert run(["compare", *pair, "--norm", "l1"]) == 0 and "(l1, inputs in" in capsys.readouterr().out
    assert run(["report", pair[0], "--norm", "l1"]) == 0 and "l1" in capsys.readouterr().out
    assert run(["compare", *pair, "--norm", "l7"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--norm must be one of" in line and "l7" in line
