"""`smoothcert ensemble` and `smoothcert export-onnx`: made, certified, verified, continued; nonsense gets one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import small_run
import torch

from smoothcert.classifiers import composite, digest, load, ready
from smoothcert.cli.main import run
from smoothcert.contracts import Job, Source
from smoothcert.data import Subset
from smoothcert.data import load as load_data
from smoothcert.engine.engine import Engine
from smoothcert.progress import Watcher
from smoothcert.runs.certify import carry_out
from smoothcert.runs.store import read
from smoothcert.spec import Recipe

LINES = ["lines:a", "lines:b", "lines:c"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "data.npz", 200)
    return tmp_path


def made(*words):
    return run(["ensemble", *map(str, words), "--out", "ens"])


def certified(model, out, *words):
    return run(
        ["certify", model, "--data", "data.npz", "--sigma", "0.25", "--skip", "20", "--n", "500", "--out", out, *words]
    )


HOLDOUT = ("--data", "data.npz", "--sigma", "0.25")


def test_made_certified_verified(place, capsys):
    assert made(*LINES, "--consensus", 2, *HOLDOUT) == 0
    out = capsys.readouterr().out
    assert (
        "10 hold-out inputs of data.npz (test), gaussian noise (l2), sigma 0.25; these are not for certification" in out
    )
    description = composite.read(Path("ens"))
    assert description.cascade == {"name": "k_consensus", "k": 2} and description.vote == {"name": "soft_vote"}
    accuracy = description.holdout["accuracy"]
    assert accuracy == sorted(accuracy, reverse=True) and description.order.startswith("accuracy under noise")
    assert description.holdout["indices"].split()[:3] == ["1", "21", "41"]
    assert certified("ens", "run") == 0
    assert "of 3; " in capsys.readouterr().out
    asked = read(Path("run")).means.member_calls
    assert asked.members == 3 and asked.asked == 2 * asked.rows + asked.rows - asked.early
    assert asked.rows >= 10 * 601 and 0 < asked.early < asked.rows
    assert run(["verify", "run", "--redraw", "10"]) == 0
    assert "all as recorded" in capsys.readouterr().out


def test_fitted_inputs_are_refused(place, capsys):
    assert made(*LINES, "--consensus", 2, *HOLDOUT) == 0
    for words in (["--start", "1"], ["--skip", "1"]):
        capsys.readouterr()
        assert certified("ens", "run", *words) == 2
        errors = capsys.readouterr().err.splitlines()
        assert len(errors) == 3 and "must not be those that ens was fitted on" in errors[2]
        assert not Path("run").exists()
    assert made(*LINES) == 0  # nothing fitted: everything may be certified
    assert certified("ens", "run", "--start", "1") == 0


def test_a_run_from_another_start_is_another_question(place, capsys):
    assert certified("lines:a", "run") == 0
    assert certified("lines:a", "run", "--start", "1") == 2
    assert "start 0 ≠ 1" in capsys.readouterr().err
    assert certified("lines:a", "other", "--start", "1") == 0
    assert [row.index for row in read(Path("other")).rows] == list(range(1, 200, 20))
    assert run(["verify", "other"]) == 0


class StopError(Exception):
    """Ends a run in the middle."""


def test_resumed_by_the_rows_and_the_count(place):
    assert made(*LINES, "--consensus", 2) == 0
    inputs = load_data("data.npz", skip=20)

    def carry(folder, watcher=None):
        recipe, _ = small_run.recipe_for(place / "data.npz", n=300)
        settings = {"model": "ens", "model_digest": digest("ens").hex, "data": Subset("data.npz", skip=20)}
        question = dataclasses.replace(recipe.spec, **settings, data_digest=inputs.digest, inputs=len(inputs))
        classifier = ready(load("ens"), inputs.tensor(0)).classifier
        carry_out(dataclasses.replace(recipe, spec=question), place / folder, inputs, classifier, watcher)
        return read(place / folder)

    def stop(draws, seen=[]):  # noqa: B006
        seen.append(draws)
        if len(seen) == 4:
            raise StopError

    with pytest.raises(StopError):
        carry("stopped", Watcher(finished=stop))
    assert len(read(place / "stopped").rows) == 4
    whole, resumed = carry("whole"), carry("stopped")
    strip = [[dataclasses.replace(row, seconds=None) for row in record.rows] for record in (whole, resumed)]
    assert strip[0] == strip[1] and len(strip[0]) == 10
    counted = resumed.means.member_calls
    assert 0 < counted.rows < whole.means.member_calls.rows  # a stopped attempt has told nothing
    assert carry("stopped").means.member_calls == counted  # nothing left to do, nothing counted


def test_a_worker_loads_it_by_its_name(place):
    """What a Ray worker does, without Ray: the same rows as here."""
    from smoothcert.runs.remote import Station

    assert made(*LINES, "--consensus", 2) == 0
    assert certified("ens", "run") == 0
    recipe, inputs = Recipe.read(place / "run" / "recipe.toml"), load_data("data.npz", skip=20)
    bench = Station(recipe, 1, inputs.tensor(0).numpy(), ())()
    source = Source(bench.parts[0], recipe.spec.noise)
    engine = Engine(bench.executor, recipe.spec.seed)
    jobs = (
        Job(int(index), inputs.tensor(at), recipe.spec.procedure(source, inputs.tensor(at).numel()))
        for at, index in enumerate(inputs.indices)
    )
    outcomes = {outcome.index: outcome.answers for outcome in engine.run(jobs)}
    assert outcomes == {row.index: row.answers[:-1] for row in read(place / "run").rows}  # the last is without noise
    assert not pytest.importorskip("ray").is_initialized()


def test_early_exit_goes_by_weight(place, capsys):
    assert made(*LINES, "--weights", "0.2,0.5,0.3", "--early-exit", "--threshold", 0.8, "--level", 0.1) == 0
    description = composite.read(Path("ens"))
    assert [member.place for member in description.members] == ["lines:b", "lines:c", "lines:a"]
    assert description.vote == {"name": "weighted_vote", "weights": [0.5, 0.3, 0.2], "values": "softmax"}
    assert description.cascade == {"name": "early_exit", "threshold": 0.8, "level": 0.1}
    assert description.order == "falling weight" and description.holdout is None
    assert certified("ens", "run") == 0 and run(["verify", "run"]) == 0


@pytest.mark.parametrize("way", ["learned", "optimal"])
def test_fitted_weights(place, capsys, way):
    assert made(*LINES, "--weights", way, *HOLDOUT, "--skip", 2, "--set", "draws=5") == 0
    description = composite.read(Path("ens"))
    weights = description.vote["weights"]
    assert sum(weights) == pytest.approx(1) and all(weight > 0 for weight in weights)
    assert description.vote["values"] == "softmax" and "gap" in description.holdout["report"]
    assert len(weights) == len(description.members)
    told = capsys.readouterr().out
    assert ("margins of a member with one of another kind: covariance" in told) == (way == "optimal")
    assert load("ens")(torch.rand(3, 4)).shape == (3, 2)


def test_nested_and_written_over(place):
    assert made(*LINES, "--consensus", 2) == 0
    assert run(["ensemble", "ens", "lines:a", "--vote", "hard", "--out", "outer"]) == 0
    assert certified("outer", "run") == 0 and run(["verify", "run"]) == 0
    assert made(*LINES) == 0  # the inner one is another now
    assert certified("outer", "again") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument 'MEMBERS...'"),
        ([*LINES, "--vote", "sfot"], "vote of an ensemble must be one of"),
        ([*LINES, "--weights", "0.5,0.6"], "weights of an ensemble must be one for each of its 3 members; got 2"),
        ([*LINES, "--weights", "0.5,x,y", "--early-exit"], "the same for every input; got another thing"),
        ([*LINES, "--weights", "0.5,0.6,0.7"], "weights of an ensemble must be 0 or more, with sum 1"),
        ([*LINES, "--weights", "lerned", *HOLDOUT], "weight must be one of learned, optimal, signed; got 'lerned'"),
        ([*LINES, "--weights", "learned"], "--weights learned needs hold-out inputs; give --data, or --held-out"),
        ([*LINES, "--weights", "learned", "--vote", "soft", *HOLDOUT], "weights must be softmax or weighted; got soft"),
        ([*LINES, "--weights", "learned", *HOLDOUT, "--set", "x=1"], "option of learned must be one of"),
        ([*LINES, "--set", "draws=1"], "options of weights need learned, signed or optimal weights; got draws"),
        ([*LINES, "--vote", "weighted"], "weights of weighted_vote must be given"),
        ([*LINES, "--consensus", "4"], "k of k_consensus must be a whole number from 1 to the 3 members; got 4"),
        ([*LINES, "--consensus", "0"], "k of k_consensus must be"),
        ([*LINES, "--consensus", "2", "--early-exit"], "must have one of consensus and early_exit; got both"),
        ([*LINES, "--vote", "hard", "--early-exit"], "vote inside early_exit must be a mean"),
        ([*LINES, "--data", "data.npz"], "--data (or --held-out) and --sigma of an ensemble must"),
        ([*LINES, "--data", "data.npz", "--sigma", "-1"], "sigma of gaussian must be a positive number"),
        ([*LINES, *HOLDOUT, "--start", "500"], "start of the data must be below 200"),
        ([*LINES, *HOLDOUT, "--seed", "-1"], "seed must be a whole number"),
        (["lines:a", "linear:three", *HOLDOUT], "classes of members must be the same; got 2 in lines:a and 3 in"),
        (["lines:a", "linear:broken", *HOLDOUT], "member linear:broken must accept inputs of shape [4]; got:"),
        (["lines:a", "nowhere"], "there is no 'nowhere'"),
        (["lines:a", "data.npz"], "must"),
    ],
)  # fmt: skip
def test_bad_input(place, capsys, words, message):
    assert made(*words) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and message in errors[0], errors
    assert [path.name for path in place.iterdir()] == ["data.npz"]


def test_other_things_are_not_written_over(place, capsys):
    Path("ens").mkdir()
    Path("ens", "notes.txt").touch()
    assert made(*LINES) == 2
    assert "must be a new folder or an ensemble; got 'ens' with notes.txt" in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two small untrained networks as checkpoints, of other architectures."""
    from smoothcert.training import checkpoints

    folder = tmp_path_factory.mktemp("models")
    for seed, arch in enumerate(("mlp8", "mlp4")):
        config = {"arch": arch, "arch_options": {"hidden": 1}, "shape": [1, 4, 4], "classes": 3}
        torch.manual_seed(seed)
        (folder / arch).mkdir()
        checkpoints.publish(folder / arch, checkpoints.plain(checkpoints.build(config, "test")), config)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["--vote", "soft"],
        ["--vote", "softmax"],
        ["--weights", "0.25,0.75"],
        ["--weights", "0.25,0.75", "--vote", "soft"],
        ["--vote", "hard"],
        ["--vote", "max_margin"],
    ],
)
def test_one_graph_of_all_members(place, trained, words):
    assert made(trained / "mlp8", trained / "mlp4", *words) == 0
    assert run(["export-onnx", "ens", "--shape", "1,4,4", "--out", "ens.onnx"]) == 0
    exported, here = load("ens.onnx"), load("ens")
    x = torch.rand(200, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert exported.rows is None
    assert float((exported(x) - here(x)).abs().max()) < 1e-5
    assert torch.equal(exported(x).argmax(1), here(x).argmax(1))


def test_one_graph_of_a_network_and_of_nested_ensembles(place, trained):
    np.savez("images.npz", x=np.random.default_rng(0).random((3, 1, 4, 4), dtype=np.float32), y=np.arange(3))
    assert run(["export-onnx", str(trained / "mlp4"), "--data", "images.npz", "--out", "one.onnx"]) == 0
    assert made(trained / "mlp8", trained / "mlp4", "--vote", "hard") == 0
    assert run(["ensemble", "ens", str(trained / "mlp8"), "--vote", "softmax", "--out", "outer"]) == 0
    assert run(["export-onnx", "outer", "--data", "images.npz", "--out", "outer.onnx"]) == 0
    x = torch.rand(50, 1, 4, 4)
    assert torch.allclose(load("outer.onnx")(x), load("outer")(x), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lines:a", "--shape", "4", "--out", "x.onnx"], "must be made of torch networks; got a callable"),
        (["ens", "--shape", "4", "--out", "x.onnx"], "must always ask all of its members; got k_consensus"),
        (["lines:a", "--shape", "4", "--out", "x"], "--out must be a file name that ends in .onnx; got 'x'"),
        (["lines:a", "--shape", "4", "--out", "no/x.onnx"], "--out must be in a folder that exists"),
        (["lines:a", "--out", "x.onnx"], "give one of --data and --shape; got neither"),
        (["lines:a", "--shape", "4", "--data", "data.npz", "--out", "x.onnx"], "got both"),
        (["lines:a", "--shape", "4,x", "--out", "x.onnx"], "--shape must be whole numbers above 0"),
    ],
)
def test_what_cannot_be_exported(place, capsys, words, message):
    assert made(*LINES, "--consensus", 2) == 0
    capsys.readouterr()
    assert run(["export-onnx", *words]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and message in errors[0]
    assert not list(place.glob("*.onnx"))
