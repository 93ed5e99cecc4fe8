"""A comparison of two runs in words: a table for a terminal, Markdown or LaTeX, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smoothcert.report._layout import Table, plain
from smoothcert.report.compare import Change, Compared, label, name_of
from smoothcert.report.metrics import LEVEL, Interval
from smoothcert.report.question import asked
from smoothcert.report.tables import decimal, ends, percent, signed

WIDEST = 12  # characters of a run's name over a column


def table(found: Compared) -> Table:
    """A row a figure: both runs, the difference with its interval, and the inputs that make it."""
    first, second = _names(found)
    rows = [*_acr_row(found), *((label(name_of(found.before, c.radius), "%"), _share_row(c)) for c in found.changes)]
    heads = [first, second, "difference", f"{LEVEL * 100:g} % interval", "lost", "gained", "p"]
    columns = zip(*(cells for _, cells in rows), strict=True)
    return Table(
        "figure",
        tuple(name for name, _ in rows),
        tuple(plain(head, cells) for head, cells in zip(heads, columns, strict=True)),
        tuple(_notes(found)),
    )


def as_json(found: Compared) -> dict[str, Any]:
    """One object, nothing rounded; differences are second − first."""
    acr = None
    if found.acr and found.acr_change:
        value, *around = found.acr_change
        acr = {"first": found.acr[0], "second": found.acr[1], "difference": value, "interval": around}
    shares = {
        name_of(found.before, change.radius): {
            "first": change.before.value, "second": change.after.value, "difference": change.value,
            "interval": list(change.interval), "only_first": change.lost, "only_second": change.gained,
            "p_value": change.p_value,
        }
        for change in found.changes
    }  # fmt: skip
    certified = found.before.kind == "certify"
    return {
        "first": found.before.name,
        "second": found.after.name,
        "kind": found.before.kind,
        "norm": found.before.norm,
        "inputs": len(found.before.rows),
        "acr": acr,
        **({"certified_accuracy": shares} if certified else shares),
        "intervals": {"level": LEVEL, "shares": "exact, unconditional", "acr": "paired bootstrap"},
        "differs": list(found.differs),
    }


def _acr_row(found: Compared) -> Iterator[tuple[str, list[str]]]:
    if found.acr is not None and found.acr_change is not None:
        value, low, high = found.acr_change
        yield "ACR", [*map(decimal, found.acr), signed(value), ends(Interval(low, high)), "", "", ""]


def _share_row(change: Change) -> list[str]:
    told = signed(change.value, 2), ends(change.interval, 2)
    counts = str(change.lost), str(change.gained), f"{change.p_value:.2g}"
    return [percent(change.before), percent(change.after), *told, *counts]


def _names(found: Compared) -> tuple[str, str]:
    """The runs over their columns; letters where their names would be too wide."""
    names = found.before.name, found.after.name
    return names if max(map(len, names)) <= WIDEST else ("A", "B")


def _notes(found: Compared) -> Iterator[str]:
    first, second = _names(found)
    if first != found.before.name:
        yield f"A is {found.before.name}, B is {found.after.name}"
    yield (
        f"difference: {second} − {first} on the same {len(found.before.rows):,} inputs ({found.before.norm}, inputs in "
        f"[0,1]), of certified accuracies in points; lost: inputs that only {first} has, gained: only {second}"
    )
    yield "intervals: exact for shares, paired bootstrap for ACR; p: McNemar's exact test; for inputs drawn like these"
    if found.differs:
        yield f"the runs differ in: {'; '.join(found.differs)}"
    said = [(record.name, line) for record in (found.before, found.after) for line in asked(record).words]
    shared = {line for _, line in said if sum(line == other for _, other in said) == 2}
    yield from dict.fromkeys(line if line in shared else f"{name}: {line}" for name, line in said)
