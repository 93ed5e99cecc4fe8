"""`smoothcert report` and `smoothcert export` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from smoothcert.cli import export, report
from smoothcert.errors import OptionError, RunError, SmoothcertError

app = typer.Typer()
app.command("report")(report.command)
app.command("export")(export.command)

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


def smoothcert(*arguments: object) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "a.tsv"
    path.parent.mkdir()
    path.write_text(HEADER + "0\t1\t1\t0.6\t1\t1.0\n1\t2\t-1\t0.0\t0\t2.0\n")
    return path


def test_json_of_one_run_is_an_object_and_of_several_a_list(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoothcert("report", log, "--json")
    one = json.loads(capsys.readouterr().out)
    assert one["certified_accuracy"] == {"0": 0.5, "0.25": 0.5, "0.5": 0.5}
    smoothcert("report", log, log, "--json", "--names", "x, y", "--radii", "1,0,0.60,0")
    several = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in several] == ["x", "y"]
    assert several[0]["certified_accuracy"] == {"0": 0.5, "0.6": 0.5, "1": 0.0}


def test_the_table_goes_to_stdout_and_news_of_files_does_not(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoothcert("report", log, "--html", tmp_path / "r.html", "--plot", tmp_path / "c.png")
    out, err = capsys.readouterr()
    assert "a.tsv" in out and "50.0" in out and "wrote" not in out
    assert err.count("smoothcert: wrote") == 3
    assert {path.name for path in tmp_path.iterdir()} == {"in", "r.html", "c.png", "c.svg"}


@pytest.mark.parametrize(("layout", "mark"), [("md", "| :-- |"), ("latex", "\\toprule"), ("text", "───")])
def test_layouts(layout: str, mark: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoothcert("report", log, "--tables", layout)
    assert mark in capsys.readouterr().out


@pytest.mark.parametrize("radii", ["", "a", "0,,1", "-1", "nan", "0,inf", "1;2"])
def test_bad_radii_are_one_line(radii: str, log: Path) -> None:
    with pytest.raises(OptionError, match="--radii must be numbers ≥ 0") as caught:
        smoothcert("report", log, f"--radii={radii}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tables", "mdd"], "did you mean 'md'"),
        (["--tables", "md", "--json"], "give --json or --tables, not both"),
        (["--names", "a,b"], "must be 1 names"),
        (["--names", " "], "must be 1 names"),
        (["--plot", "c.pdf"], "must end in .svg or .png"),
        (["--html", "/dev/null"], "must be a file"),
        (["--html", "no/such/r.html"], "--html must be in a folder that exists"),
    ],
)
def test_bad_options_are_one_line_and_print_nothing(
    options: list[str],
    said: str,
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SmoothcertError, match=r"must|not both") as caught:
        smoothcert("report", log, *options)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_missing_and_empty_runs_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="got nothing there"):
        smoothcert("report", tmp_path / "no")
    (tmp_path / "empty").write_text(HEADER)
    with pytest.raises(RunError, match="at least one input"):
        smoothcert("report", tmp_path / "empty")
    with pytest.raises(RunError, match="at least one input"):
        smoothcert("export", tmp_path / "empty", "--out", tmp_path / "o")


def test_the_norm_of_a_log_is_unstated_unless_the_user_states_it(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoothcert("report", log)
    assert "unstated norm" in (out := capsys.readouterr().out) and "does not state the norm" in out
    smoothcert("report", log, "--norm", "linf", "--json")
    assert json.loads(capsys.readouterr().out)["norm"] == "linf"
    with pytest.raises(OptionError, match="--norm must be one of l0, l1, l2, linf, patch; got 'l3'"):
        smoothcert("report", log, "--norm", "l3")


def test_equal_names_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / "x" / "test" / "s", tmp_path / "y" / "test" / "s"]
    assert report.distinct(paths) == ["x/test/s", "y/test/s"]
    assert report.distinct([paths[0], tmp_path / "z"]) == ["s", "z"]
    assert report.distinct([paths[0], paths[0]]) == ["s", "s (2)"]


def test_export_writes_a_log_that_reports_the_same(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoothcert("export", log, "--to", "cohen", "--out", tmp_path / "b.tsv")
    assert (tmp_path / "b.tsv").read_text() == HEADER + (
        "0\t1\t1\t0.600\t1\t0:00:01.000000\n1\t2\t-1\t0.000\t0\t0:00:02.000000\n"
    )
    smoothcert("export", log, "--full", "--out", tmp_path / "c.tsv")
    assert "\t0.6\t" in (tmp_path / "c.tsv").read_text()
    with pytest.raises(OptionError, match="--to must be one of cohen"):
        smoothcert("export", log, "--to", "xls", "--out", tmp_path / "d")


def test_help_needs_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; import smoothcert.cli.report, smoothcert.cli.export; "
        "print([m for m in ('numpy', 'scipy', 'matplotlib', 'jinja2', 'torch') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
