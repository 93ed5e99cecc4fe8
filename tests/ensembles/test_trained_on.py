"""SWEEN's protocol: members keep training inputs back, and weights are fitted on exactly those."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from smoothcert.classifiers import composite
from smoothcert.classifiers.trained_on import held_by_all, refuse_trained, trained_on
from smoothcert.cli.main import run
from smoothcert.data import Subset, same_list
from smoothcert.errors import DataError, ModelError

TRAIN = ["train", "--arch", "mlp8", "--epochs", "1", "--batch", "400", "--threads", "1"]


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> Path:
    """Three that kept the same inputs back, one that kept others, one that kept none, one that began from that."""
    root = tmp_path_factory.mktemp("members")
    assert run([*TRAIN, "--hold-out", "0.05", "--seeds", "0-2", "--out", str(root / "held")]) == 0
    assert run([*TRAIN, "--hold-out", "0.1", "--out", str(root / "other")]) == 0
    assert run([*TRAIN, "--out", str(root / "whole")]) == 0
    assert run([*TRAIN, "--hold-out", "0.05", "--from", str(root / "whole"), "--out", str(root / "later")]) == 0
    return root


@pytest.fixture(autouse=True)
def inside(members, monkeypatch):
    monkeypatch.chdir(members)


HELD = [f"held/seed-{seed}" for seed in range(3)]


def ensemble(*words, out):
    return run(["ensemble", "make", *map(str, words), "--sigma", "0.25", "--out", str(out)])


def test_weights_are_fitted_on_exactly_what_members_kept_back(tmp_path, capsys):
    assert ensemble(*HELD, "--held-out", "--weights", "learned", out=tmp_path / "e") == 0
    told = capsys.readouterr()
    assert "65 hold-out inputs of digits (train)" in told.out and "may have been trained" not in told.err
    kept = composite.read(tmp_path / "e").holdout
    assert kept["indices"] == json.loads(Path("held/seed-0/config.json").read_text())["hold_out"]["indices"]
    # Nor is anything certified on them.
    asked = ["certify", str(tmp_path / "e"), "--data", "digits", "--split", "train", "--start", "9", "--max", "10"]
    assert run([*asked, "--sigma", "0.25", "--n", "100", "--out", str(tmp_path / "run")]) == 2
    assert "must not be those that" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    ([*HELD, "other", "--held-out"], "members must have kept back the same inputs; held/seed-0 and other did not"),
    ([*HELD, "whole", "--held-out"], "member whole must have been trained with --hold-out; it kept nothing back"),
    (["later", "--held-out"], "member later must have been trained with --hold-out; it kept nothing back"),
    (["lines:a", "--held-out"], "member lines:a must have been trained with --hold-out"),
    ([*HELD, "--held-out", "--data", "digits"], "give --held-out or --data, not both"),
    ([*HELD, "--data", "digits", "--split", "train"], "must not be those that held/seed-0 was trained on; got 65 of"),
    (["whole", "--data", "digits", "--split", "train"], "must not be those that whole was trained on; got 65 of them"),
])  # fmt: skip
def test_inputs_that_members_learned_from_are_refused(tmp_path, capsys, words, message):
    assert ensemble(*words, "--weights", "learned", out=tmp_path / "e") == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and not (tmp_path / "e").exists()


def test_training_inputs_that_were_kept_back_may_be_named_by_hand(capsys):
    back = trained_on(HELD[0])[0].indices
    inputs = Subset("digits", "train").load()
    chosen = inputs.chosen(np.flatnonzero(np.isin(inputs.indices, sorted(back))))
    assert refuse_trained(HELD, Subset("digits", "train"), chosen) == []
    with pytest.raises(DataError, match="that later was trained on"):  # by the network it began from
        refuse_trained(["later"], Subset("digits", "train"), chosen)


def test_what_cannot_be_known_is_said_in_capitals(tmp_path, capsys):
    inputs = Subset("digits", "test").load()
    np.savez(tmp_path / "copy.npz", x=(inputs.tensors().numpy()), y=inputs.labels)
    assert ensemble(*HELD[:2], "--weights", "learned", "--data", tmp_path / "copy.npz", out=tmp_path / "e") == 0
    told = capsys.readouterr().err
    assert "these members may have been trained on the hold-out inputs: held/seed-0, held/seed-1;" in told
    assert ensemble(*HELD[:2], "--weights", "learned", "--data", "digits", out=tmp_path / "f") == 0
    assert "may have been trained" not in capsys.readouterr().err  # another split of a set that has a name


def test_networks_inside_an_ensemble_are_asked_too(tmp_path):
    assert run(["ensemble", HELD[0], "whole", "--out", str(tmp_path / "e")]) == 0
    assert [found.model.rsplit("/")[-1] for found in trained_on(tmp_path / "e")] == ["seed-0", "whole"]
    with pytest.raises(DataError, match="was trained on"):
        refuse_trained([str(tmp_path / "e")], Subset("digits", "train"), Subset("digits", "train").load())


def test_other_data_under_the_same_name_are_not_taken_for_them(tmp_path):
    data = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, x=data.random((60, 8)).astype("f4"), y=data.integers(0, 2, 60))
    out = str(tmp_path / "net")
    assert run([*TRAIN, "--data", str(path), "--hold-out", "6", "--out", out]) == 0
    subset, held = held_by_all([out])
    assert len(held) == 6 and subset.spec == str(path)
    np.savez(path, x=data.random((60, 8)).astype("f4"), y=data.integers(0, 2, 60))
    with pytest.raises(DataError, match="must be what they were; got other data"):
        held_by_all([out])


def test_when_indices_mean_the_same_inputs(tmp_path):
    for split in ("train", "test"):
        (tmp_path / "pictures" / split).mkdir(parents=True)
    (tmp_path / "flat" / "cat").mkdir(parents=True)
    (tmp_path / "a.npz").touch()

    def same(one, two, split="test"):
        return same_list(Subset(str(one), "train"), Subset(str(two), split))

    assert same("digits", "digits", "train") is True and same("digits", "digits") is False
    assert same("mnist", "digits") is False and same("digits", tmp_path / "a.npz") is None
    assert same(tmp_path / "a.npz", tmp_path / "flat" / ".." / "a.npz") is True
    assert same(tmp_path / "a.npz", tmp_path / "b.npz") is None
    assert same(tmp_path / "pictures", tmp_path / "pictures") is False
    assert same(tmp_path / "pictures", tmp_path / "pictures", "train") is True
    assert same(tmp_path / "flat", tmp_path / "flat") is True


def test_a_config_that_lies_is_refused(tmp_path):
    import shutil

    shutil.copytree(HELD[0], tmp_path / "net")
    path = tmp_path / "net" / "config.json"
    config = json.loads(path.read_text())
    for change in ({"hold_out": {"indices": "x", "digest": "y"}}, {"hold_out": 3}, {"settings": {"data": 7}}):
        path.write_text(json.dumps({**config, **change}))
        with pytest.raises(ModelError, match="must say what it was trained on"):
            trained_on(tmp_path / "net")


def test_a_training_that_began_from_itself_ends(tmp_path):
    import shutil

    shutil.copytree("whole", tmp_path / "net")
    path = tmp_path / "net" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "settings": {**config["settings"], "start": str(tmp_path / "net")}}))
    with pytest.raises(ModelError, match="must not be made of itself"):
        trained_on(tmp_path / "net")
    path.write_text(json.dumps({**config, "settings": {**config["settings"], "start": "gone"}}))
    assert trained_on(tmp_path / "net")[1] is None  # what it learned before cannot be known


def test_the_best_few_are_taken(tmp_path, capsys):
    assert ensemble(*HELD, "whole", "--best", 2, "--data", "digits", out=tmp_path / "e") == 0
    told = capsys.readouterr().out
    made = composite.read(tmp_path / "e")
    assert len(made.members) == 2 and "left out, less accurate: " in told and made.order.endswith("the best 2")
    accuracy = made.holdout["accuracy"]
    assert accuracy == sorted(accuracy, reverse=True)
    assert ensemble(*HELD, "--best", 2, "--weights", "signed", "--data", "digits", out=tmp_path / "s") == 0
    vote = composite.read(tmp_path / "s").vote
    assert vote["values"] == "scores" and sum(vote["weights"]) == pytest.approx(1) and len(vote["weights"]) == 2


@pytest.mark.parametrize(("words", "message"), [
    (["--best", "4", "--data", "digits", "--sigma", "0.25"], "--best must be from 1 to the 3 members; got 4"),
    (["--best", "0", "--data", "digits", "--sigma", "0.25"], "--best must be from 1 to the 3 members; got 0"),
    (["--best", "2"], "--best 2 needs hold-out inputs; give --data, or --held-out, and --sigma"),
    (["--weights", "signed", "--vote", "weighted", "--data", "digits", "--sigma", "0.25"], "weights must be soft; got"),
    (["--weights", "signed", "--early-exit", "--data", "digits", "--sigma", "0.25"], "signed weights must be of all"),
    (["--weights", "1.5,-0.3,-0.2", "--vote", "softmax"], "must be 0 or more, with sum 1"),
    (["--held-out"], "--data (or --held-out) and --sigma of an ensemble must be given together"),
])  # fmt: skip
def test_nonsense_is_one_line(tmp_path, capsys, words, message):
    assert run(["ensemble", "make", *HELD, *words, "--out", str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and not (tmp_path / "e").exists()


def test_negative_weights_by_hand(tmp_path):
    words = ["--vote", "soft", "--weights", "1.5,-0.3,-0.2", "--out", str(tmp_path / "e")]
    assert run(["ensemble", "make", *HELD, *words]) == 0
    assert composite.read(tmp_path / "e").vote["weights"] == [1.5, -0.3, -0.2]
