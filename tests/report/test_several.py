"""Several runs held against one: the correction keeps the level of all comparisons together, and tables say so."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from made_runs import ABSTAINED, WRONG, record, stored
from scipy.stats import binom

from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.report import paired
from smoothcert.report.compare import compare
from smoothcert.report.metrics import LEVEL, Interval
from smoothcert.report.several import against, as_json, table, too_low

OLD = record("old", [0.1, 0.6, WRONG, 0.3, ABSTAINED], {})
NEW = record("new", [0.3, 0.2, 0.3, WRONG, ABSTAINED], {"model_digest": "b" * 64})
BEST = record("best", [0.6, 0.6, 0.6, 0.6, 0.6], {"seed": 1})
SMALL = 6  # inputs: 1 716 outcomes of two runs beside a first one


@cache
def interval(gained: int, lost: int) -> Interval:
    return paired.interval(gained, lost, SMALL, paired.level_of(2))


@cache
def p_value(gained: int, lost: int) -> float:
    return paired.p_value(gained, lost)


def test_holm_is_bonferroni_for_the_smallest_and_never_falls() -> None:
    assert paired.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert paired.holm([0.02]) == [0.02] and paired.holm([]) == []
    assert paired.holm([0.6, 0.9]) == [1.0, 1.0]


def test_the_level_of_one_comparison_is_the_usual_one() -> None:
    assert paired.level_of(1) == LEVEL and paired.level_of(4) == pytest.approx(0.9875)
    assert paired.interval(5, 2, 40) == paired.interval(5, 2, 40, LEVEL)
    wider = [paired.interval(5, 2, 40, paired.level_of(m)) for m in (1, 2, 10, 100, 1000)]
    assert all(inner.low > outer.low and inner.high < outer.high for inner, outer in itertools.pairwise(wider))


def outcomes() -> list[tuple[int, ...]]:
    """How many of SMALL inputs are right in which of three runs: eight kinds of inputs."""
    bars = itertools.combinations(range(SMALL + 7), 7)
    return [tuple(b - a - 1 for a, b in itertools.pairwise((-1, *places, SMALL + 7))) for places in bars]


def test_two_comparisons_hold_together_exactly() -> None:
    """Every outcome is counted: intervals cover both differences, and Holm's p raises no false alarm, at the level."""
    kinds = list(itertools.product((0, 1), repeat=3))  # right in the first, the second, the third
    found = outcomes()
    ways = np.array([math.factorial(SMALL) / math.prod(map(math.factorial, one)) for one in found])
    counts = np.array(found)
    gained = [counts[:, [k[0] < k[i] for k in kinds]].sum(axis=1) for i in (1, 2)]
    lost = [counts[:, [k[0] > k[i] for k in kinds]].sum(axis=1) for i in (1, 2)]
    ends = np.array([[interval(int(g), int(v)) for g, v in zip(gained[i], lost[i], strict=True)] for i in (0, 1)])
    ps = [[p_value(int(g), int(v)) for g, v in zip(gained[i], lost[i], strict=True)] for i in (0, 1)]
    alarms = np.array([paired.holm(pair) for pair in zip(*ps, strict=True)]) <= 1 - LEVEL
    rng = np.random.default_rng(0)
    for number in range(60):
        chance = rng.dirichlet(np.full(8, 0.3 if number % 2 else 1.0))
        if number % 3 == 0:  # no difference: the first changes place with each of the others
            chance = np.mean([chance[[kinds.index(tuple(k[j] for j in order)) for k in kinds]]
                              for order in itertools.permutations(range(3))], axis=0)  # fmt: skip
        weight = ways * np.prod(chance**counts, axis=1)
        assert weight.sum() == pytest.approx(1.0)
        true = [sum(c * (k[i] - k[0]) for c, k in zip(chance, kinds, strict=True)) for i in (1, 2)]
        covered = [(ends[i, :, 0] - 1e-12 <= true[i]) & (true[i] <= ends[i, :, 1] + 1e-12) for i in (0, 1)]
        assert weight[covered[0] & covered[1]].sum() >= LEVEL
        null = [abs(value) < 1e-12 for value in true]
        false = sum(alarms[:, i] for i in (0, 1) if null[i]) if any(null) else np.zeros(len(weight))
        assert weight[np.asarray(false, dtype=bool)].sum() <= 1 - LEVEL


@pytest.mark.parametrize("changed", [9, 17, 40])
@pytest.mark.parametrize("others", [2, 5, 12])
def test_false_alarms_of_runs_that_change_on_other_inputs_each_exactly(changed: int, others: int) -> None:
    """Given how many inputs change, gains are Bin(changed, ½), and independent where no input changes twice.

    Some alarm is raised when the smallest p is small enough.
    """
    chances = binom.pmf(np.arange(changed + 1), changed, 0.5)
    ps = np.array([p_value(gained, changed - gained) for gained in range(changed + 1)])
    smallest = np.array([min(paired.holm([p] + [1.0] * (others - 1))) for p in ps])
    alone, together = (1.0 - (1.0 - chances[kept <= 0.05].sum()) ** others for kept in (ps, smallest))
    assert together <= 0.05
    assert alone > 0.05 or changed == 9  # uncorrected, it is not


def missed(up: float, down: float, level: float) -> float:
    """The chance that the interval of SMALL inputs does not hold the difference, over all outcomes."""
    total = 0.0
    for gained, lost in [(g, v) for g in range(SMALL + 1) for v in range(SMALL + 1 - g)]:
        ways = math.comb(SMALL, gained) * math.comb(SMALL - gained, lost)
        chance = ways * up**gained * down**lost * max(0.0, 1 - up - down) ** (SMALL - gained - lost)
        low, high = paired.interval(gained, lost, SMALL, level)
        total += chance * (not low - 1e-12 <= up - down <= high + 1e-12)
    return total


def test_each_interval_keeps_the_level_that_it_says() -> None:
    truths = [(0.5, 0.5), (0.3, 0.3), (0.9, 0.05), (0.2, 0.0), (0.45, 0.25), (0.7, 0.3), (0.1, 0.1)]
    level = paired.level_of(8)
    assert max(missed(*truth, level) for truth in truths) <= 1.0 - level
    assert max(missed(*truth, LEVEL) for truth in truths) > 1.0 - level  # the usual interval would not do


def test_of_many_runs_without_a_difference_one_looks_sure_only_so_often() -> None:
    """FOUND: eight runs against one, each with p by itself: about one history in six has a p ≤ 0.05."""
    trials, others, inputs = 1500, 8, 120
    rng = np.random.default_rng(1)
    easy = rng.random((trials, 1, inputs))  # shared: runs on the same inputs depend on each other
    right = rng.random((trials, others + 1, inputs)) < 0.3 + 0.4 * easy
    gained = (~right[:, :1] & right[:, 1:]).sum(axis=2)
    lost = (right[:, :1] & ~right[:, 1:]).sum(axis=2)
    ps = [[p_value(int(g), int(v)) for g, v in zip(*pair, strict=True)] for pair in zip(gained, lost, strict=True)]
    alone, together = (sum(min(values) <= 0.05 for values in kept) for kept in (ps, map(paired.holm, ps)))
    most = int(binom.ppf(1 - 1e-6, trials, 0.05))  # of as many trials at the level, but for one in a million
    assert together <= most < alone


def test_one_comparison_is_as_before() -> None:
    found = against(OLD, [NEW], [0.0, 0.5])
    assert found.pairs[0] == compare(OLD, NEW, [0.0, 0.5]) and found.corrected == ""
    assert [column.head for column in table(found).columns][3:] == ["95 % interval", "lost", "gained", "p"]
    assert "comparisons" not in as_json(found)


def test_several_runs_of_other_radii_share_the_radii_of_one_table() -> None:
    curve = record(
        "curve", [0.25, 0.5, 0.5, WRONG, ABSTAINED], {"sampling": {"name": "spending", "radii": [0.25, 0.5]}}
    )
    found = against(OLD, [NEW, curve])
    assert [[change.radius for change in pair.changes] for pair in found.pairs] == [[0.25, 0.5], [0.25, 0.5]]
    assert all(pair.acr is None for pair in found.pairs)
    assert table(found).names == ("% at 0.25", "% at 0.5")


def test_several_are_corrected_and_the_table_says_so() -> None:
    found = against(OLD, [NEW, BEST], [0.0, 0.5])
    alone = [compare(OLD, other, [0.0, 0.5]) for other in (NEW, BEST)]
    for pair, single in zip(found.pairs, alone, strict=True):
        for one, other in zip(pair.changes, single.changes, strict=True):
            assert one.interval.low < other.interval.low and one.interval.high > other.interval.high
            assert one.value == other.value and one.adjusted is not None and one.adjusted >= other.p_value
    shown = table(found)
    assert shown.titles == ["new − old", "best − old"]
    assert [column.head for column in shown.columns[:7]] == [
        "old", "new", "difference", "97.5 % interval", "lost", "gained", "p (Holm)",
    ]  # fmt: skip
    notes = "\n".join(shown.notes)
    assert notes.count("corrected, figure by figure, for 2 comparisons: intervals have 97.5 % each") == 1
    assert notes.count("old, new and best certify the same inputs and differ in model (2 of them), seed (0, 1)") == 1
    told = as_json(found)
    assert told["corrected"] == {"comparisons": 2, "intervals": "Bonferroni", "p_adjusted": "Holm"}
    assert [one["intervals"]["level"] for one in told["comparisons"]] == [0.975, 0.975]
    assert [one["certified_accuracy"]["0.5"]["p_adjusted"] for one in told["comparisons"]] == [
        pair.changes[1].adjusted for pair in found.pairs
    ]
    assert len(told["notes"]) == 2 and not any(one["notes"] for one in told["comparisons"])


def test_limits_hold_for_each() -> None:
    found = against(OLD, [NEW, BEST], [0.5])
    assert too_low(found, {"0.5": -0.1}) == [("new", ["certified accuracy at 0.5 changed by −0.200, allowed is −0.1"])]
    assert too_low(found, {"0.5": -0.3}) == []


def test_names_too_wide_for_columns_are_letters() -> None:
    runs = [record("a/very/long/path", [0.1], {}), record("b", [0.2], {"seed": 1}), record("c", [0.3], {"seed": 2})]
    shown = table(against(runs[0], runs[1:], [0.0]))
    assert shown.titles == ["B − A", "C − A"] and "A is a/very/long/path, C is c" in shown.notes


def test_the_command_takes_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [str(tmp_path / name) for name in "abc"]
    for number, place in enumerate(places):
        stored(Path(place), [0.1 * (number + 1), 0.5, WRONG], seed=number)
    assert run(["compare", *places, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["second"] for one in told["comparisons"]] == ["b", "c"] and told["failed"] == []
    assert run(["compare", *places, "--fail-below", "acr=0.05"]) == 1
    captured = capsys.readouterr()
    assert "corrected, figure by figure, for 2 comparisons" in captured.out
    assert captured.err.count("smoothcert: b is below a: ACR changed by") == 1
    assert run(["compare", places[0]]) == 2 and len(capsys.readouterr().err.splitlines()) == 1


def test_an_unfinished_run_is_said_and_passes_no_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever deletes the worst rows has better figures."""
    stored(tmp_path / "a", [0.1, 0.5, WRONG])
    stored(tmp_path / "b", [0.1, 0.5], inputs=3, seed=1)
    pair = [str(tmp_path / name) for name in "ab"]
    assert run(["compare", *pair]) == 0
    assert "b is unfinished: 2 of 3 inputs" in capsys.readouterr().out
    assert run(["compare", *pair, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"][0].startswith("b is unfinished: 2 of 3 inputs")
    for order in (pair, pair[::-1]):
        assert run(["compare", *order, "--fail-below", "acr=-1"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == "smoothcert: run b must be finished to be held against a limit; got 2 of 3 inputs"


def test_an_empty_run_is_one_line() -> None:
    for pair in ((OLD, record("none", [], {})), (record("none", [], {}), OLD)):
        with pytest.raises(RunError, match="run none must hold at least one finished input; got none"):
            against(pair[0], pair[1:])
