"""A run as a Python user holds it."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import smoothcert
from smoothcert.errors import OptionError, RunError
from smoothcert.runs.exchange import write_csv, write_parquet


@pytest.fixture(scope="module")
def run():
    """A linear classifier, whose true radius is known: |w·x + b| / ‖w‖."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 2).eval()
    x = torch.rand(20, 6)
    y = layer(x).argmax(1)
    return smoothcert.certify(layer, (x, y), 0.25, n=2000, progress=False), layer, x


def test_certificates_are_below_the_true_radius(run):
    held, layer, x = run
    difference = (layer.weight[0] - layer.weight[1]).detach()
    margin = (layer(x)[:, 0] - layer(x)[:, 1]).detach().abs() / difference.norm()
    found = list(held)
    assert len(found) == len(held) == 20 and all(one.norm == "l2" and one.alpha == 0.001 for one in found)
    assert sum(one.radius > float(true) for one, true in zip(found, margin, strict=True)) == 0
    assert held.certificate(3) == found[3] == held.certificate(held.rows[3])
    with pytest.raises(RunError, match="index must be that of an input of run; got 77"):
        held.certificate(77)


def test_the_same_columns_everywhere(run, tmp_path):
    held, _, _ = run
    frame = held.to_frame()
    write_csv(held, tmp_path / "a.csv")
    write_parquet(held, tmp_path / "a.parquet")
    names = list(frame.columns)
    assert names == list(pandas.read_csv(tmp_path / "a.csv").columns) == held.to_arrow().schema.names
    assert names == list(pandas.read_parquet(tmp_path / "a.parquet").columns)
    import sqlite3

    with sqlite3.connect(held.folder / "certificates.sqlite") as base:
        stored = [row[1] for row in base.execute("PRAGMA table_info(certificates)")]
    known = {"correct", "norm", "guarantee", "tested", "alpha"}  # of the row, and of the claim
    assert set(names) - known <= set(stored)
    assert frame["radius"].tolist() == [row.radius for row in held.rows]
    assert (frame["correct"] == (frame["label"] == frame["predicted"])).all()
    assert b"smoothcert" in held.to_arrow().schema.metadata


def test_figures_report_verify_compare(run, tmp_path):
    held, layer, x = run
    share = held.figures([0.0, 0.25]).certified_accuracy[0.25]
    assert share.hits == sum(row.correct and row.radius >= 0.25 for row in held.rows)
    page = held.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!doctype html>") and held.verify(-1).problems == []
    other = smoothcert.certify(layer, (x, layer(x).argmax(1)), 0.25, n=200, progress=False)
    compared = held.compare(other)
    assert compared.acr_change.value > 0 and "ACR" in str(compared)
    both = held.report(tmp_path / "both.html", other)
    assert both.stat().st_size > page.stat().st_size
    kept = other.save(tmp_path / "other")
    assert str(held.compare(tmp_path / "other").acr_change) == str(held.compare(kept).acr_change)


def test_a_notebook_shows_figures_and_claims(run):
    assert repr(run[0]) == "HeldRun('run', 20 inputs, l2, alpha=0.001)"
    held, _, _ = run
    shown = held._repr_html_()
    assert "certified accuracy" in shown and "l2" in shown and "<table" in shown
    certificate = max(held, key=lambda one: one.radius)
    assert f"label <b>{certificate.label}</b> cannot change within l2 radius" in certificate._repr_html_()
    assert "except with probability 0.001" in certificate._repr_html_()
    abstained = smoothcert.Smoothed(lambda x: x[:, :2], 0.25).certify(torch.tensor([0.5, 0.5]), n=100)
    assert "<b>abstains</b>" in abstained._repr_html_() and "radius" not in abstained._repr_html_()


def test_a_log_is_a_run_too(run, tmp_path):
    log = tmp_path / "cohen.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    held = smoothcert.open_run(str(log), norm="l2")
    assert held.to_frame()["radius"].tolist() == [0.5] and math.isclose(held.figures([0.5]).acr, 0.5)
    for call in (held.verify, lambda: list(held)):
        with pytest.raises(RunError, match="does not say what was asked"):
            call()
    with pytest.raises(RunError, match="got a log"):
        held.save(tmp_path / "x")
    with pytest.raises(OptionError, match=r"path of open_run must be text or a path; got ndarray"):
        smoothcert.open_run(np.zeros(3))
