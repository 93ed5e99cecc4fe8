"""The picture of attacked inputs: what it shows is what the audit found, and it says whether a label was lost."""

from __future__ import annotations

import dataclasses

import denoisers
import numpy as np
import pytest
import small_run

from smoothcert.audit import AuditPlan, audit
from smoothcert.cli.main import run as command
from smoothcert.errors import RunError
from smoothcert.report.edge import CHANGED, STOOD, caption, edge_figure, magnified
from smoothcert.runs.store import read
from smoothcert.runs.verify import Places

PLAN = AuditPlan(inputs=4, n=50, draws=16, steps=2, redraw=0, seed=0, threads=1, kept=2)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the run of a small network on digits."""
    folder = tmp_path_factory.mktemp("edge")
    denoisers.write(folder / "net", "digits_cnn", 3, width=4)
    words = "--data digits --skip 100 --sigma 0.25 --n 200 --threads 1"
    assert command(["certify", str(folder / "net"), *words.split(), "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture(scope="module")
def found(place):
    run = read(place / "run")
    return run, audit(run, PLAN, Places(None, None, None)).attacked


def words(figure):
    return [axes.get_xlabel() for axes in figure.axes]


def test_the_change_that_is_shown_is_inside_the_certified_ball(found):
    run, attacked = found
    radii = {row.index: row.radius for row in run.rows}
    assert len(attacked) == 2 and attacked[0].certified.radius <= attacked[1].certified.radius
    for one in attacked:
        assert 0 < one.distance < radii[one.certified.index]
        moved = (one.point.double() - one.certified.x.double()).norm()
        assert float(moved) == pytest.approx(one.distance, abs=1e-5)


def test_the_picture_tells_votes_norm_and_radius(found):
    run, attacked = found
    figure = edge_figure(run, attacked)
    told, one = words(figure), attacked[0]
    hits, draws = one.support(one.point)
    assert len(figure.axes) == 6 and draws == 200
    assert told[1].endswith(f"{hits} of 200 copies say so") and told[1].startswith("still ")
    assert told[2].startswith(f"ℓ₂ norm {np.floor(one.distance * 1000) / 1000:.3f}, certified ")
    shown = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_array_equal(shown, one.certified.x[0].numpy())


def test_a_lost_label_is_said(found):
    run, attacked = found
    assert " ".join(caption(attacked).split()).startswith(STOOD)
    lost = [dataclasses.replace(attacked[0], lost="3 of 10000 draws keep label 1"), *attacked[1:]]
    assert " ".join(caption(lost).split()).startswith(CHANGED.format(1))
    assert words(edge_figure(run, lost))[1].startswith("no longer ")


def test_a_change_is_magnified_in_round_steps_as_far_as_it_can_be_shown():
    shown, times = magnified(np.array([0.03, -0.012, 0.0]))
    assert times == 10
    np.testing.assert_allclose(shown, [0.8, 0.38, 0.5])
    assert magnified(np.array([0.7]))[1] == 1


def test_nothing_attacked_is_no_picture(found):
    with pytest.raises(RunError, match="has none that was attacked"):
        edge_figure(found[0], [])


def test_the_command_writes_both_files_and_refuses_what_is_no_picture(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    few = ["--inputs", "2", "--n", "50", "--draws", "16", "--steps", "2", "--redraw", "0", "--threads", "1"]
    assert command(["audit", "run", *few, "--picture", "edge.png"]) == 0
    assert (place / "edge.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (place / "edge.svg").read_text()
    small_run.make(place / "flat", small_run.write_data(place / "data.npz"))
    capsys.readouterr()
    assert command(["audit", "flat", "--picture", "flat.png"]) == 2
    assert "a picture must be asked of a run on images" in capsys.readouterr().err
    assert command(["audit", "run", "--picture", "nowhere/edge.png"]) == 2
