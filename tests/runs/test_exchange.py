"""Cohen-style logs: read strictly, written with radii rounded down."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import log_of

from smoothcert.data import Subset
from smoothcert.errors import OptionError, OutputError, RunError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.runs.exchange import open_run, read_log, rounded_down, write_cohen
from smoothcert.runs.run import Claim, Row, Run
from smoothcert.runs.store import RunStore
from smoothcert.spec import Means, Recipe, Spec

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "locuslab"
CERTIFY = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
GOOD = CERTIFY + "0\t3\t3\t0.378\t1\t15.4\n20\t7\t-1\t0.0\t0\t0:02:31.238689\n"


def log(folder: Path, text: str | bytes) -> Path:
    path = folder / "log.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_certify_log_is_read(tmp_path: Path) -> None:
    record = read_log(log(tmp_path, GOOD))
    assert record.name == "log.tsv"
    assert record.kind == "certify"
    assert record.spec is None
    assert record.rows == (Row(0, 3, 3, 0.378, seconds=15.4), Row(20, 7, -1, 0.0, seconds=151.238689))


def test_a_predict_log_is_read(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tcorrect\ttime\n5\t0\t1\t0\t1 day, 1:00:01\n"
    record = read_log(log(tmp_path, text))
    assert record.kind == "predict"
    assert record.rows == (Row(5, 0, 1, 0.0, seconds=90001.0),)


def test_columns_are_found_by_name_and_rows_ordered_by_index(tmp_path: Path) -> None:
    text = (
        "\ufefflabel\tidx\tnote\tdraws\tlow\tclean\tradius\tpredict\tcorrect\r\n"
        "1\t9\thm\t110\t0.9\t2\t1e-1\t1\t1\r\n"
        "4\t2\t\t110\t0.2\t4\t0\t-1\t0\r\n\r\n"
    )
    rows = read_log(log(tmp_path, text)).rows
    assert rows == (
        Row(2, 4, -1, 0.0, draws=110, clean=4, low=0.2),
        Row(9, 1, 1, 0.1, draws=110, clean=2, low=0.9),
    )


BAD = {
    "empty": ("", "empty first line"),
    "header only": (CERTIFY, "at least one input"),
    "foreign text": ("hello world\n", "line 1 of"),
    "commas": (GOOD.replace("\t", ","), "line 1 of"),
    "no label": ("idx\tpredict\tradius\tcorrect\n0\t1\t0.5\t1\n", "no label"),
    "column twice": ("idx\tlabel\tpredict\tradius\tradius\tcorrect\n", "once"),
    "cut line": (GOOD + "40\t8\t8\t0.", "line 4 of"),
    "cut in the last column": (GOOD.replace("\ttime", "\tms") + "40\t8\t8\t0.1\t1\t1", "cut off"),
    "blank line inside": (GOOD + "\n40\t8\t8\t0.1\t1\t1\n", "line 4 of"),
    "extra cell": (GOOD + "40\t8\t8\t0.1\t1\t1\t1\n", "line 4 of"),
    "word for a radius": (GOOD + "40\t8\t8\tfar\t1\t1\n", "radius in line 4"),
    "radius NaN": (GOOD + "40\t8\t8\tnan\t1\t1\n", "radius in line 4"),
    "radius infinite": (GOOD + "40\t8\t8\tinf\t1\t1\n", "radius in line 4"),
    "radius overflows": (GOOD + "40\t8\t8\t1e999\t1\t1\n", "radius in line 4"),
    "radius negative": (GOOD + "40\t8\t8\t-0.1\t1\t1\n", "radius in line 4"),
    "radius empty": (GOOD + "40\t8\t8\t\t1\t1\n", "radius in line 4"),
    "radius of an abstention": (GOOD + "40\t8\t-1\t0.1\t0\t1\n", "radius in line 4"),
    "index twice": (GOOD + "20\t8\t8\t0.1\t1\t1\n", "20 a second time"),
    "index fractional": (GOOD + "40.5\t8\t8\t0.1\t1\t1\n", "idx in line 4"),
    "label negative": (GOOD + "40\t-1\t-1\t0\t1\t1\n", "label in line 4"),
    "class below abstention": (GOOD + "40\t8\t-2\t0\t0\t1\n", "predict in line 4"),
    "python's underscore": (GOOD + "4_0\t8\t8\t0.1\t1\t1\n", "idx in line 4"),
    "correct but wrong": (GOOD + "40\t8\t7\t0.1\t1\t1\n", "correct in line 4"),
    "wrong but correct": (GOOD + "40\t8\t8\t0.1\t0\t1\n", "correct in line 4"),
    "correct as a word": (GOOD + "40\t8\t8\t0.1\tyes\t1\n", "correct in line 4"),
    "time": (GOOD + "40\t8\t8\t0.1\t1\t0:99:00\n", "time in line 4"),
    "binary": (b"SQLite format 3\x00\xff\xfe\x80", "not text"),
    "binary below the header": (CERTIFY.encode() + b"\x00\xff\xfe\n", "not text"),
    "one endless line": ("x" * 100_000, "line 1 of"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_log_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, said = BAD[name]
    with pytest.raises(RunError) as caught:
        read_log(log(tmp_path, text))
    message = str(caught.value)
    assert said in message
    assert "log.tsv" in message
    assert " must " in message and "; got " in message
    assert "\n" not in message and len(message) < 300 + len(str(tmp_path))


def test_every_published_log_reads() -> None:
    paths = [path for path in REFERENCE.rglob("*") if path.is_file()]
    if not paths:
        pytest.skip("the published logs are not here")
    records = [read_log(path) for path in paths]
    assert len(records) == 17
    for path, record in zip(paths, records, strict=True):
        assert len(record.rows) == path.read_text().count("\n") - 1
        assert record.kind == ("predict" if "predict" in path.parts else "certify")
        assert all(row.seconds is not None and 0 < row.seconds < 600 for row in record.rows)


def test_a_log_is_written_as_cohen_wrote_it(tmp_path: Path) -> None:
    rows = (
        Row(0, 3, 3, 0.97799, seconds=3723.5),
        Row(1, 2, -1, 0.0, seconds=0.0000004),
        Row(2, 2, 5, 1.9996, seconds=90000.25),
    )
    path = tmp_path / "out.tsv"
    write_cohen(log_of(rows, norm="unstated"), path)
    assert path.read_text() == (
        CERTIFY
        + "0\t3\t3\t0.977\t1\t1:02:03.500000\n"
        + "1\t2\t-1\t0.000\t0\t0:00:00.000000\n"
        + "2\t2\t5\t1.999\t0\t25:00:00.250000\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["out.tsv"]


def test_radii_of_another_norm_say_so_and_come_back_with_it(tmp_path: Path) -> None:
    record = log_of((Row(0, 3, 3, 2.0), Row(1, 3, -1, 0.0)), norm="l0")
    write_cohen(record, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text().splitlines()[0] == "idx\tlabel\tpredict\tradius\tcorrect\tnorm"
    assert read_log(tmp_path / "a.tsv").claim.norm == "l0"
    with pytest.raises(OptionError, match="must be the one it states, l0; got l2"):
        read_log(tmp_path / "a.tsv", "l2")
    text = (tmp_path / "a.tsv").read_text()
    for bad, got in ((text.replace("l0", "l3"), "l3"), (text.replace("l0", "l1", 1), "l1, l0")):
        with pytest.raises(
            RunError, match=f"must be one of l0, l1, l2, linf, patch, the same in all lines; got {got}$"
        ):
            read_log(log(tmp_path, bad))


def test_full_precision_comes_back_bit_for_bit(tmp_path: Path) -> None:
    rows = (Row(0, 3, 3, math.pi / 3, seconds=1.5), Row(7, 1, 1, 5e-324, seconds=2.0))
    write_cohen(log_of(rows), tmp_path / "log.tsv", full=True)
    assert read_log(tmp_path / "log.tsv").rows == rows


def test_a_predict_run_is_written_without_radii_and_unknown_times_are_not_invented(tmp_path: Path) -> None:
    write_cohen(log_of((Row(0, 3, 3, 0.0), Row(1, 3, -1, 0.0, seconds=1.0)), kind="predict"), tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text() == "idx\tlabel\tpredict\tcorrect\n0\t3\t3\t1\n1\t3\t-1\t0\n"
    assert read_log(tmp_path / "p.tsv").kind == "predict"


CLAIMS = [
    Claim("l1", "deterministic", "leader", 0.0),
    Claim("l2", "none", "guess", 0.001),
    Claim("l2", "memory", "guess", 0.01, (0.25, 0.5)),
    Claim("linf", "smoothing", "labels", 0.05, (0.1,)),
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_claim_comes_back_with_the_radii(claim: Claim, tmp_path: Path) -> None:
    """Norm, guarantee, tested class, alpha and radii asked for: a log that says them is read as it was written."""
    run = Run(name="a", kind="certify", rows=(Row(0, 3, 3, 0.5),), claim=claim)
    write_cohen(run, tmp_path / "a.tsv")
    assert read_log(tmp_path / "a.tsv").claim == claim


def test_a_log_that_says_nothing_of_its_norm_is_not_called_l2(tmp_path: Path) -> None:
    path = log(tmp_path, GOOD)
    assert read_log(path).claim == Claim("unstated", "unstated", "unstated")
    assert read_log(path, "linf").claim.norm == "linf"


@given(st.floats(0, 1e6), st.integers(0, 6))
def test_rounding_down_never_exceeds_and_loses_less_than_a_unit(value: float, decimals: int) -> None:
    shown = rounded_down(value, decimals)
    assert float(shown) <= value
    assert value - float(shown) < 10.0**-decimals * (1 + 1e-9) + 1e-9
    assert rounded_down(float(shown), decimals) == shown  # written, read and written again, it stays


def test_rounding_down_keeps_what_is_already_round() -> None:
    assert float(rounded_down(1e300, 3)) == 1e300
    assert [rounded_down(x, 3) for x in (0.978, 0.1 + 0.2, 2.9999999, 0.0)] == [
        "0.978",
        "0.300",
        "2.999",
        "0.000",
    ]


@pytest.mark.parametrize("where", ["missing/out.tsv", "file/out.tsv", ".", "folder", "/dev/null"])
def test_an_output_that_cannot_be_written_is_one_line_and_leaves_nothing(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OutputError) as caught:
        write_cohen(log_of((Row(0, 1, 1, 0.5),)), tmp_path / where)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "kept"
    assert Path("/dev/null").is_char_device()


def test_a_folder_is_a_run_and_a_file_a_log(tmp_path: Path) -> None:
    question = Spec("m", "0" * 64, Subset("digits"), "1" * 64, 3, (64,), Gaussian(0.25), Certify())
    row = Row(1, 2, 2, 0.123456789, 1100, 0.5, 2, 0.7)
    with RunStore(tmp_path / "run", Recipe(question, Means(64, "torch", "smoothcert certify m"))) as store:
        store.add(row)
    record = open_run(tmp_path / "run")
    assert (record.name, record.kind, record.inputs, record.rows) == ("run", "certify", 3, (row,))
    assert open_run(log(tmp_path, GOOD)).name == "log.tsv"


def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="got nothing there"):
        open_run(tmp_path / "no")
    with pytest.raises(RunError):
        open_run(tmp_path)
