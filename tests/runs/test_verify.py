"""The verifier: finds nothing in an honest run, and names everything in one that was tampered with."""

from __future__ import annotations

import json

import forging
import linear
import pytest
import small_run
from forging import answers

from smoothcert.classifiers import load
from smoothcert.classifiers.module import trusting
from smoothcert.runs.store import read
from smoothcert.runs.verify import ALL, Places, changed_data, verify, verify_run


@pytest.fixture
def run(tmp_path):
    data = small_run.write_data(tmp_path / "data.npz")
    small_run.make(tmp_path / "run", data)
    recipe, inputs = small_run.recipe_for(data)
    return tmp_path / "run", inputs, recipe.spec


def change(folder, statement, *values):
    """As a forger would, who writes the chain anew."""
    forging.sql(folder, statement, *values)
    forging.rechain(folder)


def test_an_honest_run_has_no_findings(run):
    folder, inputs, question = run
    findings = verify(read(folder), inputs, load("linear:score"), redraw=12)
    assert findings.problems == [] and findings.rows == 12 and findings.redrawn == 12
    assert findings.votes == 12 * 550
    assert changed_data(question, inputs) == []


def test_a_raised_radius_is_named(run):
    folder, inputs, _ = run
    change(folder, "UPDATE certificates SET radius = radius * 1.0001 WHERE idx = 3")
    (problem,) = verify(read(folder), inputs, load("linear:score"), redraw=0).problems
    assert problem.startswith("input 3: counts give radius")


def test_a_changed_count_is_named_even_when_the_sum_still_fits(run):
    folder, inputs, _ = run
    stored = answers(folder, 5)
    pairs = stored[1][3][0]
    if len(pairs) == 1:
        pairs.append([1 - pairs[0][0], 0])
    pairs[0][1], pairs[1][1] = pairs[0][1] - 1, pairs[1][1] + 1
    change(folder, "UPDATE certificates SET answers = ? WHERE idx = 5", json.dumps(stored))
    problems = verify(read(folder), inputs, load("linear:score"), redraw=12).problems
    assert any(problem.startswith("input 5: counts give radius") for problem in problems)
    assert any(problem.startswith("input 5: counts give the bound") for problem in problems)
    assert any("input 5: 1 of 500 test votes differ when drawn again" in problem for problem in problems)


def test_counts_and_radius_changed_together_are_found_by_drawing_again(run):
    """A forger who keeps the row consistent is still caught, because the noise is keyed by the seed."""
    folder, inputs, _ = run
    from smoothcert.bounds import lower_bound
    from smoothcert.contracts import Evidence
    from smoothcert.noise.gaussian import Gaussian

    stored = answers(folder, 5)
    label = max(stored[1][3][0], key=lambda pair: pair[1])[0]
    stored[1][3][0] = [[label, 500]]
    low = lower_bound(500, 500, 0.05)
    radius = Evidence(label, ((500,),), 500, low, 1 - low, 0.05).certificate(Gaussian(0.25), 4).radius
    change(
        folder,
        "UPDATE certificates SET answers=?, radius=?, predicted=?, low=? WHERE idx=5",
        json.dumps(stored),
        radius,
        label,
        low,
    )
    assert verify(read(folder), inputs, load("linear:score"), redraw=0).problems == []
    problems = verify(read(folder), inputs, load("linear:score"), redraw=12).problems
    assert len(problems) == 1 and problems[0].startswith("input 5:") and "differ when drawn again" in problems[0]


def test_another_label_is_named(run):
    folder, inputs, _ = run
    change(folder, "UPDATE certificates SET predicted = 1 - predicted, label = 1 - label WHERE idx = 2")
    problems = verify(read(folder), inputs, load("linear:score"), redraw=0).problems
    assert len(problems) == 2 and all(problem.startswith("input 2: ") for problem in problems)


def test_another_model_is_found_by_its_hash_and_by_its_votes(run):
    folder, inputs, _ = run
    (problem, *_) = verify_run(read(folder), Places(model="lines:b")).problems
    assert problem == "model lines:b is not the one that was certified (its hash differs)"
    findings = verify(read(folder), inputs, lambda x: -linear.score(x), redraw=2)
    assert len(findings.problems) >= 2


def test_rounding_explains_only_close_calls(run):
    """A model whose last bits differ is accepted; the votes it moves are counted."""
    folder, inputs, _ = run
    findings = verify(read(folder), inputs, lambda x: linear.score(x) * (1 + 1e-6) + 1e-7, redraw=12)
    assert findings.problems == []


def shifted(x):
    """The same classifier with scores so large that a share of them excuses everything."""
    return linear.score(x) + 3e4


def test_large_scores_buy_no_excuses(run):
    """Counts invented for a network whose logits are shifted by 3e4 differ by more than its rounding explains."""
    folder, inputs, _ = run
    honest = verify(read(folder), inputs, shifted, redraw=ALL)
    assert [problem for problem in honest.problems if "counts" in problem] == []
    stored = answers(folder, 5)
    stored[1][3][0] = [[0, 250], [1, 250]]
    forging.sql(folder, "UPDATE certificates SET answers=? WHERE idx=5", json.dumps(stored))
    forging.rechain(folder)
    problems = verify(read(folder), inputs, shifted, redraw=ALL).problems
    assert any(
        "input 5" in problem and "differ when drawn again; rounding explains at most" in problem for problem in problems
    )


def test_a_network_that_follows_the_last_bits_is_excused_for_few_votes_only(run):
    """Every score moves with the last bit of its input: all calls are close, and yet no more than a few are excused."""
    import torch

    def hashed(x):
        bits = x[:, 0].contiguous().view(torch.int32) % 2
        return torch.stack([1.0 - bits, bits.float()], dim=1) + 0 * x.sum(1, keepdim=True)

    folder, inputs, _ = run
    problems = verify(read(folder), inputs, hashed, redraw=ALL).problems
    assert sum("rounding explains at most 3" in problem for problem in problems) >= 12


def test_more_rows_of_a_larger_run_are_drawn_again(run):
    from smoothcert.runs.redraw import usual

    assert [usual(rows) for rows in (0, 1, 9, 12, 100, 500, 10_000, 10**6)] == [3, 3, 3, 4, 10, 23, 100, 1000]
    folder, inputs, _ = run
    found = verify(read(folder), inputs, load("linear:score"))
    assert found.redrawn == 4
    assert found.left_open[0].startswith("8 of 12 rows were not drawn again: counts invented there would not show")


def test_without_redraws_no_model_is_needed(run):
    folder, _, _ = run
    forging.recipe(folder, lambda table: table["question"].update(model="gone:net"))
    forging.rechain(folder)
    assert verify_run(read(folder), redraw=0).problems == []
    with trusting(), pytest.raises(Exception, match="must name a callable that can be imported"):
        verify_run(read(folder))


@pytest.mark.parametrize("n", [100, 10**5, 10**8, 10**10])
def test_bounds_of_very_many_draws_are_not_accused(n):
    """The tail function that checks a bound loses digits with n; honest bounds must stand all the same."""
    import dataclasses

    import made_runs

    from smoothcert.contracts import Answer, Source
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.runs.recompute import recompute, replay
    from smoothcert.runs.run import Row

    spec, source = (
        made_runs.spec(sampling={"name": "fixed", "n": n, "alpha": 0.001}),
        Source(linear.score, Gaussian(0.25)),
    )
    for share in (0.5600123, 0.7967, 0.9, 0.99, 0.9999):
        hits = round(share * n)
        counts = ((hits, n - hits),)
        answers = (Answer("guess", 10, ((9, 1),)), Answer("test", n, counts), Answer("clean", 1, ((1, 0),)))
        row = Row(0, 0, 0, 0.0, n + 10, None, 0, None, answers)
        proven, _ = replay(row, spec.procedure, source, spec.dim)
        row = dataclasses.replace(row, predicted=proven.label, radius=proven.radius, low=proven.evidence.low)
        assert recompute(row, spec, source) == []
