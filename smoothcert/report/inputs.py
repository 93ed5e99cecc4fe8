"""Single inputs of a run: their pictures, a gallery of a few that are chosen by rule, and the list of all, or of many.

A picture is shown only if the data are those that were certified: their hash is compared with the run's.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from smoothcert.contracts import ABSTAIN, EVERY, WHOLE, Stream, input_key
from smoothcert.data import Inputs, Subset
from smoothcert.errors import SmoothcertError
from smoothcert.noise import at_level
from smoothcert.report.columns import RunColumns, columns
from smoothcert.report.meaning import sticker
from smoothcert.report.metrics import Share
from smoothcert.report.tables import NAME, class_name, class_names, count, cut, decimal, outcome, percent, radius_words
from smoothcert.runs.run import Row, Run
from smoothcert.spec import Spec, procedure_name

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

T = TypeVar("T")

SIDE = 256  # pixels; larger inputs are shown by every k-th of theirs, so that noise keeps its strength
SMALL = 64  # pixels of pictures that are many
BYTES = 10 * 2**20  # of all pictures of a page's galleries, as noise that nothing makes smaller
LARGEST = 2 * 10**8  # values of all inputs together that are hashed for the pictures' sake: seconds, not minutes
VOTING = ("test", "predict", EVERY)  # purposes of draws whose votes decided
ROOM = 48  # inputs in the galleries of a page, over all runs; it bounds the size of the page
LEAST = 6  # of a run, however many there are
ENLARGED = 48  # pixels: up to this size pictures are enlarged to the same width
LEADERS = 3  # classes whose votes are shown, if they have a thousandth of them
MOST = 10_000  # inputs of a run that a page lists; the run itself holds all of them
TOGETHER = 30_000  # of all runs of a page; it bounds the size of the page
FEWEST = 500  # of a run, however many there are
STICKER, GREY = ((1.0, 0.0, 0.6), (1.0, 0.9, 0.2)), ((0.0,), (1.0,))  # a patch, drawn as a chequerboard
PAGE = 100  # shown at a time


@dataclass(frozen=True)
class Album:
    """The pictures of one run, of at most so many pixels a side."""

    inputs: Inputs
    spec: Spec
    side: int = SIDE

    @property
    def shown(self) -> int:
        """Pixels of the longer side as shown."""
        longer = max(self.inputs.shape[1:])
        return -(-longer // every(longer, self.side))

    @classmethod
    def of_input(cls, spec: Spec, inputs: Inputs, index: int) -> Album | None:
        """The album of one input, if it is a picture."""
        if len(inputs.shape) != 3 or inputs.shape[0] not in (1, 3) or index not in inputs.indices:
            return None
        return cls(inputs, spec)

    def original(self, row: Row) -> str:
        """The input itself, as a data URI."""
        return uri(self._values(row), self.side)

    def noisy(self, row: Row) -> str | None:
        """The first of the noisy copies that voted, clipped to what a screen can show; None where none is known."""
        import torch

        purpose = next((answer.purpose for answer in row.answers if answer.purpose in VOTING), None)
        if purpose is None or not self.spec.revealed:
            return None
        x = torch.from_numpy(self._values(row))
        out = torch.empty(1, *x.shape)
        noise = self.spec.noise if row.sigma is None else at_level(self.spec.noise, row.sigma)
        noise.fill(out, x, Stream(self.spec.seed, input_key(x), purpose), 0)
        return uri(out[0].numpy(), self.side)

    def stuck(self, row: Row) -> str | None:
        """The input under the largest patch that cannot change its label, in the middle; None where there is none."""
        import numpy as np

        place = sticker(self.spec, row.radius)
        if place is None or row.predicted == ABSTAIN:
            return None
        values = self._values(row).copy()
        inside = values[:, *place]
        colours = np.array(STICKER if len(values) == 3 else GREY, dtype=np.float32)
        inside[:] = colours[np.indices(inside.shape[1:]).sum(axis=0) % 2].transpose(2, 0, 1)
        return uri(values, self.side)

    def _values(self, row: Row) -> Array:
        import numpy as np

        values: Array = self.inputs.store.take(np.flatnonzero(self.inputs.indices == row.index)[:1])[0]
        return values


def album(run: Run) -> Album | str:
    """The album of a run, or why there is none."""
    spec = run.spec
    if spec is None:
        return "the run does not say what its inputs were"
    if (reason := no_pictures(spec)) is not None:
        return reason
    if spec.inputs * math.prod(spec.shape) > LARGEST:
        return "there are too many inputs to check quickly that they are those that were certified"
    try:
        inputs = _loaded(spec.data)
    except SmoothcertError as error:
        return f"the data are not at hand: {error}"
    if inputs.digest != spec.data_digest:
        return f"{spec.data.spec} is no longer what was certified: its hash differs"
    return Album(inputs, spec)


def no_pictures(spec: Spec) -> str | None:
    """Why the inputs of a run cannot be shown as pictures; None where they can."""
    if spec.data.scale is not None:
        return f"inputs {spec.data.units} are no pictures"
    if not (len(spec.shape) == 3 and spec.shape[0] in (1, 3) and min(spec.shape[1:]) > 1):
        return f"inputs of shape {'×'.join(map(str, spec.shape))} are no pictures"
    return None


@lru_cache(maxsize=2)
def _loaded(subset: Subset) -> Inputs:
    """Runs side by side mostly share their inputs: they are read, and hashed, once."""
    return subset.load()


def every(longer: int, side: int) -> int:
    """Which pixels of so many are shown, so that they are at most `side`: every k-th."""
    return -(-longer // side)


def uri(values: Array, side: int = SIDE) -> str:
    """Values [1 or 3, height, width] in [0,1] as a PNG of at most so many pixels a side, inside a data URI."""
    import numpy as np
    from PIL import Image

    step = every(max(values.shape[1:]), side)
    pixels = np.rint(values[:, ::step, ::step].clip(0.0, 1.0) * 255).astype(np.uint8)
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    sink = io.BytesIO()
    image.save(sink, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode()


def room(shape: Sequence[int], runs: int) -> tuple[int, int]:
    """How many inputs the gallery of one of so many runs shows, and of how many pixels a side.

    All pictures together stay below BYTES: of large inputs fewer are shown, and where LEAST are too many, fewer pixels.
    """
    wanted, side = max(LEAST, ROOM // runs), SIDE
    while True:
        step = every(max(shape[1:]), side)
        values = shape[0] * math.prod(-(-pixels // step) for pixels in shape[1:])
        fit = BYTES // runs // (2 * values * 4 // 3)  # an input and its noisy copy, in base64
        if fit >= LEAST or side == SMALL:
            return min(wanted, max(LEAST, fit)), side
        side = max(SMALL, side // 2)


@dataclass(frozen=True)
class VoteBar:
    """The share of the votes that one class has."""

    name: str
    length: float  # in percent
    shown: str
    right: bool  # the true label


@dataclass(frozen=True)
class Item:
    """One input in words, and with its pictures where it stands in a gallery."""

    row: Row
    outcome: str
    label: str
    predicted: str
    radius: str
    draws: str
    reach: float = 0.0  # the radius in percent of the largest of its run
    picture: str | None = None
    noisy: str | None = None
    stuck: str | None = None  # under the largest patch that cannot change its label
    bars: tuple[VoteBar, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """The gallery of one run; `reason` says why there are no pictures."""

    name: str
    items: list[Item]
    total: int  # inputs that they were chosen from
    reason: str | None
    side: int = 0  # pixels of the pictures' longer side
    every: int = 1  # every k-th pixel is shown

    @property
    def large(self) -> bool:
        """Whether its pictures are shown pixel by pixel instead of enlarged."""
        return self.side > ENLARGED


@dataclass(frozen=True)
class Listing:
    """The inputs of one run."""

    lines: list[Item]  # the first PAGE of them: what a page shows without its script
    held: int
    total: int
    kinds: list[tuple[str, int, int]]  # outcome, how many of it are held, how many there are
    columns: str  # of all that are held, as JSON

    @property
    def sampled(self) -> bool:
        return self.held < self.total


def galleries(runs: Sequence[Run]) -> list[Gallery]:
    """A gallery for each run that has pictures or votes to show."""
    made = [_gallery(run, len(runs)) for run in runs]
    return [found for found in made if found.items]


def chosen(known: RunColumns, room: int) -> list[Row]:
    """Rows that speak for all: up to a quarter wrong, a quarter abstained, the rest right; each spread over its radii.

    Of the wrong ones the most certain; they are what a reader looks for. The largest radius comes first.
    """
    import numpy as np

    order = np.lexsort((known.index, -known.radius))
    silent, fits = known.abstained[order], (known.correct & ~known.abstained)[order]
    few = {"wrong": min(int((~silent & ~fits).sum()), room // 4), "abstained": min(int(silent.sum()), room // 4)}
    right: list[int] = evenly(np.flatnonzero(fits), room - sum(few.values()))
    left = room - len(right)
    wrong = np.flatnonzero(~silent & ~fits)[: max(few["wrong"], left - few["abstained"])].tolist()
    places = sorted([*right, *wrong, *evenly(np.flatnonzero(silent), left - len(wrong))])
    return [known.rows[i] for i in order[places].tolist()]


def votes(run: Run, row: Row) -> tuple[VoteBar, ...]:
    """The classes with most votes among the draws that decided; none where the run keeps no such votes."""
    looks = [votes_in(run, answer.counts) for answer in row.answers if answer.purpose in VOTING]
    if not looks or not _one_network(run):
        return ()
    totals = [sum(column) for column in zip(*looks, strict=True)]
    order = sorted(range(len(totals)), key=lambda label: (-totals[label], label))[:LEADERS]
    cast = sum(answer.draws for answer in row.answers if answer.purpose in VOTING)
    shares = [(label, Share(totals[label], cast)) for label in order if 1000 * totals[label] >= cast]
    return tuple(VoteBar(class_name(run, k), 100 * one.value, percent(one), k == row.label) for k, one in shares)


def votes_in(run: Run, counts: Sequence[Sequence[int]]) -> Sequence[int]:
    """The votes of each class among these counts, as the run's scheme counts them."""
    sampling = None if run.spec is None else run.spec.sampling
    return counts[0] if sampling is None else sampling.votes(counts)


def listing(run: Run, runs: int = 1) -> Listing:
    """The inputs of a run, one of so many runs, in the order of their indices; of too many, some evenly apart."""
    held = evenly(run.rows, min(MOST, max(FEWEST, TOGETHER // runs)))
    take: dict[str, Callable[[Row], int | None]] = {
        "index": lambda row: row.index,
        "label": lambda row: row.label,
        "predicted": lambda row: row.predicted,
        "radius": lambda row: int(Decimal(decimal(row.radius)).scaleb(3)),  # thousandths, rounded down as shown
        "draws": lambda row: row.draws,
    }
    data = as_data(
        {
            "names": [cut(name, NAME) for name in class_names(run)],
            "whole": run.claim.norm in WHOLE,
            "radii": run.kind == "certify",
            "page": PAGE,
            "columns": {name: [one(row) for row in held] for name, one in take.items()},
        }
    )
    shown, there = (outcomes(RunColumns(tuple(held))), outcomes(columns(run)))
    kinds = [(kind, shown[kind], there[kind]) for kind in ("correct", "wrong", "abstained")]
    return Listing([item(run, row, NAME) for row in held[:PAGE]], len(held), len(run.rows), kinds, data)


def outcomes(known: RunColumns) -> dict[str, int]:
    """How many rows are right, wrong, or say nothing."""
    silent, right = int(known.abstained.sum()), int((known.correct & ~known.abstained).sum())
    return {"correct": right, "wrong": len(known.rows) - right - silent, "abstained": silent}


def as_data(value: Any) -> str:
    """JSON that may stand inside a script element of a page."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def item(run: Run, row: Row, most: int | None = None, **more: Any) -> Item:
    """One row in words; `most`: characters of the name of a class."""
    label, predicted = (class_name(run, number, most) for number in (row.label, row.predicted))
    return Item(row, outcome(row), label, predicted, radius_words(run, row), count(row.draws), **more)


def _gallery(run: Run, runs: int) -> Gallery:
    found, number = album(run), max(LEAST, ROOM // runs)
    reason, pictures = (found, None) if isinstance(found, str) else (None, found)
    if pictures is not None:
        number, side = room(pictures.inputs.shape, runs)
        pictures = replace(pictures, side=side)
    rows = chosen(columns(run), number)
    top = float(columns(run).radius.max(initial=0.0)) or 1.0
    if pictures is None and not any(votes(run, row) for row in rows):
        rows = []
    items = [
        item(
            run,
            row,
            reach=100 * row.radius / top,
            picture=pictures.original(row) if pictures else None,
            noisy=pictures.noisy(row) if pictures and _one_network(run) else None,
            stuck=pictures.stuck(row) if pictures else None,
            bars=votes(run, row),
        )
        for row in rows
    ]
    sizes = (pictures.shown, every(max(pictures.inputs.shape[1:]), pictures.side)) if pictures else (0, 1)
    return Gallery(run.name, items, len(run.rows), reason, *sizes)


def _one_network(run: Run) -> bool:
    """Whether its votes are those of one network under one noise."""
    return run.spec is not None and procedure_name(run.spec.procedure) in ("certify", "predict")


def evenly(items: Sequence[T] | np.ndarray[Any, np.dtype[Any]], number: int) -> list[T]:
    """So many of the items, evenly apart, the first and the last among them."""
    if number >= len(items):
        return list(items)
    if number < 2:
        return list(items[:number])
    return [items[round(i * (len(items) - 1) / (number - 1))] for i in range(number)]
