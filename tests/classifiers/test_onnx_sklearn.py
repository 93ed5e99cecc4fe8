"""Estimators that skl2onnx has converted: with dictionaries, without, in columns, with labels that are words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx_files import write
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from smoothcert.classifiers import load
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.cli.main import run
from smoothcert.data import load as load_data
from smoothcert.errors import ModelError
from smoothcert.runs.store import read

FLOWERS, KINDS = load_iris(return_X_y=True)
FLOWERS = FLOWERS.astype(np.float32)
LABELS = {
    "numbers": KINDS,
    "words": np.array(["setosa", "versicolor", "virginica"])[KINDS],
    "others": 3 * KINDS + 1,
    "two": (KINDS > 0).astype(int),
}
NAMES = {"numbers": (), "words": ("setosa", "versicolor", "virginica"), "others": ("1", "4", "7"), "two": ()}
ESTIMATORS = {
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": lambda: RandomForestClassifier(3, max_depth=3, random_state=0),
}


def converted(path, estimator, zipmap, example=FLOWERS[:1]):
    path.write_bytes(to_onnx(estimator, example, options={id(estimator): {"zipmap": zipmap}}).SerializeToString())
    return load(path)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("zipmap", [True, False, "columns"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scores_are_the_estimators_own_probabilities(tmp_path, kind, zipmap, labels):
    estimator = ESTIMATORS[kind]().fit(FLOWERS, LABELS[labels])
    network = converted(tmp_path / "m.onnx", estimator, zipmap)
    assert np.abs(network(torch.from_numpy(FLOWERS)).numpy() - estimator.predict_proba(FLOWERS)).max() < 1e-5
    assert network.class_names == NAMES[labels] and network.rows is None
    where = {
        True: "of which output 'output_probability'",
        False: "output 'probabilities'",
        "columns": "outputs 'i0' to",
    }
    if labels == "numbers":
        assert where[zipmap] in network.note


def test_a_machine_of_support_vectors(tmp_path):
    estimator = SVC().fit(FLOWERS, KINDS)
    scores = converted(tmp_path / "m.onnx", estimator, False)(torch.from_numpy(FLOWERS))
    assert np.abs(scores.numpy() - estimator.decision_function(FLOWERS)).max() < 1e-3


def test_dictionaries_can_be_named_too(tmp_path):
    network = converted(tmp_path / "m.onnx", ESTIMATORS["pipeline"]().fit(FLOWERS, KINDS), True)
    named = adapted(network, Adaptation(output="output_probability"))
    x = torch.from_numpy(FLOWERS)
    assert torch.equal(named(x), network(x)) and named.digest == network.digest
    with pytest.raises(ModelError, match=r"must name an output .*'output_label' tensor\(int64\)"):
        adapted(network, Adaptation(output="probabilities"))  # inside the graph, and none of its outputs


def test_a_frozen_batch_and_dictionaries_at_once(tmp_path):
    from skl2onnx.common.data_types import FloatTensorType

    estimator = LogisticRegression(max_iter=500).fit(FLOWERS, KINDS)
    model = to_onnx(estimator, initial_types=[("x", FloatTensorType([1, 4]))])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    network = load(tmp_path / "m.onnx")
    assert network.rows is None and "frozen at 1, was made free" in network.note
    assert np.abs(network(torch.from_numpy(FLOWERS)).numpy() - estimator.predict_proba(FLOWERS)).max() < 1e-5


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two estimators of digits, trained under noise, as files and as callables."""
    here = tmp_path_factory.mktemp("sklearn")
    data = load_data("digits", split="train")
    x = data.tensors().flatten(1).numpy()
    noisy = x + 0.25 * np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)
    for name, estimator in (("linear", LogisticRegression(max_iter=300)), ("forest", RandomForestClassifier(5))):
        estimator.fit(noisy, data.labels)
        for zipmap in (True, False):
            converted(here / f"{name}-{zipmap}.onnx", estimator, zipmap, x[:1])
        PREDICT[name] = estimator.predict_proba
    return here


PREDICT = {}


def linear(x):
    """`test_onnx_sklearn:linear`, the estimator itself."""
    return PREDICT["linear"](x.flatten(1).numpy())


def command(*words):
    return run([str(word) for word in words])


DRAWS = ("--data", "digits", "--max", 12, "--sigma", 0.25, "--n", 400, "--threads", 1)


def test_certificates_are_those_of_the_estimator(place, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "test_onnx_sklearn", sys.modules[__name__])
    models = (place / "linear-True.onnx", place / "linear-False.onnx", "test_onnx_sklearn:linear")
    for number, model in enumerate(models):
        assert command("certify", model, *DRAWS, "--out", place / f"same-{number}") == 0
    mapped, plain, own = (read(place / f"same-{number}").rows for number in range(3))
    assert [row.answers for row in mapped] == [row.answers for row in plain]
    assert [row.predicted for row in plain] == [row.predicted for row in own]
    for ours, theirs in zip(plain, own, strict=True):  # a vote may fall either way where two scores are equal
        assert np.abs(np.array(ours.answers[1].counts) - np.array(theirs.answers[1].counts)).max() <= 1
    assert "scores are taken from 'probabilities', of which output 'output_probability'" in capsys.readouterr().err


def test_a_run_with_an_output_of_its_own_goes_all_the_way(place, capsys):
    """Certified, verified, attacked, reported, signed for, moved with its model; and as a member of an ensemble."""
    for name in ("linear", "forest"):
        model, out = place / f"{name}-False.onnx", place / f"own-{name}"
        assert command("certify", model, "--output", "probabilities", *DRAWS, "--out", out) == 0
    out = place / "own-linear"
    assert command("verify", out, "--redraw", "all") == command("audit", out, "--inputs", 2) == 0
    assert (
        command("report", out, "--html", place / "r.html") == command("certificate", out, 3, "--out", place / "c") == 0
    )
    whole = place / "whole"
    assert command("ensemble", out / "model", place / "own-forest" / "model", "--out", whole) == 0
    assert command("certify", whole, *DRAWS, "--out", place / "ensemble") == command("verify", place / "ensemble") == 0
    place.rename(moved := place.with_name("moved"))
    try:
        assert command("verify", moved / "own-linear") == 0
        assert command("verify", moved / "ensemble", "--model", moved / "whole") == 0
        write(moved / "forest-False.onnx", (64,), classes=10)
        assert command("verify", moved / "own-forest") == 1  # another file in its place
    finally:
        moved.rename(place)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output", "label"), "must name an output of linear-False.onnx that holds scores; got 'label', and it has"),
        (("--output", "nothing"), "'probabilities' tensor(float) [batch, 10]"),
        (("--model-layout", "nwhc"), "must be one of nchw, nhwc; got 'nwhc' (did you mean 'nhwc'?)"),
        (("--binary", "odds"), "must be one of logit, probability; got 'odds'"),
        (("--binary", "logit"), "must be of a model with one score an input; got scores"),
    ],
)
def test_wrong_options_are_refused(place, tmp_path, capsys, options, message):
    assert command("certify", place / "linear-False.onnx", *options, *DRAWS, "--out", tmp_path / "run") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run" / "certificates.db").exists()
