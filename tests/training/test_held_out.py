"""Training inputs that are kept back: which, that none is trained on, and what a checkpoint says of them."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.cli.main import run
from smoothcert.data import Subset
from smoothcert.errors import DataError, OptionError
from smoothcert.training import Settings, setup
from smoothcert.training.checkpoints import read_config
from smoothcert.training.held_out import kept_back

DIGITS = Subset("digits", "train").load()


def test_a_share_is_spread_evenly_and_the_same_for_every_seed():
    found = kept_back(DIGITS, "0.04")
    assert len(found) == round(0.04 * len(DIGITS)) == 52 and len(np.unique(found)) == 52
    assert set(np.diff(found)) <= {24, 25} and found[0] == len(DIGITS) // 104
    assert np.array_equal(kept_back(DIGITS, "52"), found)
    assert np.array_equal(kept_back(DIGITS, str(len(DIGITS) - 1)), np.unique(kept_back(DIGITS, str(len(DIGITS) - 1))))


def test_none_of_them_is_trained_on():
    found = setup.inputs(Settings("digits", "mlp8", hold_out="0.1"))
    back = {int(index) for index in found.held_out["indices"].split()}
    assert len(back) == found.held_out["inputs"] == 130 and found.held_out["of"] == len(DIGITS)
    assert back | set(found.training.indices.tolist()) == set(DIGITS.indices.tolist())
    assert not back & set(found.training.indices.tolist())
    assert found.held_out["digest"] == DIGITS.chosen(np.array(sorted(back))).listing_digest
    assert len(found.watched) == len(Subset("digits", "test").load())


def test_a_file_says_which(tmp_path):
    np.savez(tmp_path / "back.npz", index=np.array([900, 3, 40]))
    found = setup.inputs(Settings("digits", "mlp8", hold_out=str(tmp_path / "back.npz")))
    assert found.held_out["indices"] == "3 40 900" and len(found.training) == len(DIGITS) - 3


@pytest.mark.parametrize("asked", ["0", "1.0", "-0.5", "nan", "some", "", "99999", "1e-400", "٣"])
def test_a_share_that_leaves_nothing_or_takes_nothing_is_refused(asked):
    with pytest.raises((OptionError, DataError), match="hold_out of training must"):
        kept_back(DIGITS, asked)


@pytest.mark.parametrize("index", [[1, 1], [5000], [-1], [[1]], [0.5], []])
def test_indices_that_are_none_are_refused(tmp_path, index):
    np.savez(tmp_path / "back.npz", index=np.array(index))
    with pytest.raises(DataError, match="hold_out"):
        kept_back(DIGITS, str(tmp_path / "back.npz"))


def test_a_checkpoint_says_which_and_goes_on_with_the_same(tmp_path, capsys):
    out = tmp_path / "net"
    options = ["train", "--arch", "mlp8", "--batch", "400", "--threads", "1", "--out", str(out)]
    assert run([*options, "--epochs", "1", "--hold-out", "0.1"]) == 0
    config = read_config(out)
    assert config["settings"]["hold_out"] == config["hold_out"]["asked"] == "0.1"
    assert config["hold_out"]["rule"].startswith("spread evenly") and len(config["hold_out"]["digest"]) == 64
    assert run([*options, "--epochs", "1", "--hold-out", "0.2"]) == 2
    assert "hold_out of the training" in capsys.readouterr().err
    assert run([*options, "--epochs", "1"]) == 2
    assert run(["train", "--hold-out", "0.1", "--describe", "--arch", "mlp8"]) == 0
    assert "digits: 1,167 training inputs, 130 kept back, 5 steps an epoch" in capsys.readouterr().out


def test_labels_of_others_and_a_hold_out_do_not_go_together(tmp_path):
    np.savez(tmp_path / "labels.npz", index=np.array([0, 1]), label=np.array([0, 1]))
    with pytest.raises(OptionError, match="hold_out of training must be left out with labels"):
        setup.inputs(Settings("digits", "mlp8", hold_out="0.1", labels=str(tmp_path / "labels.npz")))
