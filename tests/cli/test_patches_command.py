"""Patches from the command line and from Python: one size or the largest, verified, and told in pixels."""

from __future__ import annotations

import json
from pathlib import Path

import forging
import numpy as np
import pytest
import stripes
import torch

import smoothcert
from smoothcert.cli.main import run
from smoothcert.runs.store import read
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed

BAND, BLOCK = ("--noise", "band", "--set", "width=2"), ("--noise", "block", "--set", "side=2")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", **dict(zip("xy", stripes.images(30), strict=True)))
    return tmp_path


def certify(out, *words, model="stripes:a"):
    return run(["certify", model, "--data", "x.npz", *words, "--out", out])


def held(out):
    return read(Path(out))


def radii(out):
    return [row.radius for row in held(out).rows]


@pytest.mark.parametrize("noise", [BAND, (*BAND, "--set", "of=rows"), BLOCK], ids=" ".join)
def test_a_run_is_counted_verified_and_repeated_in_any_batch(noise, capsys):
    assert certify("a", *noise) == 0 and certify("b", *noise, "--batch", "7", "--seed", "5") == 0
    spec = held("a").spec
    assert spec.noise.image == (6, 12) and isinstance(spec.sampling, Exhaustive) and held("a").claim.alpha == 0.0
    assert radii("a") == radii("b") and max(radii("a")) >= 1
    assert run(["verify", "a", "--redraw", "all"]) == 0
    assert f"all {spec.noise.cases} cases of the noise are evaluated" in capsys.readouterr().err


def test_asking_about_one_size_says_whether_it_holds(capsys):
    assert certify("largest", *BLOCK) == 0 and certify("two", *BLOCK, "--patch", "2") == 0
    assert certify("again", *BLOCK, "--patch", "2x2") == 0 and certify("radius", *BLOCK, "--radius", "2") == 0
    largest, asked = held("largest"), held("two")
    assert asked.claim.radii == (2.0,) and asked.spec == held("again").spec == held("radius").spec
    assert [row.radius for row in asked.rows] == [2.0 * (row.radius >= 2) for row in largest.rows]
    assert {row.radius >= 2 for row in largest.rows} == {True, False} and run(["verify", "two", "--redraw", "all"]) == 0
    assert all(row.predicted == -1 for row in asked.rows if row.radius == 0)
    capsys.readouterr()


def test_a_rectangle_is_a_measure_of_its_own(capsys):
    assert certify("flat", *BLOCK, "--patch", "1x4") == 0 and certify("square", *BLOCK, "--patch", "2") == 0
    flat = held("flat")
    assert (flat.spec.noise.patch, flat.claim.radii, flat.claim.ruler) == ((1, 4), (1.0,), "patch of 1 × 4 pixels")
    assert run(["verify", "flat"]) == 0
    # 10 places of 72 are met by 1 × 4 pixels, 9 by 2 × 2: whoever holds against the first holds against the second.
    assert sum(radii("flat")) * 2 <= sum(radii("square"))
    assert run(["report", "flat", "--html", "flat.html"]) == 0
    assert "a radius of 1 is a patch of 1 × 4 pixels (rows × columns)" in capsys.readouterr().out
    assert run(["compare", "flat", "square"]) == 2
    assert "must have radii in patch of 1 × 4 pixels to be compared" in capsys.readouterr().err
    assert run(["export", "flat", "--out", "flat.tsv"]) == 0
    assert smoothcert.open_run("flat.tsv").claim.ruler == flat.claim.ruler
    Path("bad.tsv").write_text(Path("flat.tsv").read_text().replace("1 × 4 pixels", "a lot"))
    with pytest.raises(smoothcert.SmoothcertError, match=r"measure of log bad.tsv must be as in '3 × 7 pixels'; got a"):
        smoothcert.open_run("bad.tsv")


def test_a_page_and_a_certificate_tell_of_stickers_in_pixels(capsys):
    assert certify("a", *BAND) == 0 and run(["report", "a", "--html", "a.html"]) == 0
    assert "certified accuracy (%) at radius, patch, side in pixels" in capsys.readouterr().out
    page = Path("a.html").read_text()
    assert "No sticker of this size changes the label." in page and "inside one square of R × R pixels only" in page
    assert "under the largest patch that cannot change its label" in page and "not two of them" in page
    best = max(held("a").rows, key=lambda row: row.radius)
    assert run(["certificate", "a", str(best.index), "--out", "c.json", "--html", "c.html"]) == 0
    side = int(best.radius)
    told = json.loads(Path("c.json").read_text())["words"]["claim"]
    assert f"against every patch of {side} × {side} pixels, wherever it is and whatever it shows." in told
    assert run(["verify", "c.json", "--model", "stripes:a"]) == 0
    none = min(held("a").rows, key=lambda row: row.radius)
    assert none.radius == 0 and run(["certificate", "a", str(none.index)]) == 0
    assert "against no patch at all" in capsys.readouterr().out


def test_votes_above_a_threshold_are_counted_class_by_class(capsys):
    assert certify("top", *BAND) == 0 and certify("above", *BAND, "--set", "threshold=0.6") == 0
    record = held("above")
    assert record.spec.sampling == Exhaustive(threshold=0.6)
    (answer, _), row = record.rows[0].answers, record.rows[0]
    assert np.array(answer.counts).shape == (2, 2) and np.array(answer.counts).sum(axis=1).tolist() == [12, 12]
    assert any(sum(one.answers[0].counts[c][1] for c in (0, 1)) < 12 for one in record.rows)  # a copy that is unsure
    assert run(["verify", "above", "--redraw", "all"]) == 0 and run(["report", "above", "--html", "a.html"]) == 0
    assert run(["certificate", "above", str(row.index), "--html", "c.html", "--out", "c.json"]) == 0
    assert run(["verify", "c.json", "--model", "stripes:a"]) == 0
    assert run(["audit", "above", "--inputs", "3"]) == 0
    capsys.readouterr()
    assert run(["plan", "--like", "above", "--n", "1000", "--rate", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["norm"] == "patch"


def test_draws_are_there_for_whoever_wants_them_and_prove_no_more(capsys):
    assert certify("counted", *BAND) == 0 and certify("drawn", *BAND, "--n", "2000") == 0
    assert isinstance(held("drawn").spec.sampling, Fixed) and held("drawn").claim.guarantee == "smoothing"
    assert all(0 <= drawn <= counted for drawn, counted in zip(radii("drawn"), radii("counted"), strict=True))
    assert max(radii("drawn")) >= 1 and run(["verify", "drawn", "--redraw", "3"]) == 0
    assert run(["predict", "stripes:a", "--data", "x.npz", *BAND, "--out", "p"]) == 0
    assert run(["verify", "p"]) == 0
    assert run(["audit", "drawn", "--inputs", "4", "--n", "200"]) == 0
    capsys.readouterr()


def test_an_unfinished_run_is_continued(monkeypatch, capsys):
    assert certify("whole", *BAND) == 0 and certify("part", *BAND) == 0
    forging.sql(held("part").folder, "DELETE FROM certificates WHERE idx = 10")
    forging.rechain(held("part").folder)
    assert certify("part", *BAND) == 0 and radii("part") == radii("whole")
    capsys.readouterr()


@pytest.mark.parametrize("image", [[6, 24], [12, 6], "much", [6], [0, 12]])
def test_a_record_for_images_of_another_size_is_refused(image, capsys):
    """With more places than there are, Δ would look small."""
    assert certify("a", *BAND) == 0
    forging.recipe(held("a").folder, lambda table: table["question"]["noise"].update(image=image))
    assert run(["verify", "a", "--redraw", "0"]) == 2
    assert "must be the recipe of a run; it cannot be read" in capsys.readouterr().err


def test_python_gives_what_the_command_does():
    x, y = stripes.images(30)
    assert certify("a", *BAND) == 0
    noise = smoothcert.Band(2)
    made = smoothcert.certify(stripes.a, (x, y), noise=noise, progress=False)
    assert [row.radius for row in made.rows] == radii("a") and made.claim.guarantee == "deterministic"
    smoothed = smoothcert.Smoothed(stripes.a, noise)
    found = smoothed.certify_all(x[:5])
    assert [one.radius for one in found] == radii("a")[:5] and found[0].norm == "patch"
    assert smoothed.certify(x[0], radius=1).evidence.question == (1.0,)
    square, wide = torch.rand(1, 8, 8), torch.rand(1, 6, 12)
    assert [one.evidence.draws for one in smoothed.certify_all([square, wide])] == [8, 12]  # each by its own shape
    assert smoothed.predict(x[0]) == found[0].label


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sigma", "0.25", "--patch", "5"], "--patch needs a noise against patches, band or block; got"),
        ([*BAND, "--patch", "5", "--radius", "3"], "give one of --patch, --radius and --radii; got two"),
        ([*BLOCK, "--patch", "5", "--set", "patch=3x7"], "give --patch or --set patch=…, not both"),
        ([*BAND, "--patch", "much"], "--patch must be rows x columns, whole numbers from 1 to 1048576, as in 3x7"),
        ([*BAND, "--set", "threshold=2"], "threshold of exhaustive must be a number from 0 to below 1; got 2"),
        ([*BAND, "--radii", "2,1"], "radii of exhaustive must be rising; got [2.0, 1.0]"),
        ([*BAND, "--sigma", "0.25"], "--sigma is no option of band noise"),
        ([*BAND, "--memory", "m"], "norm of a noise with --memory must be one of"),
        ([*BAND, "--sigma-per-input"], "noise of per_input_sigma must be gaussian or uniform; got band"),
        ([*BAND, "--arithmetic", "float"], "--arithmetic of band noise must be exact, as it always is; got float"),
        (["--noise", "band", "--set", "width=20"], "width of band must be at most 12, the columns of an image; got 20"),
        ([*BAND, "--set", "image=8x8"], "inputs of band must be images of 8 × 8 pixels; got 6 × 12"),
        (["--noise", "block", "--set", "side=2", "--set", "cap=9"], "cap of exhaustive must be at least 72"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words, message, capsys, place):
    assert certify("a", *words) == 2
    assert message in capsys.readouterr().err and not (place / "a").exists()


def test_inputs_that_are_no_images_are_refused(capsys):
    np.savez("flat.npz", x=np.zeros((4, 4), dtype=np.float32), y=np.arange(4) % 2)
    assert run(["certify", "linear:score", "--data", "flat.npz", *BAND, "--out", "a"]) == 2
    assert "inputs of band must be images [..., rows, columns]; got shape [4]" in capsys.readouterr().err


def test_columns_of_classes_that_the_model_lacks_are_found(capsys):
    """Who leaves out the votes of a rival has a larger radius; drawn again, it shows."""
    assert certify("a", *BAND, "--set", "threshold=0.3", "--max", "3") == 0
    folder = held("a").folder
    stored = json.loads(forging.value(folder, "SELECT answers FROM certificates WHERE idx = 0"))
    del stored[0][3][1]
    forging.sql(folder, "UPDATE certificates SET answers = ? WHERE idx = 0", json.dumps(stored))
    forging.rechain(folder)
    assert run(["verify", "a", "--redraw", "all"]) != 0
    told = capsys.readouterr()
    assert "Traceback" not in told.err and "a bug in smoothcert" not in told.err
