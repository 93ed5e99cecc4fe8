"""Whatever is given in the place of an argument, the answer is one line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert
from smoothcert.arguments import checked
from smoothcert.errors import OptionError, SmoothcertError


class Thing:
    pass


@checked
def asked(
    anything: Any,
    number: float,
    whole: int | None = None,
    word: Literal["a", "b"] = "a",
    place: str | Path = "",
    several: float | Sequence[float] | None = None,
    thing: Thing | None = None,
) -> tuple[Any, ...]:
    return anything, number, whole, word, place, several, thing


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"number": "1"}, "number of asked must be a number; got '1'"),
        ({"number": True}, "number of asked must be a number; got True"),
        ({"number": None}, "number of asked must be a number; got None"),
        ({"whole": 1.5}, "whole of asked must be a whole number or None; got 1.5"),
        ({"whole": False}, "whole of asked must be a whole number or None; got False"),
        ({"word": 3}, "word of asked must be one of a, b; got 3"),
        ({"place": b"x"}, "place of asked must be text or a path; got bytes"),
        ({"several": "12"}, "several of asked must be a number or numbers or None; got '12'"),
        ({"several": [1, "2"]}, "several of asked must be a number or numbers or None; got list"),
        ({"thing": 3}, "thing of asked must be a Thing or None; got 3"),
        ({"other": 3}, "asked must be given the arguments that it has; got an unexpected keyword argument 'other'"),
        ({"word": "x" * 99, "place": 5}, "place of asked must be text or a path; got 5"),
    ],
)
def test_a_wrong_kind_is_named(given, line):
    with pytest.raises(OptionError) as error:
        asked(**{"anything": object(), "number": 1.0, **given})
    assert str(error.value) == line


def test_numbers_of_numpy_are_numbers():
    found = asked(np.float32(2), np.float64(0.5), np.int64(3), several=np.array([0.1, 0.2]))
    assert type(found[0]) is np.float32 and type(found[1]) is float and type(found[2]) is int
    assert asked.__name__ == "asked" and list(found[5]) == [0.1, 0.2]


NONSENSE = [
    None, "abc", object(), -1, 0, 1.5, float("nan"), float("inf"), True, [], [1, "a"], {}, b"x", np.array(3.0),
    np.array([1, 2]), int, 10**30, np.float64(0.3), np.int64(3), "", (), [[]], np.array(["a"]), range(3),
    torch.tensor([1.0, float("nan")]), smoothcert.Smoothed,
]  # fmt: skip
X = np.random.default_rng(0).random((4, 1, 3, 3)).astype(np.float32)
Y = np.arange(4)
NETWORK = nn.Sequential(nn.Flatten(), nn.Linear(9, 4)).eval()


def answered(call, *args, **given):
    """Either it works, or it is refused in one line; nothing else comes out."""
    try:
        call(*args, **given)
    except SmoothcertError as error:
        assert len(str(error)) < 400


@pytest.mark.parametrize("name", ["noise", "num_classes", "engine", "arithmetic", "model"])
def test_smoothed_refuses_nonsense_in_one_line(name):
    for value in NONSENSE:
        given = {"model": NETWORK, "noise": 0.25, "engine": "torch", name: value}
        answered(lambda given=given: smoothcert.Smoothed(**given).certify(X[0], n=100))


@pytest.mark.parametrize("name", ["x", "radius", "n0", "n", "alpha", "seed", "batch", "sampling"])
def test_certify_of_smoothed_refuses_nonsense_in_one_line(name):
    smoothed = smoothcert.Smoothed(NETWORK, 0.25, engine="torch")
    for value in NONSENSE:
        answered(smoothed.certify, **{"x": X[0], "n": 100, name: value})
        if name in ("x", "n", "alpha", "seed", "batch"):
            answered(smoothed.predict, **{"x": X[0], "n": 100, name: value})


OBJECTS = ["model", "data", "sigma", "radius", "labels", "noise", "n", "n0", "alpha", "sampling", "against", "seed",
           "arithmetic", "preparation", "batch", "engine", "threads", "max", "foo", "out", "memory"]  # fmt: skip
NAMED = ["split", "skip", "start", "image_size", "value_range"]


@pytest.mark.parametrize("name", [*OBJECTS, *NAMED])
def test_certify_refuses_nonsense_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usual = {
        "model": lambda x: x.reshape(len(x), -1)[:, :4],
        "data": (X, Y),
        "sigma": 0.25,
        "n": 100,
        "progress": False,
    }
    usual |= {"data": "digits", "max": 2} if name in NAMED else {}
    for value in NONSENSE:
        given = {**usual, name: value}
        if name == "noise":
            del given["sigma"]
        if not (name in ("out", "memory") and isinstance(value, str) and value):
            answered(smoothcert.certify, **given)
    assert list(tmp_path.iterdir()) == []


def test_methods_of_a_run_refuse_nonsense_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = smoothcert.certify(NETWORK, (X, Y), 0.25, n=100, progress=False)
    for value in NONSENSE:
        for call in (run.figures, run.compare, run.certificate, run.verify, smoothcert.open_run, smoothcert.load):
            answered(call, value)
        for name in ("model", "data", "seed"):
            answered(run.verify, **{name: value})
        if not isinstance(value, str):
            answered(run.report, value)
            answered(run.save, value)
            answered(run.report, "page.html", value)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["page.html"])
