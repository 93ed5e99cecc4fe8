"""A look before the draws: names of the model's classes, and clean accuracy against chance."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert.data import Inputs, Scale, Subset
from smoothcert.data._files import ArrayStore
from smoothcert.errors import DataError, ModelError
from smoothcert.runs import look


@dataclass(frozen=True, eq=False)
class Named:
    """Knows the names of its classes, and takes any picture."""

    class_names: tuple[str, ...]
    rows: int | None = None

    def __call__(self, x):
        assert self.rows is None or len(x) == self.rows
        return torch.zeros(len(x), len(self.class_names))


@dataclass
class Told:
    lines: list[str] = field(default_factory=list)

    def __call__(self, line):
        self.lines.append(line)


def folder(tmp_path, *names):
    for name in names:
        (tmp_path / name).mkdir()
        Image.new("RGB", (2, 2)).save(tmp_path / name / "a.png")
    return Subset(str(tmp_path))


def test_names_of_the_model_are_gone_by(tmp_path):
    data, told = folder(tmp_path, "ant", "bee"), Told()
    found, inputs = look.by_name(data, data.load(), Named(("wasp", "bee", "ant")), told)
    assert inputs.labels.tolist() == [2, 1] and found.classes == ("wasp", "bee", "ant")
    assert found.load().digest == inputs.digest and "by" not in told.lines[0][:2] and "the same name" in told.lines[0]


def test_names_in_the_same_order_need_no_word(tmp_path):
    data, told = folder(tmp_path, "ant", "bee"), Told()
    found, inputs = look.by_name(data, data.load(), Named(("Ant", "Bee")), told)
    assert inputs.labels.tolist() == [0, 1] and found.classes == ("Ant", "Bee") and told.lines == []


def test_names_that_do_not_match_are_never_passed_over(tmp_path):
    data = folder(tmp_path, "ant", "bee")
    with pytest.raises(DataError, match=r"--classes names them\); 'ant' is none: got 'fourmi', 'abeille'"):
        look.by_name(data, data.load(), Named(("fourmi", "abeille")), Told())


def test_numbers_are_no_names(tmp_path):
    data, told = folder(tmp_path, "ant", "bee"), Told()
    found, inputs = look.by_name(data, data.load(), Named(("LABEL_0", "LABEL_1")), told)
    assert found.classes == ("ant", "bee") and "alphabetical" in told.lines[0] and inputs.labels.tolist() == [0, 1]


def test_data_sets_that_have_numbers_of_their_own(tmp_path):
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    data, labels, told = Subset("cifar10"), np.arange(10), Told()
    store = ArrayStore(np.zeros((10, 3, 4, 4), dtype=np.float32))
    inputs = Inputs("cifar10", "test", np.arange(10), labels, (3, 4, 4), 10, store, names)
    for other in (names, tuple(f"LABEL_{i}" for i in range(10)), ("plane", *names[1:])):
        assert look.by_name(data, inputs, Named(other), told) == (data, inputs) and told.lines == []
    found, turned = look.by_name(data, inputs, Named(names[::-1]), told)
    assert turned.labels.tolist() == list(range(9, -1, -1)) and found.classes == names[::-1] and told.lines


# --- scales


def test_a_scale_must_be_inside_the_model():
    data = Subset("a.npz", scale=Scale("file", (0.0, 1.0), (2.0, 3.0)))
    look.require_scale(data, {"offset": [0.0, 1.0], "width": [2.0, 3.0], "output": "scores"})
    look.require_scale(Subset("a.npz", scale=Scale("none")), {})
    for other, options in ((data, {}), (Subset("a.npz"), {"offset": [0.0, 1.0], "width": [2.0, 3.0]})):
        with pytest.raises(ModelError, match="must be that of the model"):
            look.require_scale(other, options)


# --- chance


def table(labels, classes=10):
    """Inputs that hold the class they will be given."""
    labels = np.array(labels)
    return Inputs("a", "test", np.arange(len(labels)), labels, (classes,), None, ArrayStore(np.eye(classes)[labels]))


def shifted(by):
    return lambda x: torch.roll(x, by, dims=1)


def test_a_right_classifier_is_not_accused():
    assert look.chance(shifted(0), table(np.arange(500) % 10)) == ""


def test_classes_in_another_order_are_told():
    said = look.chance(shifted(1), table(np.arange(500) % 10))
    assert said.startswith("only 0 of 128 inputs are classified rightly without noise, no better than chance among 10")
    assert "--classes" in said


def test_one_class_for_all_is_chance():
    said = look.chance(lambda x: torch.eye(10)[torch.zeros(len(x), dtype=torch.long)], table(np.arange(500) % 10))
    assert said and int(said.split()[1]) in range(5, 21)  # the inputs are spread over the data


def test_few_inputs_tell_nothing():
    assert look.chance(shifted(1), table([1, 2, 3])) == ""


def test_a_little_better_than_chance_is_better():
    """Of 128 inputs among 10 classes 12.8 are right by chance; P(22 or more) is 0.7 %, P(21 or more) 1.4 %."""
    for right, accused in ((21, True), (22, False)):
        labels = np.concatenate([np.zeros(right, dtype=int), np.ones(128 - right, dtype=int)])
        found = look.chance(lambda x: torch.eye(10)[torch.zeros(len(x), dtype=torch.long)], table(labels))
        assert bool(found) == accused


def test_time_is_bounded(monkeypatch):
    clock = iter(np.arange(0, 1e6, 3))
    monkeypatch.setattr(look.time, "monotonic", lambda: next(clock))
    asked = []

    def slow(x):
        asked.append(len(x))
        return torch.roll(x, 1, dims=1)

    wide = 40_000
    labels = np.arange(100) % 2
    inputs = Inputs("a", "test", np.arange(100), labels, (wide,), None, ArrayStore(np.zeros((100, wide), np.float32)))
    look.chance(slow, inputs)
    assert len(asked) == 1 and asked[0] < 100


def test_a_network_with_fixed_rows_is_asked_so():
    assert look.chance(Named(tuple("abcdefghij"), rows=7), table(np.arange(500) % 10))
