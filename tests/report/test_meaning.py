"""What certificates say, for every norm and every kind of guarantee; nothing is promised that does not hold."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import log_of, run_of

from smoothcert.report.meaning import does_not_say, says
from smoothcert.runs.run import BeforeMemory, MemoryRef, Row, Run

GAUSSIAN = {"name": "gaussian", "sigma": 0.25}
OWN = {"name": "per_input_sigma"}


def record(noise: Any = None, rows: Any = None, name: str = "a", **changes: Any) -> Run:
    return run_of(rows or (Row(0, 1, 1, 0.5),), name, noise=noise or GAUSSIAN, **changes)


def text(statements: Any) -> dict[str, str]:
    return {statement.lead: statement.text for statement in statements}


@pytest.mark.parametrize(
    ("norm", "noise", "phrase"),
    [
        ("l2", GAUSSIAN, "nearer than R in the ℓ₂ norm"),
        ("l1", {"name": "uniform", "lam": 0.4}, "come to less than R"),
        ("l0", {"name": "discrete", "keep": 0.8, "values": 256}, "differs in R coordinates or fewer"),
    ],
)
def test_each_norm_in_its_own_words(norm: str, noise: dict[str, Any], phrase: str) -> None:
    run = record(noise)
    assert phrase in text(says([run]))["Nothing nearer changes the label."]
    assert "α = 0.001" in text(says([run]))["With a known risk."]
    sign = {"l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂"}[norm]
    assert f"Only the {sign} norm" in text(does_not_say([run]))["Other kinds of change."]


@pytest.mark.parametrize(
    ("patch", "size"), [([1, 1], "square of R × R pixels"), ([3, 7], "patch of R times 3 × 7 pixels")]
)
def test_patches_are_told_as_stickers(patch: list[int], size: str) -> None:
    leader = {"name": "certify", "n0": 10, "against": "leader"}
    noise = {"name": "block", "side": 5, "image": [8, 8], "patch": patch}
    run = record(noise, sampling={"name": "exhaustive"}, procedure=leader, shape=[1, 8, 8])
    said, silent = text(says([run])), text(does_not_say([run]))
    assert f"inside one {size} only, wherever it is" in said["No sticker of this size changes the label."]
    assert "nothing is added" in said["In exact arithmetic."] and "Without a risk." in said
    assert "not two of them" in silent["Other kinds of change."] and "Floating point." not in silent


def test_rounding_is_warned_of_where_noise_is_added_in_floating_point_only() -> None:
    for noise in (GAUSSIAN, {"name": "uniform", "lam": 0.4}):
        assert "Floating point." in text(does_not_say([record(noise)]))
        assert "In exact arithmetic." not in text(says([record(noise)]))
    for name, level in (("gaussian_grid", "sigma"), ("splitting", "sigma"), ("discrete", "keep")):
        run = record({"name": name, level: 0.5})
        assert "Floating point." not in text(does_not_say([run]))
        assert "In exact arithmetic." in text(says([run]))


def test_noises_on_a_grid_cover_inputs_on_it_only() -> None:
    run = record({"name": "gaussian_grid", "sigma": 0.5, "grid": 15})
    assert "multiples of 1/15" in text(says([run]))["Nothing nearer changes the label."]
    assert "multiples of 1/15" in text(does_not_say([run]))["Inputs off the grid."]
    assert "Inputs off the grid." not in text(does_not_say([record()]))


def test_counting_every_case_leaves_no_risk_and_closes_the_ball() -> None:
    leader = {"name": "certify", "n0": 10, "against": "leader"}
    run = record({"name": "splitting", "lam": 0.4}, sampling={"name": "exhaustive"}, procedure=leader)
    said = text(says([run]))
    assert "Without a risk." in said and "With a known risk." not in said
    assert "come to R or less" in said["Nothing nearer changes the label."]
    assert "All inputs at once." not in text(does_not_say([run]))


def test_own_levels_promise_nothing_without_a_memory() -> None:
    rows = (Row(0, 1, 1, 0.5, sigma=0.3),)
    bare = record(rows=rows, preparation=OWN)
    assert "promise nothing" in text(says([bare]))["Nothing about neighbours."]
    assert "Nothing nearer changes the label." not in text(says([bare]))
    kept = (Row(0, 1, 1, 0.5, sigma=0.3, settled=BeforeMemory(1, 0.5, None, None, True, 0)),)
    settled = record(rows=kept, preparation=OWN, memory=MemoryRef("m", "m.sqlite", "random", None))
    assert "from this memory" in text(says([settled]))["The memory keeps its word."]
    assert "order in which it was filled" in text(does_not_say([settled]))["A classifier without its memory."]
    frozen = record(rows=kept, preparation=OWN, memory=MemoryRef("m", "m.sqlite", None, 3))
    assert "which no longer changes" in text(says([frozen]))["The memory is a fixed function."]


def test_a_log_says_what_it_leaves_out() -> None:
    log = log_of((Row(0, 1, 1, 0.5),))
    assert "a log does not say which" in text(says([log]))["With a known risk."]
    assert "nothing can be recomputed" in text(does_not_say([log]))["What a log leaves out."]


def test_a_prediction_promises_no_radius() -> None:
    predict = {"name": "predict", "n": 100, "alpha": 0.001}
    run = record(rows=(Row(0, 1, 1, 0.0),), procedure=predict, sampling=None)
    assert set(text(says([run]))) == {"The likeliest label under noise.", "With a known risk."}
    assert set(text(does_not_say([run]))) == {"All inputs at once.", "The network alone."}


def test_what_holds_for_some_runs_names_them() -> None:
    other = record({"name": "uniform", "lam": 0.4}, name="b")
    said = says([record(), other])
    promises = [one for one in said if one.lead == "Nothing nearer changes the label."]
    assert [one.runs for one in promises] == [("a",), ("b",)]
    assert [one.runs for one in said if one.lead == "With a known risk."] == [()]
