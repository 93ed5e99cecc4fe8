"""The component logs of ACES's published code (eth-sri/ACES), tab-separated, read as they are.

    PREFIX_certification     idx label predict radius correct 'unperturbed predict' 'unperturbed correct' time
    PREFIX_selection_0.30    idx predict radius 'unperturbed predict' time; one file a threshold
    PREFIX_entropies         idx mean std min '25 percentile' '50 percentile' '75 percentile' max
    PREFIX_core_prediction   idx label predict correct time

`predict` is CERTIFY's label and `unperturbed predict` PREDICT's, both at α/2; −1 is an abstention. Radii there are
rounded to three digits, up as well as down (erratum E7): they are taken as they stand. Columns are found by name, and
commas may take the place of tabs.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from smoothcert import foreign
from smoothcert.bounds import Floats, Integers
from smoothcert.decisions import Verdicts
from smoothcert.errors import RunError

CERTIFICATION, SELECTION, CORE, ENTROPIES = "_certification", "_selection_", "_core_prediction", "_entropies"
LONGEST = 2**28  # bytes of a table
MOST = 1e12  # of any number: whole ones are exact, and sums of squares finite
NATURAL, MEDIAN = "unperturbed predict", "50 percentile"


def is_prefix(path: Path) -> bool:
    """Whether logs of a certified network begin with this name."""
    return bool(path.name) and foreign.is_regular(_beside(path, CERTIFICATION))


def certification(prefix: Path) -> tuple[Integers, Integers, Verdicts]:
    """Indices, labels and verdicts [inputs] of the certified network."""
    table = _read(_beside(prefix, CERTIFICATION), ("idx", "label", "predict", "radius", NATURAL))
    _refuse_twice(_beside(prefix, CERTIFICATION), table["idx"])
    return table["idx"].astype(np.int64), table["label"].astype(np.int64), _verdicts(table)


def selection(prefix: Path, indices: Integers) -> tuple[Floats, Verdicts]:
    """Thresholds, rising, and the selector's verdicts [thresholds, inputs]."""
    pattern = re.compile(re.escape(prefix.name + SELECTION) + r"(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)
    beside = prefix.parent.iterdir() if foreign.is_folder(prefix.parent) else ()
    found = sorted((float(m[1]), path) for path in beside if (m := pattern.fullmatch(path.name)))
    if not found:
        raise RunError(f"logs {prefix}{SELECTION}0.00, … must exist; got none")
    columns = []
    for _, path in found:
        table = _read(path, ("idx", "predict", "radius", NATURAL))
        columns.append(_verdicts(_rows(path, table, indices)))
    stacked = Verdicts(*(np.stack(part) for part in zip(*columns, strict=True)))
    if not np.isin(stacked.label, (-1, 0, 1)).all():
        raise RunError(f"predict in logs {prefix}{SELECTION}… must be 1, 0 or -1; got something else")
    return np.array([theta for theta, _ in found]), stacked


def core(path: Path, indices: Integers, labels: Integers) -> Integers:
    """What the core says of each input, from a table of idx and predict."""
    place = path if foreign.is_regular(path) else _beside(path, CORE)
    table = _rows(place, _read(place, ("idx", "predict")), indices)
    if "label" in table and not np.array_equal(table["label"], labels):
        raise RunError(f"table {place} must be of the same data as the certified run; labels differ")
    return table["predict"].astype(np.int64)


def median_entropy(prefix: Path, indices: Integers) -> Floats | None:
    """The median entropy of each input's noisy copies, where it was logged."""
    path = _beside(prefix, ENTROPIES)
    if not foreign.is_regular(path):
        return None
    return _rows(path, _read(path, ("idx", MEDIAN)), indices)[MEDIAN]


def _beside(prefix: Path, ending: str) -> Path:
    return prefix.parent / (prefix.name + ending)


def _read(path: Path, needed: tuple[str, ...]) -> dict[str, Floats]:
    """The needed columns of a table as numbers, and its label where it has one."""
    try:
        lines = foreign.content(path, "table", largest=LONGEST).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise RunError(f"table {path} must be readable text; got {error}") from error
    mark = "\t" if lines and "\t" in lines[0] else ","
    header = lines[0].split(mark) if lines else []
    if missing := [name for name in needed if name not in header]:
        raise RunError(f"line 1 of {path} must name the columns {', '.join(needed)}; got no '{missing[0]}'")
    cells = [line.split(mark) for line in lines[1:] if line]
    if not cells:
        raise RunError(f"table {path} must hold at least one input; got a header only")
    for number, row in enumerate(cells, start=2):
        if len(row) != len(header):
            raise RunError(f"line {number} of {path} must have {len(header)} columns; got {len(row)}")
    if len(set(header)) != len(header):
        raise RunError(f"line 1 of {path} must name every column once; got one twice")
    wanted = [name for name in dict.fromkeys((*needed, "label")) if name in header]
    return {name: _numbers(path, name, [row[header.index(name)] for row in cells]) for name in wanted}


def _numbers(path: Path, name: str, cells: list[str]) -> Floats:
    whole = name in ("idx", "label", "predict", NATURAL)
    values = []
    for number, cell in enumerate(cells, start=2):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        least = -1 if name in ("predict", NATURAL) else 0
        if not (least <= value <= MOST and (not whole or value == int(value))):
            kind = "a whole number" if whole else "a number"
            raise RunError(
                f"{name} in line {number} of {path} must be {kind} from {least} to {MOST:.0e}; got '{cell[:40]}'"
            )
        values.append(value)
    return np.array(values)


def _rows(path: Path, table: dict[str, Floats], indices: Integers) -> dict[str, Floats]:
    """The rows of these inputs, in their order."""
    place = {int(index): number for number, index in enumerate(table["idx"])}
    _refuse_twice(path, table["idx"])
    if missing := [index for index in indices.tolist() if index not in place]:
        raise RunError(f"table {path} must hold every input of the certified run; index {missing[0]} is missing")
    order = [place[index] for index in indices.tolist()]
    return {name: column[order] for name, column in table.items()}


def _refuse_twice(path: Path, indices: Floats) -> None:
    """One line an input: which of two would speak for it?"""
    found, times = np.unique(indices, return_counts=True)
    if (times > 1).any():
        raise RunError(f"table {path} must hold every input once; got index {int(found[times > 1][0])} again")


def _verdicts(table: dict[str, Floats]) -> Verdicts:
    return Verdicts(table["predict"].astype(np.int64), table["radius"], table[NATURAL].astype(np.int64))
