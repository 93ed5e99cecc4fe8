"""ACES's Table 1: a line for every threshold of a composition; a single smoothed network is one line without any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from smoothcert.report._layout import Column, Table, plain
from smoothcert.report.aces import TENTHS, lines
from smoothcert.report.metrics import Share, figures
from smoothcert.report.question import part
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.components import of_record, single
from smoothcert.runs.run import Run

ACCURACY, SELECTION = "certified accuracy (%) at r", "certified selection rate (%) at r"


class Entry(NamedTuple):
    """One row."""

    name: str
    theta: str
    natural: Share
    acr: float | None
    certified: Mapping[float, Share | None]
    selected: Mapping[float, Share | None]


def table(records: Sequence[Run], radii: Sequence[float]) -> Table:
    """Threshold, natural accuracy, ACR, certified accuracy and, for compositions, certified selection rate."""
    entries = [entry for record in records for entry in _entries(record, radii)]
    several = len(records) > 1
    names = [
        ", θ ".join(filter(None, (entry.name, entry.theta))) if several else entry.theta or entry.name
        for entry in entries
    ]
    columns = [
        plain("NAC", [percent(entry.natural) for entry in entries]),
        plain("ACR", [decimal(entry.acr) for entry in entries]),
        *(_at(radius, [entry.certified for entry in entries], ACCURACY) for radius in radii),
    ]
    if any(entry.selected for entry in entries):
        columns += [_at(radius, [entry.selected for entry in entries], SELECTION) for radius in radii]
    return Table("run" if several else "θ", tuple(names), tuple(columns))


def _entries(record: Run, radii: Sequence[float]) -> Iterator[Entry]:
    if part(record, "procedure").get("name") == "aces":
        for line in lines(of_record(record).at(TENTHS), radii):
            yield Entry(record.name, f"{line.theta:.2f}", line.natural, line.acr, line.certified, line.selected)
        return
    found, alone = figures(record, radii), single(record)
    right = int(np.sum(alone.verdicts.natural == alone.labels))
    yield Entry(record.name, "", Share(right, len(alone.labels)), found.acr, found.certified_accuracy, {})


def _at(radius: float, shares: Sequence[Mapping[float, Share | None]], title: str) -> Column:
    cells = tuple(percent(share.get(radius)) for share in shares)
    return Column(f"{radius:.2f}", cells, (False,) * len(cells), radius, title)
