"""Tables in the shapes that the papers print: which columns, which radii, how many decimals.

    ens     σ, model, k, ACR, certified accuracy (%)          runs of one name: mean ± standard deviation (Table 12)
    sween   σ, model, certified accuracy (%), ACR             an ensemble after AVG and UE of its members (Tables 6, 8)
    esb     model, certified accuracy as a fraction, ACR      (Tables 5 to 7)
    dds     method, certified with a fixed σ (FS) or the input's own (DS), certified accuracy (%), ACR
            runs of one name, say at several σ: the best at each radius, and the best ACR (Table 1)
    aces    θ, natural accuracy, ACR, certified accuracy and selection rate (%)  (Table 1)

Figures are rounded down, standard deviations to nearest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from smoothcert.contracts import WHOLE
from smoothcert.errors import RunError
from smoothcert.procedures.aces import AcesProcedure
from smoothcert.report import metrics, tables
from smoothcert.report.aces import TENTHS, by_threshold
from smoothcert.report.ensembles import Comparison
from smoothcert.report.metrics import Share, figures
from smoothcert.report.section import Column, Table, plain
from smoothcert.report.tables import UNKNOWN, count, decimal, percent, rounded
from smoothcert.runs.components import components_of, single
from smoothcert.runs.run import Run

ACCURACY, SELECTION = "certified accuracy (%) at r", "certified selection rate (%) at r"


@dataclass(frozen=True)
class PaperShape:
    """How a paper prints certified accuracy."""

    last: float  # radius
    acr_first: bool = False
    percent: bool = True
    best: bool = False  # of runs of one name; else their mean


SHAPES = {"ens": PaperShape(2.5, acr_first=True), "sween": PaperShape(2.0), "esb": PaperShape(2.0, percent=False),
          "dds": PaperShape(2.25, best=True)}  # fmt: skip


@dataclass(frozen=True)
class PaperRow:
    """One row: figures, with standard deviations where they are means, and what stands beside the name."""

    name: str
    sigma: str
    acr: float
    certified: Mapping[float, float]  # by radius, those that were tried
    acr_sd: float | None = None
    certified_sd: Mapping[float, float] | None = None
    members: int | None = None
    levels: str = ""  # FS or DS
    evaluations: float | None = None  # of members, an input


class AcesRow(NamedTuple):
    """One row of ACES's table; a single smoothed network has no threshold."""

    name: str
    theta: str
    natural: Share
    acr: float | None
    certified: Mapping[float, Share | None]
    selected: Mapping[float, Share]


def table(paper: str, runs: Sequence[Run], comparisons: Sequence[Comparison], radii: Sequence[float]) -> Table:
    """The runs in a paper's shape; ensembles come with their members compared at the same radii."""
    if paper == "aces":
        return _aces_table(runs, radii)
    shape, found = SHAPES[paper], [figures(run, radii) for run in runs]
    rows = _with_members(runs, comparisons, radii) if paper == "sween" else _pooled(runs, radii, shape.best)
    norms = " or ".join(sorted({run.claim.norm for run in runs}))
    title = f"certified accuracy{' (%)' if shape.percent else ''} at {norms} radius r"
    shares = [_share(rows, radius, shape, title) for radius in radii]
    acr = _column("ACR", rows, lambda row: row.acr, lambda row: row.acr_sd, 0)
    columns = [*_beside(paper, rows), *([acr, *shares] if shape.acr_first else [*shares, acr])]
    if paper == "sween":
        columns += _known("#evals/img", [count(row.evaluations) for row in rows])
    if len({run.claim.comparable for run in runs if run.kind == "certify"}) > 1:
        columns = [replace(column, best=(False,) * len(rows)) for column in columns]
    notes = (*_pooled_words(runs, shape), *tables.notes(found))
    return Table("model", tuple(row.name for row in rows), tuple(columns), notes)


def default_radii(paper: str, runs: Sequence[Run]) -> list[float]:
    """The radii of the paper's tables on CIFAR-10; where they mean nothing, those of any report."""
    if any(run.claim.norm in WHOLE for run in runs):
        return metrics.default_radii(runs)
    last = SHAPES[paper].last if paper in SHAPES else 2.0
    return [metrics.STEP * i for i in range(math.floor(last / metrics.STEP) + 1)]


def _pooled(runs: Sequence[Run], radii: Sequence[float], best: bool) -> list[PaperRow]:
    """One row a name, in the order of first appearance: the best of its runs in each column, or their mean."""
    named: dict[str, list[Run]] = {}
    for run in runs:
        named.setdefault(run.name, []).append(run)
    return [_row(group, radii, best) for group in named.values()]


def _with_members(runs: Sequence[Run], comparisons: Sequence[Comparison], radii: Sequence[float]) -> list[PaperRow]:
    """Ensembles after the average and the upper envelope of their members; members stand for nothing else."""
    inside = {id(member) for found in comparisons for member in found.family.members}
    rows: list[PaperRow] = []
    for run in runs:
        for found in comparisons:
            if found.family.ensemble is run:
                beside = (("AVG", found.average), ("UE", found.envelope))
                rows += [PaperRow(f"{name} {run.name}", _sigma(run), one.acr, one.certified) for name, one in beside]
        if id(run) not in inside:
            rows.append(_row([run], radii, best=False))
    return rows


def _row(group: Sequence[Run], radii: Sequence[float], best: bool) -> PaperRow:
    """One run, or several of one name."""
    found = [_certified(run, radii) for run in group]
    sizes = {_size(run) for run in group}
    row = PaperRow(
        group[0].name, ", ".join(dict.fromkeys(map(_sigma, group))), *found[0],
        members=sizes.pop() if len(sizes) == 1 else None,
        levels="DS" if any(run.spec is not None and run.spec.preparation for run in group) else "FS",
        evaluations=_evaluations(group[0]) if len(group) == 1 else None,
    )  # fmt: skip
    if len(group) == 1:
        return row
    tried = [radius for radius in row.certified if all(radius in shares for _, shares in found)]
    acrs = [acr for acr, _ in found]
    by_radius = {radius: [shares[radius] for _, shares in found] for radius in tried}
    if best:
        return replace(row, acr=max(acrs), certified={r: max(values) for r, values in by_radius.items()})
    return replace(
        row,
        acr=statistics.fmean(acrs),
        certified={r: statistics.fmean(values) for r, values in by_radius.items()},
        acr_sd=statistics.stdev(acrs),
        certified_sd={r: statistics.stdev(values) for r, values in by_radius.items()},
    )


def _certified(run: Run, radii: Sequence[float]) -> tuple[float, dict[float, float]]:
    found = figures(run, radii)
    if found.acr is None:
        raise RunError(f"run {run.name} must hold certificates for a paper's table; it holds predictions")
    return found.acr, {r: share.value for r, share in found.certified_accuracy.items() if share is not None}


def _sigma(run: Run) -> str:
    return UNKNOWN if run.spec is None or run.spec.sigma is None else f"{run.spec.sigma:.2f}"


def _size(run: Run) -> int | None:
    """Networks behind a run; not known of a log."""
    if run.means is None:
        return None
    return 1 if run.means.member_calls is None else run.means.member_calls.members


def _evaluations(run: Run) -> float | None:
    """Evaluations of members an input, where the run has counted whom it asked."""
    calls = run.means and run.means.member_calls
    draws = [row.draws for row in run.rows if row.draws is not None]
    return calls.asked / calls.rows * statistics.fmean(draws) if calls and draws else None


def _beside(paper: str, rows: Sequence[PaperRow]) -> list[Column]:
    """What stands between a model's name and its figures."""
    if paper == "dds":
        return [plain("certify", [row.levels for row in rows])]
    sizes = [UNKNOWN if row.members is None else str(row.members) for row in rows]
    return _known("σ", [row.sigma for row in rows]) + (_known("k", sizes) if paper == "ens" else [])


def _known(head: str, cells: Sequence[str]) -> list[Column]:
    return [plain(head, cells)] if any(cell != UNKNOWN for cell in cells) else []


def _pooled_words(runs: Sequence[Run], shape: PaperShape) -> Iterator[str]:
    names = [run.name for run in runs]
    several = sorted({name for name in names if names.count(name) > 1})
    said = "the best of them in each column" if shape.best else "mean ± standard deviation"
    if several:
        yield f"runs of one name ({', '.join(several)}): {said}"


def _share(rows: Sequence[PaperRow], radius: float, shape: PaperShape, title: str) -> Column:
    def spread(row: PaperRow) -> float | None:
        return (row.certified_sd or {}).get(radius)

    column = _column(f"{radius:.2f}", rows, lambda row: row.certified.get(radius), spread, 2 if shape.percent else 0)
    return replace(column, radius=radius, over=title)


def _column(
    head: str,
    rows: Sequence[PaperRow],
    value: Callable[[PaperRow], float | None],
    spread: Callable[[PaperRow], float | None],
    shift: int,
) -> Column:
    """Three decimals, the point moved by `shift`; a mean with one more and its deviation. Best among those of one σ."""
    cells, best = [], []
    for row in rows:
        found, deviation = value(row), spread(row)
        rivals = [v for other in rows if other.sigma == row.sigma and (v := value(other)) is not None]
        best.append(len(rivals) > 1 and found is not None and found == max(rivals) > 0.0)
        cell = UNKNOWN if found is None else rounded(found, shift=shift, decimals=3 if deviation is None else 4)
        cells.append(cell if deviation is None else f"{cell} ± {deviation * 10**shift:.{4 - shift}f}")
    return Column(head, tuple(cells), tuple(best))


def _aces_table(runs: Sequence[Run], radii: Sequence[float]) -> Table:
    """Threshold, natural accuracy, ACR, certified accuracy and, for compositions, certified selection rate."""
    rows, several = [row for run in runs for row in _aces_rows(run, radii)], len(runs) > 1
    names = [", θ ".join(filter(None, row[:2])) if several else row.theta or row.name for row in rows]
    columns = [
        plain("NAC", [percent(row.natural) for row in rows]),
        plain("ACR", [decimal(row.acr) for row in rows]),
        *(plain(f"{r:.2f}", [percent(row.certified.get(r)) for row in rows], ACCURACY) for r in radii),
    ]
    if any(row.selected for row in rows):
        columns += [plain(f"{r:.2f}", [percent(row.selected.get(r)) for row in rows], SELECTION) for r in radii]
    return Table(
        "run" if several else "θ",
        tuple(names),
        tuple(columns),
        tuple(tables.notes([figures(run, radii) for run in runs])),
    )


def _aces_rows(run: Run, radii: Sequence[float]) -> Iterator[AcesRow]:
    if run.spec is not None and isinstance(run.spec.procedure, AcesProcedure):
        for one in by_threshold(components_of(run).at(TENTHS), radii):
            yield AcesRow(run.name, f"{one.theta:.2f}", one.natural, one.acr, one.certified, one.selected)
        return
    found, alone = figures(run, radii), single(run)
    right = int(np.sum(alone.verdicts.natural == alone.labels))
    yield AcesRow(run.name, "", Share(right, len(alone.labels)), found.acr, found.certified_accuracy, {})
