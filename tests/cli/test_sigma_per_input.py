"""A noise level of its own for every input, from the command line: kept, replayed, redrawn, resumed."""

from __future__ import annotations

import dataclasses

import pytest

from smoothcert.cli.main import run
from smoothcert.runs.store import read

OPTIONS = ["--data", "digits", "--skip", "60", "--sigma", "0.25", "--n", "500", "--threads", "1"]
SEARCH = ["--sigma-per-input", "--steps", "10", "--draws", "4", "--step-size", "0.01"]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sigma") / "net"
    assert run(["train", "--out", str(folder), "--epochs", "2", "--batch", "64", "--threads", "1"]) == 0
    return folder


def certify(network, out, *options):
    return run(["certify", str(network), *OPTIONS, "--out", str(out), *options])


def test_levels_are_chosen_kept_and_verified(network, tmp_path, capsys):
    assert certify(network, tmp_path / "fixed") == 0
    capsys.readouterr()
    assert certify(network, tmp_path / "own", *SEARCH) == 0
    assert "NOT CERTIFIED: each input has a noise level" in capsys.readouterr().out
    fixed, own = read(tmp_path / "fixed").rows, read(tmp_path / "own").rows
    assert all(row.sigma is None for row in fixed) and all(0.0625 <= row.sigma <= 1 for row in own)
    assert len({row.sigma for row in own}) > len(own) // 2
    capsys.readouterr()
    assert run(["verify", str(tmp_path / "own"), "--redraw", "3"]) == 0
    assert "all as recorded" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run(["report", str(tmp_path / "own"), str(tmp_path / "fixed"), "--html", str(page)]) == 0
    assert "NOT CERTIFIED" in " ".join(capsys.readouterr().out.split()) and "NOT CERTIFIED" in page.read_text()
    assert (
        "Inputs with the smallest σ" in page.read_text()
        and "own σ, without a memory: no certificate" in page.read_text()
    )


def test_a_stopped_run_goes_on_with_the_same_levels(network, tmp_path):
    import forging

    assert certify(network, tmp_path / "whole", *SEARCH) == 0
    assert certify(network, tmp_path / "cut", *SEARCH) == 0
    # As if it had been stopped before these.
    forging.sql(tmp_path / "cut", "DELETE FROM certificates WHERE idx > 60", changed=None)
    forging.rechain(tmp_path / "cut")
    assert certify(network, tmp_path / "cut", *SEARCH) == 0
    whole, cut = (
        [dataclasses.replace(row, seconds=0) for row in read(tmp_path / name).rows] for name in ("whole", "cut")
    )
    # Levels are chosen for several inputs in one batch, and another batch may move their last digits.
    assert [row.index for row in cut] == [row.index for row in whole]
    assert [row.sigma for row in cut] == pytest.approx([row.sigma for row in whole], rel=1e-4)


def test_the_grid_needs_no_gradients_and_the_ascent_says_so(network, tmp_path, capsys):
    onnx = str(tmp_path / "net.onnx")
    assert run(["export-onnx", str(network), "--data", "digits", "--out", onnx]) == 0
    capsys.readouterr()
    assert certify(onnx, tmp_path / "no", *SEARCH) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert "needs a torch network" in err and "--sigma-search grid" in err
    assert certify(onnx, tmp_path / "grid", "--sigma-per-input", "--sigma-search", "grid", "--draws", "20") == 0
    assert len({row.sigma for row in read(tmp_path / "grid").rows}) > 1


def test_the_published_grid_and_a_class_that_is_followed(network, tmp_path):
    grid = ["--sigma-per-input", "--sigma-search", "grid", "--sigma-bounds", "0,1", "--draws", "10", "--follow"]
    assert certify(network, tmp_path / "grid", *grid) == 0
    run_ = read(tmp_path / "grid")
    assert run_.asked.preparation.follow and run_.asked.preparation.low == 0.0
    assert all(round(row.sigma * 20, 6).is_integer() and row.sigma > 0 for row in run_.rows)
    assert run(["verify", str(tmp_path / "grid"), "--redraw", "2"]) == 0


def test_uniform_noise_is_climbed_in_its_half_width(network, tmp_path):
    options = ["--data", "digits", "--skip", "120", "--noise", "uniform", "--set", "lam=0.5", "--n", "200"]
    for out, more in (("lam", []), ("sigma", ["--steps-in", "sigma"])):
        words = [*options, *SEARCH, *more, "--threads", "1", "--out", str(tmp_path / out)]
        assert run(["certify", str(network), *words]) == 0
    assert read(tmp_path / "lam").asked.preparation.steps_in == "lam"
    assert read(tmp_path / "sigma").asked.preparation.steps_in is None
    assert run(["verify", str(tmp_path / "lam"), "--redraw", "2"]) == 0


@pytest.mark.parametrize(("options", "words"), [
    (["--follow"], "--follow needs --sigma-per-input"),
    (["--steps-in", "lam"], "--steps-in needs --sigma-per-input"),
    (["--sigma-per-input", "--steps-in", "lam"], "steps_in of per_input_sigma must be sigma for gaussian noise"),
    (["--sigma-per-input", "--steps-in", "volts"], "steps_in of per_input_sigma must be one of"),
    (["--sigma-per-input", "--sigma-bounds", "0,1"], "low of per_input_sigma must be"),
    (["--steps", "5"], "--steps needs --sigma-per-input"),
    (["--sigma-per-input", "--steps", "0"], "steps of per_input_sigma"),
    (["--sigma-per-input", "--sigma-bounds", "0.5,1"], "within the bounds"),
    (["--sigma-per-input", "--sigma-bounds", "low"], "--sigma-bounds must be two numbers"),
    (["--sigma-per-input", "--sigma-search", "luck"], "search of per_input_sigma"),
    (["--sigma-per-input", "--sigma-search", "votes"], "draws of per_input_sigma must be at least 20"),
    (["--evaluations", "500"], "--evaluations needs --sigma-per-input"),
])  # fmt: skip
def test_bad_options_are_one_line(network, tmp_path, capsys, options, words):
    assert certify(network, tmp_path / "run", *options) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()
