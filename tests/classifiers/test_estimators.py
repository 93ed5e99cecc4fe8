"""Estimators of scikit-learn: which scores are theirs, which class a column is, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import smoothcert
from smoothcert.classifiers import digest, load, ready, wrap
from smoothcert.cli.main import run
from smoothcert.errors import ModelError

ROOT = Path(__file__).parents[2]
RANDOM = np.random.default_rng(0)
X = RANDOM.random((150, 4))
Y = (X @ [3, -2, 1, 0.5] > 1.2).astype(int) + (X[:, 0] > 0.6)  # 0, 1, 2
INPUTS = torch.from_numpy(X).float().view(-1, 1, 2, 2)  # of any shape: they are flattened


def agrees(model, expected=None) -> bool:
    """Whether the class with the largest score is what the estimator predicts."""
    found = wrap(model)(INPUTS).argmax(dim=1).numpy()
    said = model.predict(X.astype(np.float32).astype(np.float64)) if expected is None else expected
    return bool((found == said).all())


@pytest.mark.parametrize("model", [
    LogisticRegression(), LinearSVC(), SVC(break_ties=True), RidgeClassifier(), DecisionTreeClassifier(random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression()), GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
    CalibratedClassifierCV(LinearSVC(), cv=2), RandomForestClassifier(5, random_state=0),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_the_largest_score_is_what_it_predicts(model):
    for labels in (Y, Y > 0):
        assert agrees(model.fit(X, labels))


def test_probabilities_come_first_and_one_column_becomes_two():
    probabilities = wrap(LogisticRegression().fit(X, Y))
    assert probabilities.note == "scores are predict_proba of LogisticRegression"
    assert torch.allclose(probabilities(INPUTS).sum(1), torch.ones(len(X)))
    distances = wrap(make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y > 0))
    assert distances.note.startswith("scores are decision_function of LinearSVC in Pipeline")
    assert torch.equal(distances(INPUTS)[:, 0], -distances(INPUTS)[:, 1])


def test_class_numbers_keep_their_place():
    model = LogisticRegression().fit(X, 2 * Y + 1)  # classes 1, 3, 5
    found = wrap(model)
    assert found(INPUTS).shape == (150, 6) and agrees(model) and "which never win" in found.note
    assert agrees(LinearSVC().fit(X, 2 * Y + 1)) and agrees(LogisticRegression().fit(X, Y.astype(float)))


@pytest.mark.parametrize(("names", "note"), [
    (("b", "a", "c"), "class 0 is 'a', 1 is 'b', 2 is 'c'"), ((-1, 1, 2), "class 0 is '-1', 1 is '1', 2 is '2'"),
])  # fmt: skip
def test_other_classes_are_numbered_in_their_order_and_named(names, note):
    model = LogisticRegression().fit(X, np.array(names)[Y])
    found = wrap(model)
    assert found.class_names == tuple(map(str, sorted(names))) and note in found.note
    assert agrees(model, [sorted(names).index(one) for one in model.predict(X.astype(np.float32).astype(np.float64))])


def test_columns_chosen_by_name():
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), LogisticRegression()).fit(frame, Y)
    expected = model.predict_proba(frame.astype(np.float32).astype(np.float64))
    assert np.allclose(wrap(model)(INPUTS).numpy(), expected, atol=1e-6)


REFUSED = {
    "unfitted": (LogisticRegression(), r"must be a fitted classifier; it has no classes_ \(call .fit"),
    "unfitted pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), "must be a fitted classifier"),
    "regressor": (LinearRegression().fit(X, Y), "got a regressor, which gives numbers"),
    "outliers": (IsolationForest(n_estimators=2).fit(X), "must be a fitted classifier"),
    "scaler": (StandardScaler().fit(X), "must be a fitted classifier"),
    "labels only": (VotingClassifier([("a", LogisticRegression())]).fit(X, Y), "it has neither .*voting='soft'"),
    "pairs": (SVC(decision_function_shape="ovo").fit(X, Y), "decision_function_shape='ovr'"),
    "several labels": (OneVsRestClassifier(LogisticRegression()).fit(X, np.eye(3)[Y]), "several labels an input"),
    "several outputs": (DecisionTreeClassifier().fit(X, np.stack([Y, Y], 1)), "several labels an input|no classes_"),
    "years": (LogisticRegression().fit(X, Y + 20_000), "must be at most 10000, or names"),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_classifier_is_refused_with_the_fix(model, message):
    with pytest.raises(ModelError, match=message):
        smoothcert.Smoothed(model, smoothcert.Gaussian(0.25))


def test_inputs_of_another_size_get_one_line():
    with pytest.raises(ModelError, match=r"must accept inputs \[2, 1, 5\] as \[2, 5\]; it raised ValueError: X has 5"):
        wrap(LogisticRegression().fit(X, Y))(torch.rand(2, 1, 5))


def test_a_smoothed_estimator():
    model = LogisticRegression(C=100).fit(X, Y > 0)
    smoothed = smoothcert.Smoothed(model, smoothcert.Gaussian(0.1), num_classes=2)
    assert smoothed.certify(INPUTS[0], n=100).label == int(model.predict(X[:1])[0])
    assert "scores are predict_proba of LogisticRegression; class 0 is 'False', 1 is 'True'" in smoothed.notes
    assert ready(wrap(model), INPUTS[0]).engine == "callable"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=X[:4].astype(np.float32), y=Y[:4])
    return tmp_path


CERTIFY = ["--data", "x.npz", "--sigma", "0.25", "--n", "100", "--out", "run"]


@pytest.mark.suspicious
@pytest.mark.parametrize("name", ["m.joblib", "m.pkl", "m.pickle"])
def test_a_pickle_needs_trust_and_is_then_certified_and_verified(place, name, capsys):
    model = LogisticRegression().fit(X, Y)
    joblib.dump(model, name) if name == "m.joblib" else Path(name).write_bytes(pickle.dumps(model))
    assert run(["certify", name, *CERTIFY]) == 2
    assert "a pickle executes code when it is loaded; only with --trust-code (in Python" in capsys.readouterr().err
    assert run(["certify", name, *CERTIFY, "--trust-code"]) == 0
    assert "scores are predict_proba of LogisticRegression" in capsys.readouterr().err
    assert digest(name).covers == "weights"
    assert run(["verify", "run", "--redraw", "all", "--trust-code"]) == 0
    assert run(["verify", "run"]) == 2 and "only with --trust-code" in capsys.readouterr().err
    joblib.dump(LogisticRegression(C=2).fit(X, Y), name)
    assert run(["certify", name, *CERTIFY, "--trust-code"]) == 2


class Evil:
    """Whoever unpickles it creates a file."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.suspicious
def test_a_pickle_without_trust_executes_nothing(place, capsys):
    for name in ("m.joblib", "m.pkl", "m.pickle"):
        Path(name).write_bytes(pickle.dumps(Evil()))
        digest(name)
        for words in (["certify", name, *CERTIFY], ["memory", "create", "m.sqlite", name, "--shape", "4"]):
            assert run(words) == 2
            said = capsys.readouterr().err.strip().splitlines()[-1]
            assert "only with --trust-code" in said
    assert not Path("ran").exists() and not Path("run").exists()
    with smoothcert.trusting(), pytest.raises(ModelError):
        load("m.pkl")
    assert Path("ran").exists()  # it would have


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps(3), pickle.dumps({"a": 1})])
def test_damaged_pickles_and_other_things_get_one_line(place, content):
    for name in ("m.joblib", "m.pkl"):
        Path(name).write_bytes(content)
        with pytest.raises(ModelError, match="must be") as error:
            load(name)
        assert len(str(error.value)) < 400
    os.mkfifo("f.pkl")
    with pytest.raises(ModelError, match="must be a regular file; got a FIFO"):
        load("f.pkl")


def test_another_version_of_scikit_learn_is_said(place, monkeypatch):
    import sklearn.base

    with monkeypatch.context() as older:
        older.setattr(sklearn.base, "__version__", "0.24.0")
        joblib.dump(LogisticRegression().fit(X, Y), "m.joblib")
    assert "m.joblib was saved by scikit-learn 0.24.0, and this is another" in load("m.joblib").note


NAMED = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
x = np.random.default_rng(0).random((90, 4))
y = (x @ [3, -2, 1, 0.5] > 1.2).astype(int)
model = LogisticRegression(C=1).fit(x, y)
forest = RandomForestClassifier(5, random_state=0).fit(x, y)
method = model.decision_function
labels = model.predict
def make():
    return LogisticRegression(C=1).fit(x, y)
"""
HASHES = """
import sys
from smoothcert.classifiers import digest, load

sys.path.append("")
for name in ("model", "forest", "method", "make"):
    load("named_estimators:" + name)
    print(digest("named_estimators:" + name))
"""


def test_named_estimators_are_hashed_with_what_they_learned(place):
    (place / "named_estimators.py").write_text(NAMED)
    found = []
    for name in ("model", "forest", "method", "make"):
        load(f"named_estimators:{name}")
        found.append(digest(f"named_estimators:{name}"))
    assert {one.covers for one in found} == {"weights"}
    with pytest.raises(ModelError, match=r"must give scores: predict_proba or decision_function; got predict"):
        load("named_estimators:labels")
    sys.modules["named_estimators"].model.coef_[0, 0] += 1
    assert digest("named_estimators:model") != found[0]
    sys.modules.pop("named_estimators")
    command, environment = [sys.executable, "-c", HASHES], {**os.environ, "PYTHONPATH": str(ROOT)}
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.split() == [one.hex for one in found]  # in another process as here
