"""Runs as files of other tools: the tab-separated logs of Cohen et al. (2019), read and written; CSV and Parquet.

    certify   idx  label  predict  radius  correct  time
    predict   idx  label  predict  correct  time

`predict` is −1 for an abstention; `time` is seconds or `H:MM:SS.ffffff`. Columns are found by their names, so logs of
the family with more columns are read too; `draws`, `clean` and `low` are understood, others are passed over.
What the radii claim stands in columns of its own, the same in all lines, which theirs do not have: `norm`, `guarantee`,
`tested` (the class that was tested), `alpha`, `asked` (radii asked for in advance), `measure` (what a radius of 1 is,
where the norm does not say it). What a log does not say is *unstated*; nothing is guessed. An unfinished run has one
more, `inputs`: how many it was asked for.
Their logs round radii to nearest (erratum E7); what is written here is rounded down.

CSV, Parquet and frames are one flat table, a row an input, in full precision, with the names of the database's columns
and the same ones for the claim. A column is
there when the run knows it of any input; where it is not known of one, the cell is empty. Parquet also carries what was
asked and how it was carried out, as JSON under the key `smoothcert`. In CSV, text that a spreadsheet would take for a
formula has a ' before it; numbers stay as they are.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast, get_args

from smoothcert import foreign
from smoothcert.contracts import ABSTAIN, Norm, TestClass
from smoothcert.errors import OptionError, RunError
from smoothcert.files import write_whole
from smoothcert.foreign import one_line
from smoothcert.runs.run import Claim, Guarantee, Row, Run

T = TypeVar("T")

NEEDED = ("idx", "label", "predict", "correct")
CLOCK = re.compile(r"(?:(\d{1,6}) days?, )?(\d{1,6}):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,4})?", re.ASCII)
MEASURE = re.compile(r"[1-9]\d{0,6} × [1-9]\d{0,6} pixels", re.ASCII)
LARGEST = 1e12  # of radii and seconds: sums of their squares stay finite
FORMULA = re.compile("[=+\\-@＝＋－＠]")  # spreadsheets in Asia take the wide signs, too
LONGEST_HEADER = 4096  # bytes
LONGEST = 2**28  # bytes of a log: some three million inputs
Cell = int | float | bool | str | None
NUMBERS: dict[str, Callable[[str], Cell]] = {"alpha": float, "inputs": int}  # of what stands beside rows
COLUMNS: dict[str, Callable[[Row], Cell]] = {
    "idx": lambda row: row.index,
    "label": lambda row: row.label,
    "predicted": lambda row: row.predicted,
    "radius": lambda row: row.radius,
    "correct": lambda row: row.correct,
    "draws": lambda row: row.draws,
    "seconds": lambda row: row.seconds,
    "clean": lambda row: row.clean,
    "low": lambda row: row.low,
    "sigma": lambda row: row.sigma,
}


def open_run(path: Path, norm: Norm | None = None) -> Run:
    """A run or a log, whichever is there: a folder is a run, a file is a log. `norm`: of logs that do not say."""
    if foreign.is_folder(path):
        from smoothcert.runs.store import read

        return read(path)
    if not foreign.is_there(path):
        raise RunError(f"run {path} must be a run folder or a log file; got nothing there")
    return read_log(path, norm)


def read_log(path: Path, norm: Norm | None = None) -> Run:
    """A Cohen-style log as a run; every value is checked, and the first bad line is named."""
    header, lines = _lines(path)
    kind = "certify" if "radius" in header else "predict"
    rows: dict[int, Row] = {}
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            _refuse(path, number, f"have {len(header)} columns ({' '.join(header)})", f"{len(cells)}")
        row = _row(path, number, dict(zip(header, cells, strict=True)))
        if row.index in rows:
            _refuse(path, number, "have an idx of its own", f"{row.index} a second time")
        rows[row.index] = row
    if not rows:
        raise RunError(f"log {path} must hold at least one input; got a header only")
    ordered = tuple(rows[i] for i in sorted(rows))
    return Run(
        name=path.name,
        kind="certify" if kind == "certify" else "predict",
        rows=ordered,
        claim=_claim(path, header, lines, norm),
        inputs=_asked_for(path, header, lines),
    )


def stated(run: Run) -> dict[str, str]:
    """What stands beside every row, by column: the claim (of predictions their risk alone), and what is missing."""
    claim = claim_columns(run.claim)
    known = claim if run.kind == "certify" else {name: claim[name] for name in ("alpha",) if name in claim}
    return {**known, **({"inputs": str(run.inputs)} if run.unfinished else {})}


def claim_columns(claim: Claim) -> dict[str, str]:
    """What stands beside every radius, by column; what is unstated has none."""
    said = {
        "norm": claim.norm, "guarantee": claim.guarantee, "tested": claim.test_class,
        "alpha": "unstated" if claim.alpha is None else repr(claim.alpha),
        "asked": "unstated" if claim.radii is None else ",".join(map(repr, claim.radii)),
        "measure": claim.measure or "unstated",
    }  # fmt: skip
    return {column: value for column, value in said.items() if value != "unstated"}


def write_cohen(run: Run, path: Path, full: bool = False) -> None:
    """The run as Cohen's log; radii with three decimals rounded down, or with `full` in full precision."""
    # A log that never said how long it took must not say 0 seconds now.
    timed = all(row.seconds is not None for row in run.rows)
    columns: dict[str, Callable[[Row], object]] = {
        "idx": lambda row: row.index,
        "label": lambda row: row.label,
        "predict": lambda row: row.predicted,
    }
    if run.kind == "certify":
        columns["radius"] = lambda row: repr(row.radius) if full else rounded_down(row.radius, 3)
    columns["correct"] = lambda row: int(row.correct)
    if timed:
        columns["time"] = lambda row: _clock(row.seconds or 0.0)
    claim = {name: no_formula(value) for name, value in stated(run).items()}
    lines = ["\t".join([*columns, *claim])]
    lines += ["\t".join([*(str(cell(row)) for cell in columns.values()), *claim.values()]) for row in run.rows]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def columns(run: Run) -> dict[str, list[Cell]]:
    """What is known of the inputs, by column; predictions have no radius."""
    found = {name: [cell(row) for row in run.rows] for name, cell in COLUMNS.items()}
    known = {name: cells for name, cells in found.items() if any(cell is not None for cell in cells)}
    if run.kind == "predict":
        del known["radius"]
    beside = {name: NUMBERS.get(name, str)(value) for name, value in stated(run).items()}
    return {**known, **{name: [value] * len(run.rows) for name, value in beside.items()}}


def write_csv(run: Run, path: Path) -> None:
    """Comma-separated, with a line of names; `correct` is 0 or 1."""
    found = columns(run)
    sink = io.StringIO()
    lines = csv.writer(sink, lineterminator="\n")
    lines.writerow(found)
    for cells in zip(*found.values(), strict=True):
        lines.writerow(_csv_cell(cell) for cell in cells)
    write_whole(path, sink.getvalue().encode())


def _csv_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return no_formula(cell)
    return "" if cell is None else str(int(cell) if isinstance(cell, bool) else cell)


def no_formula(text: str) -> str:
    """Text on one line that no spreadsheet carries out: what begins like a formula has a ' before it."""
    cell = one_line(text)
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def write_parquet(run: Run, path: Path) -> None:
    """Apache Parquet, by pyarrow where it is installed."""
    table = arrow_table(run)
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink)
    write_whole(path, sink.getvalue())


def arrow_table(run: Run) -> Any:
    """The same table in memory, by pyarrow where it is installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise OptionError("parquet must find the package pyarrow; got none: pip install pyarrow") from error
    claim = run.claim
    about = {
        "name": one_line(run.name), "kind": run.kind, "norm": claim.norm, "guarantee": claim.guarantee,
        "tested": claim.test_class, "alpha": claim.alpha, "inputs": run.inputs, **settings(run),
    }  # fmt: skip
    return pyarrow.table(columns(run)).replace_schema_metadata({"smoothcert": json.dumps(about, ensure_ascii=False)})


def settings(run: Run) -> dict[str, Any]:
    """What was asked and how it was carried out, as plain values; of a log nothing is known."""
    asked = {} if run.spec is None else {"question": run.spec.tables()}
    return {**asked, **({} if run.means is None else {"means": run.means.tables()})}


def rounded_down(value: float, decimals: int) -> str:
    """The value with that many decimals, never above it when read back: the floor of its shortest decimal form."""
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR, Context(prec=400)))


def _lines(path: Path) -> tuple[list[str], list[str]]:
    """The names of the columns and the lines below them."""
    held = foreign.content(path, "log", largest=LONGEST)
    first, _, rest = held.partition(b"\n")
    try:
        header = first[:LONGEST_HEADER].decode("utf-8-sig").rstrip("\r").split("\t")
        _check_header(path, header[:-1] if len(first) > LONGEST_HEADER else header)
        if len(first) > LONGEST_HEADER:
            _refuse(path, 1, f"have at most {LONGEST_HEADER} bytes", f"{len(first)}")
        text = rest.decode()
    except UnicodeDecodeError as error:
        raise RunError(f"log {path} must be tab-separated text; got bytes that are not text") from error
    # A file cut in the middle of its last number still parses; only the time may come last unended.
    if text and not text.endswith("\n") and header[-1] != "time":
        raise RunError(f"log {path} must end with a line break; got a last line that may be cut off")
    return header, [line.removesuffix("\r") for line in text.rstrip("\r\n").split("\n")] if text.strip() else []


def _check_header(path: Path, header: list[str]) -> None:
    if header == [""]:
        raise RunError(f"log {path} must begin with the columns {' '.join(NEEDED)}; got an empty first line")
    missing = [name for name in NEEDED if name not in header]
    if missing:
        found = " ".join(header)[:60]
        _refuse(path, 1, f"name the columns {' '.join(NEEDED)}, tab-separated", f"{found!r} (no {missing[0]})")
    if len(set(header)) != len(header):
        _refuse(path, 1, "name every column once", " ".join(header)[:60])


def _claim(path: Path, header: list[str], lines: list[str], norm: Norm | None) -> Claim:
    """What the log says of its radii; `norm` where it does not name one."""
    stated = _constant(path, header, lines, "norm", get_args(Norm))
    if stated is not None and norm not in (None, stated):
        raise OptionError(f"norm of log {path} must be the one it states, {stated}; got {norm}")
    alpha, asked = (_constant(path, header, lines, column) for column in ("alpha", "asked"))
    level = None if alpha is None else _share(alpha)
    radii = None if asked is None else [_size(text) for text in asked.split(",")]
    if (alpha is not None and level is None) or (radii is not None and None in radii):
        raise RunError(f"alpha and asked of log {path} must be numbers; got {alpha}, {asked}")
    measure = _constant(path, header, lines, "measure") or ""
    if measure and not MEASURE.fullmatch(measure):
        raise RunError(f"measure of log {path} must be as in '3 × 7 pixels'; got {measure[:40]}")
    return Claim(
        norm=cast(Norm, stated) if stated else norm or "unstated",
        guarantee=cast(Guarantee, _constant(path, header, lines, "guarantee", get_args(Guarantee)) or "unstated"),
        test_class=cast(TestClass, _constant(path, header, lines, "tested", get_args(TestClass)) or "unstated"),
        alpha=level,
        radii=None if radii is None else tuple(radius for radius in radii if radius is not None),
        measure=measure,
    )


def _asked_for(path: Path, header: list[str], lines: list[str]) -> int | None:
    """How many inputs an unfinished run was asked for, where the log says so."""
    said = _constant(path, header, lines, "inputs")
    number = None if said is None else _natural(said)
    if said is not None and (number is None or number < len(lines)):
        raise RunError(f"inputs of log {path} must be a whole number, {len(lines)} or more; got {said[:40]}")
    return number


def _constant(
    path: Path, header: list[str], lines: list[str], column: str, choices: tuple[str, ...] | None = None
) -> str | None:
    """What all lines say in this column; None where there is no such column."""
    if column not in header:
        return None
    said = list(dict.fromkeys(line.split("\t")[header.index(column)] for line in lines))
    if len(said) == 1 and (choices is None or said[0] in choices):
        return said[0]
    expected = f"{'one of ' + ', '.join(choices) if choices else 'one value'}, the same in all lines"
    raise RunError(f"{column} of log {path} must be {expected}; got {', '.join(said)[:60]}")


def _row(path: Path, number: int, cells: Mapping[str, str]) -> Row:
    """One line as a row; what the family writes and nothing else."""

    def value(column: str, read: Callable[[str], T | None], expected: str) -> T:
        parsed = read(cells[column])
        return parsed if parsed is not None else _refuse(path, number, expected, repr(cells[column][:40]), column)

    def maybe(column: str, read: Callable[[str], T | None], expected: str) -> T | None:
        return value(column, read, expected) if column in cells else None

    row = Row(
        index=value("idx", _natural, "be a whole number ≥ 0"),
        label=value("label", _natural, "be a whole number ≥ 0"),
        predicted=value("predict", _class, "be a class, or -1 for an abstention"),
        radius=maybe("radius", _size, "be a number from 0 to 1e12") or 0.0,
        draws=maybe("draws", _natural, "be a whole number ≥ 0"),
        seconds=maybe("time", _seconds, "be seconds or H:MM:SS.ffffff"),
        clean=maybe("clean", _natural, "be a whole number ≥ 0"),
        low=maybe("low", _share, "be a number from 0 to 1"),
    )
    correct = value("correct", lambda text: {"0": False, "1": True}.get(text), "be 0 or 1")
    if correct != row.correct:
        says = f"{int(correct)} for label {row.label}, predict {row.predicted}"
        _refuse(path, number, "say whether predict equals label", says, "correct")
    if row.predicted == ABSTAIN and row.radius > 0.0:
        _refuse(path, number, "be 0 for an abstention", f"{row.radius}", "radius")
    return row


def _refuse(path: Path, number: int, expected: str, got: str, column: str = "") -> NoReturn:
    what = f"{column} in line {number}" if column else f"line {number}"
    raise RunError(f"{what} of log {path} must {expected}; got {got}")


def _class(text: str) -> int | None:
    number = int(text) if WHOLE.fullmatch(text) else None
    return number if number is not None and number >= ABSTAIN else None


def _natural(text: str) -> int | None:
    number = _class(text)
    return number if number is not None and number >= 0 else None


def _size(text: str) -> float | None:
    number = float(text) if NUMBER.fullmatch(text) else None
    return number if number is not None and 0.0 <= number <= LARGEST else None


def _share(text: str) -> float | None:
    number = _size(text)
    return number if number is not None and number <= 1.0 else None


def _seconds(text: str) -> float | None:
    match = CLOCK.fullmatch(text)
    if match is None:
        return _size(text)
    days, hours, minutes, seconds = match.groups(default="0")
    return (int(days) * 24 + int(hours)) * 3600.0 + int(minutes) * 60.0 + float(seconds)


def _clock(seconds: float) -> str:
    micros = round(seconds * 1_000_000)
    whole, micros = divmod(micros, 1_000_000)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}.{micros:06}"
