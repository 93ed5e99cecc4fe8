"""What a run's certificates say and do not say, in plain words, for every noise and every kind of guarantee.

statistical      wrong with probability at most α, over the noise that was drawn
deterministic    every case of the noise was counted: no α
memory           what a memory of regions answers from now on
none             a noise level of its own for each input, and no memory: nothing about neighbours
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smoothcert.report.metrics import setting
from smoothcert.report.noise_words import GRID, TABLE, grid, noise_words
from smoothcert.report.question import asked, part
from smoothcert.runs.run import Run


class Statement(NamedTuple):
    """One point of the box; `runs` names those it holds for where it does not hold for all."""

    lead: str
    text: str
    runs: tuple[str, ...] = ()


NEAR = {
    "l2": "nearer than R in the ℓ₂ norm (Euclidean distance), inputs being scaled to [0, 1]",
    "l1": "whose changes, added up over all coordinates (the ℓ₁ norm), come to less than R, inputs being scaled to "
    "[0, 1]",
    "l0": "that differs in R coordinates or fewer (the ℓ₀ norm), whichever they are and however much they change; a "
    "pixel in colour has three coordinates",
    "unstated": "nearer than R in the norm that the log does not state",
    "linf": "in which no coordinate changes by R or more (the ℓ∞ norm), inputs being scaled to [0, 1]",
}
COUNTED = "whose changes, added up over all coordinates (the ℓ₁ norm), come to R or less, inputs being scaled to [0, 1]"
NORMS = {"l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞", "unstated": "log's own, unstated"}


def says(records: Sequence[Run]) -> list[Statement]:
    """What holds."""
    return _merged(records, _says)


def does_not_say(records: Sequence[Run]) -> list[Statement]:
    """What a reader might take for said, and is not."""
    return _merged(records, _does_not_say)


def _merged(records: Sequence[Run], make: Callable[[Run], list[Statement]]) -> list[Statement]:
    """Each statement once, points of one kind together, with the names of its runs unless it holds for all."""
    found: dict[Statement, list[str]] = {}
    for record in records:
        for statement in make(record):
            found.setdefault(statement, []).append(record.name)
    leads = list(dict.fromkeys(statement.lead for statement in found))
    return [
        statement._replace(runs=() if len(names) == len(records) else tuple(names))
        for statement, names in sorted(found.items(), key=lambda item: leads.index(item[0].lead))
    ]


def _says(record: Run) -> list[Statement]:
    risk = _risk(record)
    if record.kind == "predict":
        label = "Where the run did not abstain, the label shown is the one the smoothed classifier gives most often."
        return [Statement("The likeliest label under noise.", label), risk]
    accuracy = "is the share of inputs whose label is right and proven up to r. An abstention counts as wrong."
    return [_promise(record), Statement("Certified accuracy at r", accuracy), risk, *_exact(record)]


def _promise(record: Run) -> Statement:
    question, noise = asked(record), part(record, "noise")
    near = COUNTED if question.counted else NEAR[record.norm]
    among = (
        f", among inputs that are multiples of 1/{grid(noise)}, as 8-bit images are"
        if noise.get("name") in GRID
        else ""
    )
    if question.frozen:
        text = (
            "Inside a certified region every input gets the region's label from this memory, which no longer changes, "
            f"whatever was asked before: every input {near}{among}."
        )
        return Statement("The memory is a fixed function.", text)
    if question.settled:
        text = (
            "Every later query inside a certified region gets this region's label from this memory: every input "
            f"{near}{among}."
        )
        return Statement("The memory keeps its word.", text)
    if question.own_levels:
        text = (
            "Each input has a noise level of its own, so the smoothed classifier is no fixed function. Without a "
            "memory of regions these radii promise nothing: they only say how far each level would have reached."
        )
        return Statement("Nothing about neighbours.", text)
    text = f"For an input certified at radius R, the smoothed classifier gives the same label to every input {near}"
    return Statement("Nothing nearer changes the label.", f"{text}{among}.")


def _risk(record: Run) -> Statement:
    if asked(record).counted:
        return Statement("Without a risk.", "Every case of the noise was counted: no α, no luck of the draw.")
    alpha = setting(record.settings, "alpha")
    if alpha is None:
        text = "Each statement is wrong with probability at most the α it was made with (a log does not say which)."
        return Statement("With a known risk.", text)
    text = f"Each statement is wrong with probability at most α = {alpha:g}, over the noise that was drawn."
    return Statement("With a known risk.", text)


def _exact(record: Run) -> list[Statement]:
    noise = part(record, "noise")
    if noise.get("name") in TABLE:
        text = "Noisy values come from a fixed table: no rounding can betray an input to the network."
        return [Statement("In exact arithmetic.", text)]
    if noise.get("name") in GRID:
        text = (
            f"Inputs and noise are whole numbers of 1/{grid(noise)}, and so are their sums: no rounding can betray an "
            "input to the network. What the sampler leaves open is paid for in the bound."
        )
        return [Statement("In exact arithmetic.", text)]
    return []


def _does_not_say(record: Run) -> list[Statement]:
    question, noise = asked(record), part(record, "noise")
    certify = record.kind == "certify"
    said: list[Statement | None] = [
        None if question.counted else ALL_AT_ONCE,
        _other_changes(record) if certify else None,
        Statement("Inputs off the grid.", f"Only multiples of 1/{grid(noise)} are covered.")
        if certify and noise.get("name") in GRID
        else None,
        MEMORY if certify and (question.settled or question.frozen) else None,
        _network(record),
        _right(question.against) if certify else None,
        ROUNDING if certify and noise.get("name") not in {*GRID, *TABLE} else None,
        _log(certify) if not record.settings else None,
    ]
    return [statement for statement in said if statement is not None]


ALL_AT_ONCE = Statement(
    "All inputs at once.",
    "α is per input: among many certificates a share of α may be wrong on average. A statement about all N together "
    "needs α/N each.",
)
MEMORY = Statement(
    "A classifier without its memory.",
    "The regions belong to one memory and to the order in which it was filled; another order, or none, may answer "
    "otherwise.",
)
ROUNDING = Statement(
    "Floating point.",
    "The theorem is about real numbers; noise is added in floating point, and a network made to exploit the rounding "
    "could betray it.",
)


def _other_changes(record: Run) -> Statement:
    text = f"Only the {NORMS[record.norm]} norm is covered: not other norms, rotations, blur or new conditions."
    return Statement("Other kinds of change.", text)


def _network(record: Run) -> Statement:
    words = noise_words(record)
    where = f" ({words})" if words else ""
    text = f"It holds for the smoothed classifier only{where}: asked often, under this noise, at this level."
    return Statement("The network alone.", text)


def _right(against: str) -> Statement:
    where = "only the true one was tested here" if against == "labels" else "see the wrong inputs below"
    return Statement("That the label is right.", f"A wrong label can be certified too; {where}.")


def _log(certify: bool) -> Statement:
    rounded = ", and logs of this family round radii to nearest" if certify else ""
    text = f"It was read from a log: no counts came with it, so nothing can be recomputed here{rounded}."
    return Statement("What a log leaves out.", text)
