"""A composition over its thresholds, in the shape of the paper's tables: one line a threshold.

Natural accuracy is that of PREDICT, an abstention counting as wrong. The certified selection rate at r is the share of
inputs that are certainly selected within r; a selector that does not know has selected nothing (erratum E5). Shares are
percentages, everything is rounded down, and only here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.contracts import ABSTAIN
from smoothcert.errors import OptionError
from smoothcert.report.metrics import MOST_STEPS, STEP, Share, radius_name
from smoothcert.report.tables import decimal, percent

if TYPE_CHECKING:
    from smoothcert.runs.components import Combined, Parts

TENTHS = tuple(k / 10 for k in range(11))
DEMANDS = ("natural-accuracy", "acr")


@dataclass(frozen=True)
class Line:
    """The figures of a composition at one threshold."""

    theta: float
    natural: Share
    acr: float
    abstained: Share
    certified: Mapping[float, Share]  # by radius
    selected: Mapping[float, Share]  # by radius


def lines(combined: Combined, radii: Sequence[float] | None = None) -> list[Line]:
    """One line a threshold; radii default to every 0.25 up to the largest."""
    wanted = default_radii(combined) if radii is None else radii
    return [_line(combined, place, wanted) for place in range(len(combined.thetas))]


def default_radii(combined: Combined) -> list[float]:
    """0, 0.25, … up to the largest radius that anything has."""
    largest, step = float(max(combined.answers.radius.max(), combined.selection.radius.max())), STEP
    while largest > step * MOST_STEPS:
        step *= 2.0
    return [step * number for number in range(math.floor(largest / step) + 1)]


def _line(combined: Combined, place: int, radii: Sequence[float]) -> Line:
    label, radius, natural = (column[place] for column in combined.answers)
    chosen, reach = combined.selection.label[place] == 1, combined.selection.radius[place]
    right = label == combined.labels
    return Line(
        float(combined.thetas[place]),
        _share(natural == combined.labels),
        math.fsum(radius[right]) / len(label),
        _share(label == ABSTAIN),
        {r: _share(right & (radius >= r)) for r in radii},
        {r: _share(chosen & (reach >= r)) for r in radii},
    )


def note(parts: Parts) -> str:
    """What the table does not say."""
    said = []
    if "look" in parts.settings:
        said.append(f"natural accuracy: prediction with {parts.settings['look']:,} draws, an abstention is wrong")
    if parts.plain is not None:
        half, whole = (
            math.fsum(verdicts.radius[verdicts.label == parts.labels]) / len(parts.labels)
            for verdicts in (parts.certified, parts.plain)
        )
        said.append(
            f"the certified network alone: ACR {decimal(whole)} at alpha {parts.settings['alpha']:g}, {decimal(half)} "
            "at half of it, which is theta 1 here"
        )
    return "\n".join(said)


def theta_for(parts: Parts, demand: str) -> tuple[float, Line]:
    """The threshold that meets `natural-accuracy=0.9` with the largest ACR, or `acr=0.4` with the most accuracy."""
    name, _, text = demand.partition("=")
    try:
        least = float(text)
    except ValueError:
        least = math.nan
    if name not in DEMANDS or not 0.0 <= least < math.inf:
        raise OptionError(f"--theta-for must be {' or '.join(f'{known}=…' for known in DEMANDS)}; got '{demand}'")
    every = lines(parts.at(parts.thetas), [0.0])
    pairs = [(line.natural.value, line.acr) for line in every]
    met = [line for line, pair in zip(every, pairs, strict=True) if pair[DEMANDS.index(name)] >= least]
    if not met:
        best = max(pair[DEMANDS.index(name)] for pair in pairs)
        raise OptionError(f"--theta-for {demand} must be within reach of the hold-out inputs; the most is {best:.3f}")
    other = (lambda line: line.acr) if name == DEMANDS[0] else (lambda line: line.natural.value)
    found = max(met, key=other)
    return found.theta, found


def rows(found: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: threshold, natural accuracy, ACR, certified accuracy and certified selection rate at radii."""
    radii = list(found[0].certified)
    heads = ["theta", "NAC %", "ACR", *(radius_name(r) for r in radii), *(f"s {radius_name(r)}" for r in radii)]
    cells = [
        [
            f"{line.theta:.2f}", percent(line.natural), decimal(line.acr),
            *(percent(line.certified[r]) for r in radii), *(percent(line.selected[r]) for r in radii),
        ]
        for line in found
    ]  # fmt: skip
    return heads, cells


def text(found: Sequence[Line]) -> str:
    """Two tables under each other, for a terminal."""
    heads, cells = rows(found)
    first = 3 + len(found[0].certified)
    upper = grid(heads[:first], [row[:first] for row in cells])
    lower = grid([heads[0], *(head.removeprefix("s ") for head in heads[first:])],
                  [[row[0], *row[first:]] for row in cells])  # fmt: skip
    return (
        "natural accuracy (NAC), average certified radius (ACR), certified accuracy (%) at radius\n"
        f"{upper}\n\ncertified selection rate (%) at radius\n{lower}"
    )


def markdown(found: Sequence[Line]) -> str:
    """One table; columns that begin with s are certified selection rates."""
    heads, cells = rows(found)
    table = [heads, ["--:"] * len(heads), *cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in table)


def latex(found: Sequence[Line]) -> str:
    """A booktabs tabular in the paper's shape."""
    heads, cells = rows(found)
    radii = len(found[0].certified)
    groups = "& & & " + " & ".join(
        f"\\multicolumn{{{radii}}}{{c}}{{{title} at radius $r$}}"
        for title in ("Certified accuracy", "Certified selection rate")
    )
    named = ["$\\theta$", "NAC", "ACR", *(head.removeprefix("s ") for head in heads[3:])]
    return "\n".join([
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", "\\toprule", f"{groups} \\\\", " & ".join(named) + " \\\\",
        "\\midrule", *(" & ".join(row) + " \\\\" for row in cells), "\\bottomrule", "\\end{tabular}",
    ])  # fmt: skip


def as_json(found: Sequence[Line]) -> list[dict[str, Any]]:
    """One object a threshold, nothing rounded."""
    return [
        {
            "theta": line.theta,
            "natural_accuracy": line.natural.value,
            "acr": line.acr,
            "abstained": line.abstained.value,
            "certified_accuracy": {radius_name(r): share.value for r, share in line.certified.items()},
            "certified_selection_rate": {radius_name(r): share.value for r, share in line.selected.items()},
        }
        for line in found
    ]


def grid(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns under their heads, to the right."""
    widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *cells]
    )


def _share(hits: np.ndarray[Any, np.dtype[np.bool_]]) -> Share:
    return Share(int(hits.sum()), len(hits))
