"""Tables in the shapes that the papers print: which columns, which radii, how many decimals.

    ens     σ, model, k, ACR, certified accuracy (%)          runs of one name: mean ± standard deviation (Table 12)
    sween   σ, model, certified accuracy (%), ACR             an ensemble after AVG and UE of its members (Tables 6, 8)
    esb     model, certified accuracy as a fraction, ACR      (Tables 5 to 7)
    dds     method, certified with a fixed σ (FS) or the input's own (DS), certified accuracy (%), ACR
            runs of one name, say at several σ: the best at each radius, and the best ACR (Table 1)
    aces    θ, natural accuracy, ACR, certified accuracy and selection rate (%)  (Table 1; `_paper_aces`)

Figures are rounded down, standard deviations to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from smoothcert.report import metrics, tables
from smoothcert.report._layout import Column, Table, plain
from smoothcert.report._paper_rows import Entry, pooled, with_members
from smoothcert.report.ensemble import Comparison
from smoothcert.report.metrics import figures
from smoothcert.report.question import warning
from smoothcert.report.tables import UNKNOWN, count, rounded
from smoothcert.runs.run import Run


@dataclass(frozen=True)
class Shape:
    """How a paper prints certified accuracy."""

    last: float  # radius
    acr_first: bool = False
    percent: bool = True
    best: bool = False  # of runs of one name; else their mean


SHAPES = {"ens": Shape(2.5, acr_first=True), "sween": Shape(2.0), "esb": Shape(2.0, percent=False),
          "dds": Shape(2.25, best=True)}  # fmt: skip


def table(paper: str, records: Sequence[Run], kin: Sequence[Comparison], radii: Sequence[float]) -> Table:
    """The runs in a paper's shape; ensembles come with their members compared at the same radii."""
    if paper == "aces":
        from smoothcert.report._paper_aces import table as aces_table

        return aces_table(records, radii)
    shape, found = SHAPES[paper], [figures(record, radii) for record in records]
    entries = with_members(records, kin, radii) if paper == "sween" else pooled(records, radii, shape.best)
    norms = " or ".join(sorted({record.norm for record in records}))
    title = f"certified accuracy{' (%)' if shape.percent else ''} at {norms} radius r"
    shares = [_share(entries, radius, shape, title) for radius in radii]
    acr = _column("ACR", entries, lambda entry: entry.line.acr, lambda entry: entry.line.acr_sd, 0)
    columns = [*_beside(paper, entries), *([acr, *shares] if shape.acr_first else [*shares, acr])]
    if paper == "sween" and (evaluations := _known("#evals/img", [count(entry.evaluations) for entry in entries])):
        columns.append(evaluations)
    if warning([one.question for one in found]):
        columns = [replace(column, best=(False,) * len(entries)) for column in columns]
    notes = (*_pooled(records, shape), *tables.notes(found))
    return Table("model", tuple(entry.line.name for entry in entries), tuple(columns), notes)


def default_radii(paper: str, records: Sequence[Run]) -> list[float]:
    """The radii of the paper's tables on CIFAR-10; where they mean nothing, those of any report."""
    if any(record.norm == "l0" for record in records):
        return metrics.default_radii(records)
    last = SHAPES[paper].last if paper in SHAPES else 2.0
    return [metrics.STEP * i for i in range(math.floor(last / metrics.STEP) + 1)]


def _beside(paper: str, entries: Sequence[Entry]) -> list[Column]:
    """What stands between a model's name and its figures."""
    if paper == "dds":
        return [plain("certify", [entry.levels for entry in entries])]
    facts = [_known("σ", [entry.sigma for entry in entries])]
    if paper == "ens":
        sizes = [UNKNOWN if entry.members is None else str(entry.members) for entry in entries]
        facts.append(_known("k", sizes))
    return [column for column in facts if column is not None]


def _known(head: str, cells: Sequence[str]) -> Column | None:
    return plain(head, cells) if any(cell != UNKNOWN for cell in cells) else None


def _pooled(records: Sequence[Run], shape: Shape) -> Iterator[str]:
    names = [record.name for record in records]
    several = sorted({name for name in names if names.count(name) > 1})
    said = "the best of them in each column" if shape.best else "mean ± standard deviation"
    if several:
        yield f"runs of one name ({', '.join(several)}): {said}"


def _share(entries: Sequence[Entry], radius: float, shape: Shape, title: str) -> Column:
    def spread(entry: Entry) -> float | None:
        return (entry.line.certified_sd or {}).get(radius)

    places = 2 if shape.percent else 0
    column = _column(f"{radius:.2f}", entries, lambda entry: entry.line.certified.get(radius), spread, places)
    return Column(column.head, column.cells, column.best, radius, title)


def _column(
    head: str,
    entries: Sequence[Entry],
    value: Callable[[Entry], float | None],
    spread: Callable[[Entry], float | None],
    shift: int,
) -> Column:
    """Three decimals, the point moved by `shift`; a mean with one more and its deviation. Best among those of one σ."""
    cells, best = [], []
    for entry in entries:
        found, deviation = value(entry), spread(entry)
        rivals = [v for other in entries if other.sigma == entry.sigma and (v := value(other)) is not None]
        best.append(len(rivals) > 1 and found is not None and found == max(rivals) > 0.0)
        cell = UNKNOWN if found is None else rounded(found, shift=shift, decimals=3 if deviation is None else 4)
        cells.append(cell if deviation is None else f"{cell} ± {deviation * 10**shift:.{4 - shift}f}")
    return Column(head, tuple(cells), tuple(best))
