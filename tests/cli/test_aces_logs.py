"""The component logs of ACES's published code are read as they are, and combined like runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import small_run

from certus.cli.main import run
from certus.runs.components import GRID, parts

CLOCK = "0:01:15.726354"


@pytest.fixture
def certus(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def logs(certus, tmp_path):
    """A run of ours written as the paper's code writes its logs, but with radii in full precision."""
    small_run.write_data(tmp_path / "few.npz", number=30)
    line = "--data few.npz --sigma 0.25 --n 400 --n0 20 --look 100 --alpha 0.05 --out run"
    assert certus(f"aces certify --certify switches:steep --core switches:core {line}")[0] == 0
    found = parts(Path("run"), None)
    table(
        "our_025_certification",
        "idx\tlabel\tpredict\tradius\tcorrect\tunperturbed predict\tunperturbed correct\ttime",
        (
            [i, y, c, r, int(c == y), u, int(u == y), CLOCK]
            for i, y, c, r, u in zip(found.indices, found.labels, *found.certified, strict=True)
        ),
    )
    for place, theta in enumerate(found.thetas):
        table(
            f"our_025_selection_{theta:.2f}",
            "idx\tpredict\tradius\tunperturbed predict\ttime",
            (
                [i, *column, CLOCK]
                for i, *column in zip(found.indices, *(part[place] for part in found.selection), strict=True)
            ),
        )
    table(
        "accurate_core_prediction",
        "idx\tlabel\tpredict\tcorrect\ttime",
        ([i, y, c, int(c == y), CLOCK] for i, y, c in zip(found.indices, found.labels, found.core, strict=True)),
    )
    table(
        "our_025_entropies",
        "idx\tmean\tstd\tmin\t25 percentile\t50 percentile\t75 percentile\tmax",
        ([i, m, 0.1, 0.0, m, m, m, 1.0] for i, m in zip(found.indices, found.doubt, strict=True)),
    )
    return found


def table(name, header, lines):
    text = "\n".join("\t".join(str(cell) for cell in line) for line in lines)
    Path(name).write_text(f"{header}\n{text}\n")


def test_logs_give_what_the_run_gives(certus, logs):
    read = parts(Path("our_025"), Path("accurate"))
    assert np.array_equal(read.thetas, GRID) and np.array_equal(read.doubt, logs.doubt)
    ours, theirs = logs.at(GRID).answers, read.at(GRID).answers
    assert all(np.array_equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    here = certus("aces combine --certify run --json --theta all")[1]
    assert certus("aces combine --certify our_025 --core accurate_core_prediction --json --theta all")[1] == here
    code, out, _ = certus("aces combine --certify our_025 --core accurate --plots pictures")
    assert code == 0 and Path("pictures/entropy.svg").is_file() and "alpha" not in out


def test_a_core_may_be_a_run_and_the_thresholds_few(certus, logs):
    for path in Path().glob("our_025_selection_*"):
        if path.name not in ("our_025_selection_0.30", "our_025_selection_0.50"):
            path.unlink()
    code, out, _ = certus("aces combine --certify our_025 --core run")
    assert code == 0 and [line.split()[0] for line in out.splitlines()[2:4]] == ["0.30", "0.50"]
    code, _, err = certus("aces combine --certify our_025 --core run --theta 0.4")
    assert code == 2 and "theta of a combination must be one of 0.3, 0.5; got 0.4" in err


@pytest.mark.parametrize(("file", "old", "new", "words"), [
    ("our_025_certification", "unperturbed predict", "guess", "must name the columns idx, label, predict, radius,"),
    ("our_025_certification", "\n0\t", "\n0.5\t", "idx in line 2 of our_025_certification must be a whole number"),
    ("our_025_selection_0.30", "\n7\t", "\n700\t", "must hold every input of the certified run; index 7 is missing"),
    ("our_025_selection_0.30", f"\t{CLOCK}\n", "\n", "line 2 of our_025_selection_0.30 must have 5 columns; got 4"),
    ("our_025_selection_0.30", "\n0\t", "\n0\t7", "predict in logs our_025_selection_… must be 1, 0 or -1"),
    ("accurate_core_prediction", "\n0\t", "\n0\t7", "must be of the same data as the certified run; labels differ"),
])  # fmt: skip
def test_damage_is_named_in_one_line(certus, logs, file, old, new, words):
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))
    code, _, err = certus("aces combine --certify our_025 --core accurate")
    assert code == 2 and words in err and err.count("\n") == 1, err


def test_what_logs_cannot_say_is_refused(certus, logs):
    for line, words in (
        ("", "--core must name a run of the core network"),
        ("--core accurate --alpha 0.01", "--alpha needs counts"),
        ("--core accurate --select entropy", "--select must be a prefix of logs"),
        ("--core accurate --select nowhere", "must exist; got none"),
    ):
        code, _, err = certus(f"aces combine --certify our_025 {line}")
        assert code == 2 and words in err and err.count("\n") == 1, err
