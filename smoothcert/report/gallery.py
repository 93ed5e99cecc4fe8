"""A few inputs to look at: the picture, a noisy copy, label, radius, votes. Chosen by rule, not by taste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from smoothcert.report.labels import class_name
from smoothcert.report.listing import outcome, radius_words
from smoothcert.report.metrics import Share
from smoothcert.report.pictures import VOTING, Album, album
from smoothcert.report.question import part
from smoothcert.report.tables import percent
from smoothcert.runs.run import Row, Run

T = TypeVar("T")

ROOM = 48  # inputs on a page, over all runs; it bounds the size of the page
LEAST = 6  # of a run, however many there are
LEADERS = 3  # classes whose votes are shown, if they have a thousandth of them
PLAIN = ("certify", "predict")  # procedures whose votes are those of one network under one noise


@dataclass(frozen=True)
class Bar:
    """The share of the votes that one class has."""

    name: str
    length: float  # in percent
    shown: str
    right: bool  # the true label


@dataclass(frozen=True)
class Item:
    """One input of the gallery."""

    row: Row
    outcome: str
    label: str
    predicted: str
    radius: str
    reach: float  # the radius in percent of the largest of its run
    picture: str | None
    noisy: str | None
    bars: list[Bar]


@dataclass(frozen=True)
class Gallery:
    """The gallery of one run; `reason` says why there are no pictures."""

    name: str
    items: list[Item]
    reason: str | None


def galleries(records: Sequence[Run]) -> list[Gallery]:
    """A gallery for each run that has pictures or votes to show."""
    made = [_gallery(record, max(LEAST, ROOM // len(records))) for record in records]
    return [found for found in made if found.items]


def chosen(rows: Sequence[Row], room: int) -> list[Row]:
    """Rows that speak for all: up to a quarter wrong, a quarter abstained, the rest right; each spread over its radii.

    Of the wrong ones the most certain; they are what a reader looks for. The largest radius comes first.
    """

    def place(row: Row) -> tuple[float, int]:
        return -row.radius, row.index

    by_radius = sorted(rows, key=place)
    groups = {name: [row for row in by_radius if outcome(row) == name] for name in ("wrong", "abstained", "correct")}
    few = {name: min(len(groups[name]), room // 4) for name in ("wrong", "abstained")}
    right = _spread(groups["correct"], room - sum(few.values()))
    left = room - len(right)
    wrong = groups["wrong"][: max(few["wrong"], left - few["abstained"])]
    return sorted([*right, *wrong, *_spread(groups["abstained"], left - len(wrong))], key=place)


def votes(record: Run, row: Row) -> list[Bar]:
    """The classes with most votes among the draws that decided; none where the run keeps no such votes."""
    columns = [answer.counts[0] for answer in row.answers if answer.purpose in VOTING]
    if not columns or not _plain(record):
        return []
    totals = [sum(column) for column in zip(*columns, strict=True)]
    order = sorted(range(len(totals)), key=lambda label: (-totals[label], label))[:LEADERS]
    shares = [(label, Share(totals[label], sum(totals))) for label in order if 1000 * totals[label] >= sum(totals)]
    return [
        Bar(class_name(record, label), 100 * share.value, percent(share), label == row.label) for label, share in shares
    ]


def _gallery(record: Run, room: int) -> Gallery:
    found = album(record)
    reason = found if isinstance(found, str) else None
    pictures = None if isinstance(found, str) else found
    rows = chosen(record.rows, room)
    top = max((row.radius for row in record.rows), default=0.0) or 1.0
    if pictures is None and not any(votes(record, row) for row in rows):
        rows = []
    return Gallery(record.name, [_item(record, row, pictures, top) for row in rows], reason)


def _item(record: Run, row: Row, pictures: Album | None, top: float) -> Item:
    return Item(
        row=row,
        outcome=outcome(row),
        label=class_name(record, row.label),
        predicted=class_name(record, row.predicted),
        radius=radius_words(record, row),
        reach=100 * row.radius / top,
        picture=pictures.original(row) if pictures else None,
        noisy=pictures.noisy(row) if pictures and _plain(record) else None,
        bars=votes(record, row),
    )


def _plain(record: Run) -> bool:
    return part(record, "procedure").get("name") in PLAIN


def _spread(items: Sequence[T], number: int) -> list[T]:
    """So many of the items, evenly apart, the first and the last among them."""
    if number >= len(items):
        return list(items)
    if number < 2:
        return list(items[:number])
    return [items[round(i * (len(items) - 1) / (number - 1))] for i in range(number)]
