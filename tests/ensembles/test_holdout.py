"""Hold-out inputs: the same copies for all members, known again later, and never certified."""

from __future__ import annotations

import linear
import numpy as np
import pytest
import torch

from smoothcert.classifiers import composite
from smoothcert.data import load
from smoothcert.ensembles.holdout import HoldoutInputs, fitted_on, marks, refuse_used
from smoothcert.errors import DataError, OptionError
from smoothcert.noise.gaussian import Gaussian


def write(path, x, seed=0):
    labels = (linear.margin(torch.from_numpy(x)).numpy() > 0).astype(np.int64)
    np.savez(path, x=x, y=labels)
    return str(path)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "a.npz", np.random.default_rng(0).random((60, 4), dtype=np.float32))


def test_accuracy_is_that_of_the_same_copies_for_all(data):
    seen = []

    def watching(x):
        seen.append(x.clone())
        return linear.score(x)

    inputs = load(data)
    right, wrong, again = HoldoutInputs(inputs, Gaussian(0.25), 3).accuracy(
        [watching, lambda x: -linear.score(x), watching], draws=5
    )
    copies = torch.cat(seen[::2])
    assert torch.equal(copies, torch.cat(seen[1::2])) and len(copies) == 60 * 5
    assert len({tuple(row.tolist()) for row in copies}) == 300
    truth = torch.from_numpy(inputs.labels).repeat_interleave(5)
    assert right == again == float((linear.score(copies).argmax(1) == truth).double().mean())
    assert right + wrong == 1 and right > 0.8
    assert HoldoutInputs(inputs, Gaussian(0.25), 4).accuracy([linear.score], draws=5) != (right,)


def test_start_is_the_first_index(data):
    assert load(data, skip=20, start=1).indices.tolist() == [1, 21, 41]
    assert load("digits", skip=100, start=7, max=300).indices.tolist() == [7, 107, 207]
    assert not set(load(data, skip=20).indices) & set(load(data, skip=20, start=1).indices)
    for bad, message in ((-1, "must be 0 or more"), (60, "must be below 60, where the inputs end; got 60")):
        with pytest.raises(OptionError, match=message):
            load(data, start=bad)
    with pytest.raises(OptionError, match="must be below 5"):
        load(data, start=5, max=5)


def test_start_of_a_folder(tmp_path):
    from PIL import Image

    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(3):
            Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / label / f"{number}.png")
    assert load(str(tmp_path), skip=2, start=1).indices.tolist() == [1, 3, 5]


def folder_of(path, holdout, members=()):
    composite.write(path, composite.Composite("ensemble", tuple(members), {"name": "soft_vote"}, holdout=holdout))
    return path


def test_inputs_that_were_fitted_on_are_refused_by_index_and_value(tmp_path, data):
    used = load(data, skip=20, start=1)
    folder = folder_of(tmp_path / "ens", HoldoutInputs(used, Gaussian(0.25), 0).record())
    refuse_used(folder, load(data, skip=20))
    with pytest.raises(DataError, match=r"must not be those that .*ens was fitted on; got 3 of them, first index 1 "):
        refuse_used(folder, load(data))
    with pytest.raises(DataError, match="got 1 of them, first index 21"):
        refuse_used(folder, load(data, start=21, max=22))
    # The same values from another file are known again; other values at the same indices are not.
    x = np.load(data)["x"]
    with pytest.raises(DataError, match="got 3 of them"):
        refuse_used(folder, load(write(tmp_path / "copy.npz", x)))
    refuse_used(folder, load(write(tmp_path / "other.npz", 1 - x)))
    refuse_used("linear:score", load(data))


def test_what_an_ensemble_inside_was_fitted_on_counts_too(tmp_path, data):
    inner = folder_of(tmp_path / "inner", HoldoutInputs(load(data, skip=20, start=1), Gaussian(0.25), 0).record())
    middle = folder_of(tmp_path / "middle", None, [composite.described(tmp_path / "middle", str(inner))])
    outer = folder_of(tmp_path / "outer", None, [composite.described(tmp_path / "outer", str(middle))])
    assert len(fitted_on(outer)) == 1
    with pytest.raises(DataError, match="outer was fitted on"):
        refuse_used(outer, load(data))


def test_marks_tell_inputs_apart(data):
    inputs = load(data)
    assert len(set(marks(inputs))) == 60
    assert marks(inputs, np.array([5, 2])) == [marks(inputs)[5], marks(inputs)[2]]
