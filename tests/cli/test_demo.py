"""The demo: ordinary commands that can be repeated, and what they found in plain words."""

from __future__ import annotations

import re

from smoothcert.cli import demo
from smoothcert.cli.main import run
from smoothcert.runs.store import read


def test_the_demo_ends_with_an_ensemble_one_known_radius_and_the_report(tmp_path, capsys, monkeypatch):
    short = [1 if before == "--epochs" else word for before, word in zip(("", *demo.TRAINING), demo.TRAINING)]  # noqa: B905
    monkeypatch.setattr(demo, "TRAINING", (*short,))
    assert run(["demo", "--out", str(tmp_path), "--n", "100", "--max", "6", "--threads", "1"]) == 0
    told = capsys.readouterr().out
    commands = [line.split()[2] for line in told.splitlines() if line.startswith("$ ")]
    assert commands == [*["train", "certify", "verify"] * 3, "ensemble", *["certify", "verify"] * 2, "report"]
    drawing = [line for line in told.splitlines() if re.match(r"\$ smoothcert (train|certify|verify)", line)]
    assert all("--threads 1" in line for line in drawing)

    together, known = (read(tmp_path / "runs" / name) for name in ("ensemble", "ensemble-at-0.25"))
    hits = [sum(row.correct and row.radius >= 0.25 for row in one.rows) for one in (together, known)]
    few = sum(row.draws or 0 for row in known.rows) / 6
    end = told[told.index("What was found, on 6 handwritten digits") :]
    assert f"At distance 0.25 the ensemble stays right on {hits[0]}, found with 200 draws a digit." in end
    assert f"Asked about 0.25 alone: {hits[1]}, with {few:,.0f} draws" in end
    assert end.rstrip().endswith(str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    assert "soft vote of 3 members" in page and "ensemble-at-0.25" not in page
