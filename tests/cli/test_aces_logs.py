"""The component logs of ACES's published code are read as they are, and combined like runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.runs.components import GRID, components

CLOCK = "0:01:15.726354"


@pytest.fixture
def smoothcert(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def logs(smoothcert, tmp_path):
    """A run of ours written as the paper's code writes its logs, but with radii in full precision."""
    small_run.write_data(tmp_path / "few.npz", number=30)
    line = "--data few.npz --sigma 0.25 --n 400 --n0 20 --look 100 --alpha 0.05 --out run"
    assert smoothcert(f"aces certify --certify switches:steep --core switches:core {line}")[0] == 0
    found = components(Path("run"), None)
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
        ([i, m, 0.1, 0.0, m, m, m, 1.0] for i, m in zip(found.indices, found.entropy, strict=True)),
    )
    return found


def table(name, header, lines):
    text = "\n".join("\t".join(str(cell) for cell in line) for line in lines)
    Path(name).write_text(f"{header}\n{text}\n")


def test_logs_give_what_the_run_gives(smoothcert, logs):
    read = components(Path("our_025"), Path("accurate"))
    assert np.array_equal(read.thetas, GRID) and np.array_equal(read.entropy, logs.entropy)
    ours, theirs = logs.at(GRID).answers, read.at(GRID).answers
    assert all(np.array_equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    here = smoothcert("aces combine --certify run --json --theta all")[1]
    assert smoothcert("aces combine --certify our_025 --core accurate_core_prediction --json --theta all")[1] == here
    code, out, _ = smoothcert("aces combine --certify our_025 --core accurate --plots pictures")
    assert code == 0 and Path("pictures/entropy.svg").is_file() and "alpha" not in out


def test_who_names_a_log_or_its_folder_is_told_the_prefix(smoothcert, logs, tmp_path):
    for place in ("our_025_certification", "our_025_selection_0.30", "our_025_entropies", str(tmp_path)):
        meant = tmp_path / "our_025" if place == str(tmp_path) else "our_025"
        told = f"--certify must be a run, or how the names of its logs begin: {meant}; got {place}"
        assert smoothcert(f"aces combine --certify {place} --core run") == (2, "", f"smoothcert: {told}\n")


def test_a_core_may_be_a_run_and_the_thresholds_few(smoothcert, logs):
    for path in Path().glob("our_025_selection_*"):
        if path.name not in ("our_025_selection_0.30", "our_025_selection_0.50"):
            path.unlink()
    code, out, _ = smoothcert("aces combine --certify our_025 --core run")
    assert code == 0 and [line.split()[0] for line in out.splitlines()[3:5]] == ["0.30", "0.50"]
    code, _, err = smoothcert("aces combine --certify our_025 --core run --theta 0.4")
    assert code == 2 and "theta of a combination must be one of 0.3, 0.5; got 0.4" in err


@pytest.mark.parametrize(("file", "old", "new", "words"), [
    ("our_025_certification", "unperturbed predict", "guess", "must name the columns idx, label, predict, radius,"),
    ("our_025_certification", "\n0\t", "\n0.5\t", "idx in line 2 of our_025_certification must be a whole number"),
    ("our_025_selection_0.30", "\n7\t", "\n700\t", "must hold every input of the certified run; index 7 is missing"),
    ("our_025_selection_0.30", f"\t{CLOCK}\n", "\n", "line 2 of our_025_selection_0.30 must have 5 columns; got 4"),
    ("our_025_selection_0.30", "\n0\t", "\n0\t7", "predict in logs our_025_selection_… must be 1, 0 or -1"),
    ("accurate_core_prediction", "\n0\t", "\n0\t7", "must be of the same data as the certified run; labels differ"),
])  # fmt: skip
def test_damage_is_named_in_one_line(smoothcert, logs, file, old, new, words):
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))
    code, _, err = smoothcert("aces combine --certify our_025 --core accurate")
    assert code == 2 and words in err and err.count("\n") == 1, err


def test_what_logs_cannot_say_is_refused(smoothcert, logs):
    for line, words in (
        ("", "--core must name a run of the core network"),
        ("--core accurate --alpha 0.01", "--alpha needs counts"),
        ("--core accurate --select entropy", "--select must be a prefix of logs"),
        ("--core accurate --select nowhere", "must exist; got none"),
    ):
        code, _, err = smoothcert(f"aces combine --certify our_025 {line}")
        assert code == 2 and words in err and err.count("\n") == 1, err


CERTIFICATION = """\
idx\tlabel\tpredict\tradius\tcorrect\tunperturbed predict\tunperturbed correct\ttime
0\t3\t3\t0.947\t1\t3\t1\t0:01:18.648783
20\t3\t5\t0.0686\t0\t5\t0\t0:01:20.022231
40\t1\t1\t0.5\t1\t1\t1\t0:01:19.259916
60\t7\t-1\t0.0\t0\t-1\t0\t0:01:21
80\t2\t2\t0.25\t1\t2\t1\t0:01:21.142794
"""
SELECTION = """\
idx\tpredict\tradius\tunperturbed predict\ttime
0\t1\t0.46\t1\t0:01:18.648783
20\t0\t0.73\t0\t0:01:20.022231
40\t-1\t0.0\t-1\t0:01:19.259916
60\t1\t0.947\t1\t0:01:21
80\t1\t9.48e-05\t1\t0:01:21.142794
"""
ENTROPIES = """\
idx\tmean\tstd\tmin\t25 percentile\t50 percentile\t75 percentile\tmax
0\t0.0002207\t0.0002038\t1.484e-05\t9.728e-05\t5.222e-05\t0.0002666\t0.001846
20\t0.7216\t0.03924\t0.4341\t0.7011\t0.7276\t0.7482\t0.7986
40\t0.2394\t0.1701\t0.01342\t0.1031\t0.3\t0.3415\t0.7039
60\t0.3743\t0.09359\t0.08426\t0.3149\t0.3886\t0.4431\t0.5895
80\t0.01774\t0.01292\t0.002268\t0.009911\t0.01454\t0.0207\t0.1343
"""
CORE_ANSWERS = ((0, 3, 3), (20, 3, 3), (40, 1, 9), (60, 7, 7), (80, 2, 4))
CORE = "idx\tlabel\tpredict\tcorrect\ttime\n" + "".join(
    f"{i}\t{y}\t{c}\t{int(c == y)}\t0:00:00.1\n" for i, y, c in CORE_ANSWERS
)


def test_logs_as_the_published_code_writes_them_by_hand(smoothcert):
    """Three digits, exponents, times, every 20th input; the selector does not know about input 40 (erratum E5)."""
    for name, text in (("certification", CERTIFICATION), ("selection_0.30", SELECTION), ("entropies", ENTROPIES)):
        Path(f"cifar10_consistency_025_{name}").write_text(text)
    Path("lanet_core_prediction").write_text(CORE)
    code, out, _ = smoothcert(
        "aces combine --certify cifar10_consistency_025 --core lanet --json --radii 0,0.00005,0.25,0.5"
    )
    (line,) = json.loads(out)
    assert code == 0 and line["theta"] == 0.3
    assert line["natural_accuracy"] == 3 / 5  # inputs 0 and 80 by the certified network, 20 by the core
    assert line["acr"] == pytest.approx((0.46 + 9.48e-05) / 5, abs=1e-15)
    # Counting the selector that abstains as one that selected, as their code does, would make it 4/5 at radius 0.
    assert list(line["certified_accuracy"].values()) == [3 / 5, 2 / 5, 1 / 5, 0.0]
    assert list(line["certified_selection_rate"].values()) == [3 / 5, 3 / 5, 2 / 5, 1 / 5]
    assert line["abstained"] == 2 / 5  # 40: nobody knows and they disagree; 60: selected, and not certified
    found = components(Path("cifar10_consistency_025"), Path("lanet"))
    assert found.entropy.tolist() == [5.222e-05, 0.7276, 0.3, 0.3886, 0.01454]
