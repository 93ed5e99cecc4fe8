"""`smoothcert denoise`: made, certified, verified, exported; nonsense gets one line and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import denoisers
import numpy as np
import pytest
import small_run

from smoothcert.classifiers import digest, load
from smoothcert.cli.main import run
from smoothcert.runs.store import read


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a", 1), ("b", 2)):
        denoisers.write(tmp_path / name, "dncnn3", seed, width=4)
    denoisers.write(tmp_path / "net", "digits_cnn", 3, width=4)
    return tmp_path


def test_made_certified_verified_exported(place, capsys):
    assert run(["denoise", "net", "--with", "a", "--with", "b", "--out", "both"]) == 0
    assert "both: net behind soft_vote of 2 denoisers" in capsys.readouterr().out
    words = ["--data", "digits", "--skip", "100", "--sigma", "0.25", "--n", "200", "--threads", "1"]
    assert run(["certify", "both", *words, "--out", "run"]) == 0
    assert run(["verify", "run", "--redraw", "5"]) == 0
    assert "all as recorded" in capsys.readouterr().out
    assert read(Path("run")).asked.model_digest == digest("both").hex
    assert run(["export-onnx", "both", "--shape", "1,8,8", "--out", "both.onnx"]) == 0
    x = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
    import torch

    torch.testing.assert_close(load("both.onnx")(torch.tensor(x)), load("both")(torch.tensor(x)), rtol=1e-4, atol=1e-4)


def test_a_denoised_folder_is_a_member_like_any(place, capsys):
    assert run(["denoise", "net", "--with", "a", "--out", "one"]) == 0
    assert run(["denoise", "net", "--with", "b", "--out", "other"]) == 0
    assert run(["ensemble", "one", "other", "--vote", "softmax", "--out", "ens"]) == 0
    assert run(["denoise", "one", "--with", "a", "--out", "again"]) == 0
    assert run(["denoise", "net", "--with", "a", "--with", "a", "--out", "twice"]) == 0
    assert load("ens") is not None and load("again") is not None and load("twice") is not None


def test_runs_of_denoisers_stand_beside_others_in_a_report_without_a_word_about_ensembles(place, capsys):
    assert run(["denoise", "net", "--with", "a", "--with", "b", "--out", "both"]) == 0
    words = ["--data", "digits", "--skip", "100", "--sigma", "0.25", "--n", "100", "--threads", "1"]
    for name in ("both", "net", "a-run-more"):
        assert run(["certify", name if name == "both" else "net", *words, "--out", f"runs/{name}"]) == 0
    capsys.readouterr()
    assert run(["report", "runs/both", "runs/net", "runs/a-run-more"]) == 0
    assert "ensemble" not in capsys.readouterr().err


def test_callables_need_no_shape_and_are_checked_when_used(place, capsys):
    assert run(["denoise", "linear:score", "--with", "denoisers:halve", "--out", "black"]) == 0
    assert "whether they fit is seen when used" in capsys.readouterr().out
    small_run.write_data(place / "data.npz")
    words = ["--data", "data.npz", "--sigma", "0.25", "--n", "200"]
    assert run(["certify", "black", *words, "--out", "run"]) == 0
    assert run(["denoise", "linear:score", "--with", "linear:score", "--out", "wrong"]) == 0
    capsys.readouterr()
    assert run(["certify", "wrong", *words, "--out", "run2"]) == 2
    assert "a denoiser must give back inputs of the shape it was given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["net", "--with", "net"], r"denoiser net must give back inputs of shape \[1, 8, 8\]; got outputs \[10\] (a c"),
        (["a", "--with", "b"], r"model a must give scores, one a class; got outputs \[1, 8, 8\] (a denoiser?)"),
        (["net", "--with", "wide"], r"shape of wide must be that of net, \[1, 8, 8\]; got \[1, 9, 9\]"),
        (["net", "--with", "nowhere"], "there is no 'nowhere'"),
        (["nowhere", "--with", "a"], "there is no 'nowhere'"),
        (["net", "--with", "a", "--vote", "soft"], "needs several denoisers; got soft with one"),
        (["net", "--with", "a", "--with", "b", "--vote", "loud"], "vote of an ensemble must be one of"),
        (["net", "--with", "a", "--with", "b", "--vote", "weighted"], "weights of weighted_vote must be given"),
        (["net", "--with", "linear:broken"], r"denoiser linear:broken must accept inputs of shape \[1, 8, 8\]; got: "),
        (["net"], "with"),
    ],
)
def test_nonsense_gets_one_line(place, capsys, words, said):
    denoisers.write(place / "wide", "dncnn3", shape=(1, 9, 9), width=4)
    assert run(["denoise", *words, "--out", "out"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and said.replace("\\", "") in errors[0]
    assert not Path("out").exists()


def test_an_ensemble_that_was_fitted_without_the_denoiser_is_refused(place, capsys):
    small_run.write_data(place / "data.npz", 100)
    words = ["--weights", "learned", "--data", "data.npz", "--sigma", "0.25", "--out", "ens"]
    assert run(["ensemble", "lines:a", "lines:b", *words]) == 0
    capsys.readouterr()
    assert run(["denoise", "ens", "--with", "denoisers:halve", "--out", "out"]) == 2
    assert "model ens must not be an ensemble fitted on hold-out inputs" in capsys.readouterr().err
