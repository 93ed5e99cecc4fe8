"""Logs of a stranger: bounded, read once, and every doubtful cell named in one line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from smoothcert.errors import RunError
from smoothcert.runs import component_logs, exchange

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"


def log(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(("row", "words"), [
    ("0\t1\t1\t0.5\t1\t" + "9" * 5000 + " days, 1:00:00", "time in line 2"),
    ("0\t1\t1\t0.5\t1\t" + "9" * 5000 + ":00:00", "time in line 2"),
    ("0\t1\t1\t" + "9" * 5000 + "\t1\t1.0", "radius in line 2"),
    ("0\t1\t1\t1e99999\t1\t1.0", "radius in line 2"),
    ("9" * 5000 + "\t1\t1\t0.5\t1\t1.0", "idx in line 2"),
    ("0\t1\t1\t0.5\t1\t1.0\0", "time in line 2"),
    ("0" + "\t" * 10**6, "line 2 of log .* must have 6 columns"),
    ("0\t1\t1\t0.5\t1\t1.0\n0\t1\t1\t0.5\t1\t1.0", "idx of its own; got 0 a second time"),
])  # fmt: skip
def test_cells_that_no_log_has(tmp_path, row, words):
    with pytest.raises(RunError, match=words) as error:
        exchange.read_log(log(tmp_path / "log", row))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_log_is_a_regular_file_of_bounded_size(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    for place, got in ((tmp_path / "fifo", "a FIFO"), (Path("/dev/zero"), "a device")):
        with pytest.raises(RunError, match=f"must be a regular file; got {got}"):
            exchange.open_run(place)
    with pytest.raises(RunError, match="got nothing there"):
        exchange.open_run(tmp_path / ("x" * 300))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RunError, match="must have at most 268435456 bytes; got 1099511627776"):
        exchange.open_run(tmp_path / "hole")
    with pytest.raises(RunError, match="must have at most 4096 bytes"):
        exchange.read_log(log(tmp_path / "wide", header=HEADER + "".join(f"\tc{i}" for i in range(10**5))))


def tables(folder: Path, **changed: str) -> Path:
    held = {
        "certification": "idx\tlabel\tpredict\tradius\tunperturbed predict\n0\t0\t0\t0.5\t0\n3\t0\t0\t0.5\t0\n",
        "selection_0.30": "idx\tpredict\tradius\tunperturbed predict\n0\t1\t0.5\t1\n3\t1\t0.5\t1\n",
        "core_prediction": "idx\tpredict\n0\t0\n3\t0\n",
    }
    for ending, text in {**held, **changed}.items():
        (folder / f"p[1]_{ending}").write_text(text)
    return folder / "p[1]"


def read(prefix: Path):
    indices, labels, _ = component_logs.certification(prefix)
    component_logs.selection(prefix, indices)
    return component_logs.core(prefix, indices, labels)


def test_a_prefix_with_signs_of_its_own_is_taken_as_it_is(tmp_path):
    assert np.array_equal(read(tables(tmp_path)), [0, 0])


@pytest.mark.parametrize(("ending", "text", "words"), [
    ("core_prediction", "idx\tpredict\n0\t0\n3\t0\n3\t1\n", "every input once; got index 3 again"),
    ("certification", "idx\tlabel\tpredict\tradius\tunperturbed predict" + 2 * "\n0\t0\t0\t0\t0", "index 0 again"),
    ("core_prediction", "idx\tpredict\tpredict\n0\t0\t1\n3\t0\t1\n", "every column once"),
    ("core_prediction", "idx\tpredict\n0\t1e300\n3\t0\n", "predict in line 2 .* whole number from -1 to 1e"),
    ("core_prediction", "idx\tpredict\n0\tinf\n3\t0\n", "predict in line 2"),
    ("core_prediction", "idx\tpredict\n0\t" + "9" * 400 + "\n3\t0\n", "predict in line 2"),
    ("selection_0.30", "idx\tpredict\tradius\tunperturbed predict\n0\t1\tnan\t1\n3\t1\t0.5\t1\n", "radius in line 2"),
])  # fmt: skip
def test_component_logs_that_nobody_wrote(tmp_path, ending, text, words):
    with pytest.raises(RunError, match=words) as error:
        read(tables(tmp_path, **{ending: text}))
    assert "\n" not in str(error.value)


def test_component_logs_are_regular_files(tmp_path):
    prefix = tables(tmp_path)
    (tmp_path / "p[1]_core_prediction").unlink()
    os.mkfifo(tmp_path / "p[1]_core_prediction")
    with pytest.raises(RunError, match="must be a regular file; got a FIFO"):
        read(prefix)
