"""Tables in the papers' shapes: their columns, radii and decimals, from runs with known radii."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_run
from made_runs import WRONG, log_of, record, stored

from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.report import render
from smoothcert.report.ensembles import compare
from smoothcert.report.families import Family
from smoothcert.report.papers import default_radii, table
from smoothcert.runs.run import Run

RADII = [0.0, 0.25, 0.5]
A = record("gaussian", [0.1, 0.3, 0.6, WRONG], {})
B = record("gaussian", [0.1, 0.1, 0.3, WRONG], {"seed": 1})
C = record("macer", [0.3, 0.3, 0.6, 0.6], {"noise": {"name": "gaussian", "sigma": 0.5}})


def cells(paper: str, records: list[Run], radii: list[float] | None = None, kin: tuple = ()) -> dict[str, list[str]]:
    made = table(paper, records, kin, RADII if radii is None else radii)
    return {name: [column.cells[i] for column in made.columns] for i, name in enumerate(made.names)}


def heads(paper: str, records: list[Run]) -> list[str]:
    return [column.head for column in table(paper, records, (), RADII).columns]


def test_ens_prints_acr_before_the_radii_and_pools_seeds() -> None:
    assert heads("ens", [A, C]) == ["σ", "k", "ACR", "0.00", "0.25", "0.50"]
    assert cells("ens", [A, C])["gaussian"] == ["0.25", "1", "0.250", "75.0", "50.0", "25.0"]
    pooled = cells("ens", [A, B, C])
    # ACR 0.25 and 0.125; shares 0.75 twice, 0.5 and 0.25, 0.25 and 0
    assert pooled["gaussian"][2:] == ["0.1875 ± 0.0884", "75.00 ± 0.00", "37.50 ± 17.68", "12.50 ± 17.68"]
    assert "runs of one name (gaussian): mean ± standard deviation" in table("ens", [A, B, C], (), RADII).notes


def test_esb_prints_fractions_and_acr_last() -> None:
    assert heads("esb", [A, C]) == ["σ", "0.00", "0.25", "0.50", "ACR"]
    assert cells("esb", [A, C])["macer"] == ["0.50", "1.000", "1.000", "0.500", "0.450"]


def test_dds_prints_the_best_of_one_name_and_whose_level_it_was() -> None:
    own = record("gaussian-DS", [0.4, 0.3, 0.6, WRONG], {"preparation": {"name": "per_input_sigma"}})
    assert heads("dds", [A]) == ["certify", "0.00", "0.25", "0.50", "ACR"]
    assert cells("dds", [A, B, own]) == {
        "gaussian": ["FS", "75.0", "50.0", "25.0", "0.250"],
        "gaussian-DS": ["DS", "75.0", "75.0", "25.0", "0.325"],
    }


def test_sween_prints_average_and_envelope_before_an_ensemble() -> None:
    whole = record(
        "both", [0.4, 0.4, 0.6, 0.1], {}, member_calls={"members": 2, "rows": 100, "asked": 150, "early": 50}
    )
    (kin,) = compare([Family(whole, (A, record("other", [0.3, 0.1, 0.3, 0.1], {})), 2)], RADII)
    shown = cells("sween", [whole, *kin.family.members, C], kin=(kin,))
    assert list(shown) == ["AVG both", "UE both", "both", "macer"]
    assert shown["AVG both"] == ["0.25", "87.5", "50.0", "12.5", "0.225", "–"]
    assert shown["UE both"] == ["0.25", "100.0", "50.0", "25.0", "0.250", "–"]
    assert shown["both"] == ["0.25", "100.0", "75.0", "25.0", "0.375", "150"]  # 1.5 members a draw, 100 draws


def test_the_best_is_marked_among_runs_of_one_level() -> None:
    better = record("better", [0.3, 0.3, 0.6, 0.1], {})
    made = table("ens", [A, better, C], (), RADII)
    acr = next(column for column in made.columns if column.head == "ACR")
    assert acr.best == (False, True, False)  # the one at another level has no rival


def test_runs_asked_something_else_are_not_ranked_and_it_is_said() -> None:
    known = record(
        "known", [0.25, 0.25, 0.0, WRONG], {"sampling": {"name": "spending", "radii": [0.25], "alpha": 0.001}}
    )
    made = table("ens", [A, known], (), RADII)
    assert not any(any(column.best) for column in made.columns)
    assert any("radius 0.25 was asked for" in note for note in made.notes)
    assert cells("ens", [A, known])["known"][-1] == "–"


def test_radii_are_the_papers() -> None:
    last = {"ens": 2.5, "sween": 2.0, "esb": 2.0, "dds": 2.25, "aces": 2.0}
    for paper, end in last.items():
        radii = default_radii(paper, [A])
        assert radii[:2] == [0.0, 0.25] and radii[-1] == end
    pixels = log_of(A.rows, "l0", norm="l0")
    assert default_radii("ens", [pixels]) == [0.0, 1.0]


def test_predictions_have_no_such_table() -> None:
    with pytest.raises(RunError, match="must hold certificates"):
        table("esb", [log_of(A.rows, "p", "predict")], (), RADII)


def test_aces_prints_a_line_a_threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "x.npz", 8)
    words = [
        "aces",
        "certify",
        "--certify",
        "switches:steep",
        "--core",
        "switches:core",
        "--data",
        "x.npz",
        "--n",
        "200",
    ]
    assert run([*words, "--look", "100", "--sigma", "0.25", "--out", "both"]) == 0
    small_run.make(tmp_path / "alone", tmp_path / "x.npz")
    capsys.readouterr()
    assert run(["report", "both", "--paper", "aces", "--radii", "0,0.1", "--tables", "latex"]) == 0
    text = capsys.readouterr().out
    assert r"$\theta$ & NAC & ACR & 0.00 & 0.10 & 0.00 & 0.10 \\" in text
    lines = [line for line in text.splitlines() if line.startswith(("0.", "1."))]
    assert [line.split(" & ")[0] for line in lines] == [f"{k / 10:.2f}" for k in range(11)]
    assert lines[0].split(" & ")[2:] == ["0.000", "0.0", "0.0", "0.0", r"0.0 \\"]  # never selected; this core is wrong
    assert run(["report", "both", "alone", "--paper", "aces", "--radii", "0,0.1", "--tables", "md"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert (
        rows[2].startswith("| both, θ 0.00 |") and rows[-1].startswith("| alone |") and rows[-1].endswith("| – | – |")
    )


def test_the_command_turns_tables_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "a", [0.1, 0.3])
    paths = [str(tmp_path / "a"), str(tmp_path / "a")]
    assert run(["report", *paths, "--names", "x,y", "--transpose", "--tables", "md", "--radii", "0,0.25"]) == 0
    out = capsys.readouterr().out
    assert "| run | x | y |" in out and "| 0.25 | **50.0** | **50.0** |" in out
    assert run(["report", *paths, "--names", "x,x", "--paper", "ens", "--radii", "0.25", "--tables", "latex"]) == 0
    assert r"50.00 $\pm$ 0.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--paper", "enz"], "did you mean 'ens'"),
        (["--paper", "ens", "--json"], "give --json or --paper, not both"),
        (["--transpose", "--json"], "give --json or --transpose, not both"),
    ],
)
def test_bad_options_are_one_line(options: list[str], said: str, tmp_path: Path, capsys) -> None:
    stored(tmp_path / "a", [0.1, 0.3])
    assert run(["report", str(tmp_path / "a"), *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and len(captured.err.splitlines()) == 1 and captured.out == ""


def test_latex_of_every_shape_has_as_many_cells_as_columns() -> None:
    for paper in ("ens", "sween", "esb", "dds"):
        text = render.latex(table(paper, [A, C], (), RADII))
        body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
        columns = len(text.split("{tabular}{")[1].split("}")[0])
        assert all(line.count("&") == columns - 1 for line in body)
