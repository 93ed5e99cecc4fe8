"""Selection labels: [n_y/n > η] exactly, and a file that training reads."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from smoothcert import data
from smoothcert.errors import DataError, OptionError
from smoothcert.training.selection import relabelled, selection_labels, write_labels


@pytest.mark.parametrize("draws", [10, 100, 1000])
def test_the_inequality_is_strict_and_exact(draws):
    right = np.arange(draws + 1)
    for above in range(draws):
        eta = float(f"{Fraction(above, draws).limit_denominator(1000) * 1.0:.3f}")  # as one types it: 0.95
        assert np.array_equal(selection_labels(right, draws, eta), right > above)


@pytest.mark.parametrize("eta", [-0.1, 1.0, float("nan")])
def test_eta_is_checked(eta):
    with pytest.raises(OptionError, match=r"eta of the selection labels must be in \[0, 1\)"):
        selection_labels(np.array([0, 1]), 1, eta)


@pytest.mark.parametrize(("right", "got"), [([9, 10], "all 1"), ([0, 5], "all 0")])
def test_labels_of_one_kind_are_refused(right, got):
    with pytest.raises(DataError, match=f"{got} at eta 0.5"):
        selection_labels(np.array(right), 10, 0.5)


def test_the_file_is_what_training_reads(tmp_path):
    path, training = tmp_path / "labels.npz", data.load("digits", "train")
    indices = np.array([7, 3, 40])
    write_labels(path, indices, np.array([1, 0, 1]), eta=0.5, model="abc")
    inputs = relabelled(training, path)
    assert inputs.indices.tolist() == [7, 3, 40] and inputs.labels.tolist() == [1, 0, 1]
    assert np.array_equal(inputs.tensors(), training.tensors(indices))
    with np.load(path, allow_pickle=False) as file:
        assert json.loads(str(file["origin"])) == {"eta": 0.5, "model": "abc"}
