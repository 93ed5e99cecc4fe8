"""Levels and memories on the page: the right runs side by side, gains that add up, conflicts named as they ended."""

from __future__ import annotations

import dataclasses

import memory_run
import numpy as np
import pytest

from smoothcert.noise.gaussian import Gaussian
from smoothcert.report import render
from smoothcert.report.metrics import certified_accuracy, figures
from smoothcert.report.sections import memory
from smoothcert.report.sections.memory import _edges, curve_figure, level_figure
from smoothcert.runs.certify import carry_out
from smoothcert.runs.store import read

RADII = (0.0, 0.05, 0.1)


def section(runs, radii):
    return render.html(memory.section(runs, radii))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Fixed levels, own levels, own levels with a memory, and a frozen one, of the same inputs."""
    from smoothcert.classifiers import load

    folder = tmp_path_factory.mktemp("section")
    data = memory_run.write_data(folder / "data.npz")
    recipe, inputs = memory_run.recipe_for(data)
    for sigma in (0.1, 0.02):
        question = dataclasses.replace(recipe.spec, noise=Gaussian(sigma), preparation=None)
        fixed = dataclasses.replace(recipe, spec=question)
        carry_out(fixed, folder / f"fixed-{sigma}", inputs, load("islands:score"))
    memory_run.make(folder / "own", data, None)
    memory_run.make(folder / "kept", data, folder / "m")
    memory_run.make(folder / "frozen", data, folder / "m", None)
    return {name: read(folder / name) for name in ("fixed-0.1", "fixed-0.02", "own", "kept", "frozen")}


def test_runs_at_fixed_levels_have_no_such_section(records):
    assert memory.section([records["fixed-0.1"], records["fixed-0.02"]], RADII) is None


def test_partners_are_of_the_same_network_and_inputs(records):
    kept, fixed = records["kept"], records["fixed-0.02"]
    stranger = dataclasses.replace(fixed, spec=dataclasses.replace(fixed.spec, model_digest="another"))
    fewer = dataclasses.replace(fixed, rows=fixed.rows[:-1])
    (found,) = memory.own_levels([stranger, fewer, kept, fixed, records["fixed-0.1"]])
    assert found.run is kept and found.fixed == (fixed, records["fixed-0.1"]) and found.start == 0.02
    assert [row.radius for row in found.alone.rows] == [row.radius for row in records["own"].rows]


def test_gains_are_differences_of_the_figures(records):
    (found,) = memory.own_levels([records["kept"], records["fixed-0.02"]])
    (gain,) = memory.gains(found, RADII)
    ours, theirs = (figures(records[name], RADII) for name in ("kept", "fixed-0.02"))
    assert gain.acr.value == pytest.approx(ours.acr - theirs.acr) and gain.acr.low <= gain.acr.value <= gain.acr.high
    for radius in RADII:
        shares = [certified_accuracy(records[name], radius).value for name in ("kept", "fixed-0.02")]
        assert gain.shares[radius].value == pytest.approx(shares[0] - shares[1])


def test_conflicts_are_counted_and_named(records):
    kept = records["kept"]
    (found,) = memory.own_levels([kept])
    counts = found.how_settled()
    for kind in ("switched", "shrunk"):
        assert counts[kind] == sum(row.settled.conflict == kind for row in kept.rows) > 2
    html = section([kept], RADII)
    owners = {row.settled.seen + 1: row.index for row in kept.rows if row.settled.stored}
    row = next(r for r in kept.rows if r.settled.conflict == "switched")
    assert f"took the label of region {row.settled.by} (input {owners[row.settled.by]})" in html
    assert html.count("made room for region") == counts["shrunk"] and "own σ, with the memory" in html
    assert f"gave {counts['switched']} the label of a region around them" in html


def test_without_a_memory_it_says_that_nothing_is_certified(records):
    html = section([records["own"], records["fixed-0.1"], records["fixed-0.02"]], RADII)
    assert "own σ, without a memory: no certificate" in html and "with the memory" not in html.split("</p>", 1)[1]
    assert "best fixed σ at each radius" in html and "What the memory changed" not in html


def test_a_frozen_memory_has_no_conflicts_and_no_draws(records):
    html = section([records["frozen"]], RADII)
    assert "inputs lie in a region of the memory; nothing was drawn" in html and "What the memory changed" not in html


def test_pictures_show_every_curve_and_every_level(records):
    (found,) = memory.own_levels([records["kept"], records["fixed-0.02"], records["fixed-0.1"]])
    names = [line.get_label() for line in curve_figure(found).axes[0].lines]
    assert names == ["fixed σ = 0.02", "fixed σ = 0.1", "best fixed σ at each r", "own σ, no certificate",
                     "own σ, with the memory"]  # fmt: skip
    bars = level_figure(found).axes[0].patches
    assert sum(bar.get_height() for bar in bars if bar.get_height() > 0) >= 40
    few, many = np.array([0.1, 0.2, 0.4]), np.linspace(0.1, 0.9, 100)
    assert np.allclose(_edges(few), [0.1 / 2**0.5, 0.1 * 2**0.5, 0.2 * 2**0.5, 0.4 * 2**0.5])
    for levels in (few, many, many[:1]):
        edges = _edges(levels)
        assert (np.diff(edges) > 0).all() and edges[0] < levels[0] and levels[-1] < edges[-1]
