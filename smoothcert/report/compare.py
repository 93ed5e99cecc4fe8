"""Two runs on the same inputs, held against each other input by input: what the second has more than the first.

Certified accuracies differ by the inputs that only one of the runs has (`_mcnemar`: exact intervals and test); average
certified radii by each input's own difference (`_paired`: resampled inputs). Intervals speak about inputs drawn like
these. Runs on other inputs, or asked something else, are refused: their difference would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smoothcert.errors import OptionError, RunError
from smoothcert.report import _mcnemar
from smoothcert.report._paired import Estimate, resampled
from smoothcert.report.metrics import Interval, Share, default_radii, figures, radius_name
from smoothcert.report.question import Asked, asked, part
from smoothcert.report.tables import signed
from smoothcert.runs.run import Row, Run

TOLD = ("noise", "procedure", "sampling", "preparation")  # parts of a question that may differ, and are then told


@dataclass(frozen=True)
class Change:
    """Certified accuracy at a radius, or accuracy of predictions: the first run's, the second's, and who has what."""

    radius: float
    before: Share
    after: Share
    gained: int  # inputs that only the second has
    lost: int  # inputs that only the first has

    @property
    def value(self) -> float:
        return (self.gained - self.lost) / self.before.of

    @cached_property
    def interval(self) -> Interval:
        return _mcnemar.interval(self.gained, self.lost, self.before.of)

    @cached_property
    def p_value(self) -> float:
        return _mcnemar.p_value(self.gained, self.lost)


@dataclass(frozen=True)
class Compared:
    """Everything about two runs."""

    before: Run
    after: Run
    acr: tuple[float, float] | None  # of the first and the second; None for predictions
    acr_change: Estimate | None
    changes: tuple[Change, ...]  # by rising radius; one, at 0, for predictions
    differs: tuple[str, ...]  # settings that are not the same, in words

    @property
    def figures(self) -> dict[str, float]:
        """Every difference by its name: acr, and a radius or accuracy."""
        shares = {name_of(self.before, change.radius): change.value for change in self.changes}
        return shares if self.acr_change is None else {"acr": self.acr_change.value, **shares}


def compare(before: Run, after: Run, radii: Sequence[float] | None = None) -> Compared:
    """The second run against the first; radii as in `metrics.figures`."""
    refuse(before, after)
    certified = before.kind == "certify"
    wanted = (default_radii([before, after]) if radii is None else list(radii)) if certified else [0.0]
    tried = [radius for radius in wanted if asked(before).tried(radius)]
    first, second = figures(before, tried), figures(after, tried)
    gains = np.array([[[_gain(row)] for row in pair] for pair in zip(before.rows, after.rows, strict=True)])
    return Compared(
        before,
        after,
        (first.acr, second.acr) if first.acr is not None and second.acr is not None else None,
        resampled(gains).gain(1, 0, 0) if certified else None,
        tuple(_change(before, after, radius) for radius in tried),
        tuple(_differs(before, after)),
    )


def refuse(before: Run, after: Run) -> None:
    """RunError where the runs do not compare input by input, and why."""
    wanted, got = _question(before, after) or _inputs(before, after) or ("", "")
    if wanted:
        raise RunError(f"run {after.name} must {wanted} to be compared with {before.name}; got {got}")


def name_of(record: Run, radius: float) -> str:
    """What a change is called in options, JSON and tables."""
    return radius_name(radius) if record.kind == "certify" else "accuracy"


def too_low(found: Compared, limits: Mapping[str, float]) -> list[str]:
    """Figures of the second run that are further below the first's than allowed, in words."""
    unknown = [name for name in limits if name not in found.figures]
    if unknown:
        known = ", ".join(found.figures)
        raise OptionError(f"--fail-below must name figures of this comparison ({known}); got '{unknown[0]}'")
    return [
        f"{label(name)} changed by {signed(found.figures[name])}, allowed is {least:+g}".replace("-", "−")
        for name, least in limits.items()
        if found.figures[name] < least
    ]


def _gain(row: Row) -> float:
    return row.radius if row.correct else 0.0


def _change(before: Run, after: Run, radius: float) -> Change:
    pairs = [
        tuple(row.correct and row.radius >= radius for row in pair)
        for pair in zip(before.rows, after.rows, strict=True)
    ]
    first, second = (Share(sum(pair[i] for pair in pairs), len(pairs)) for i in range(2))
    return Change(radius, first, second, pairs.count((False, True)), pairs.count((True, False)))


def _question(before: Run, after: Run) -> tuple[str, str] | None:
    """What the second run should have been asked, and what it was; None where both were asked the same."""
    if after.kind != before.kind:
        return f"hold {before.kind} results", after.kind
    if after.norm != before.norm:
        return f"have radii in {before.norm}", after.norm
    first, second = asked(before), asked(after)
    if first.radii != second.radii:
        return f"be asked for {_radii(first)}", _radii(second)
    if (first.against == "labels") != (second.against == "labels"):
        return f"test {_tested(first)}", _tested(second)
    if _promises(first) != _promises(second):
        return f"give {_promises(first)}", _promises(second)
    return None


def _inputs(before: Run, after: Run) -> tuple[str, str] | None:
    """The same for the inputs; of a log only indices and labels are known."""
    digests = [record.settings.get("question", {}).get("data_digest") for record in (before, after)]
    mine, theirs = ({(row.index, row.label) for row in record.rows} for record in (before, after))
    if mine != theirs:
        open_ends = [r.name for r in (before, after) if r.inputs is not None and len(r.rows) < r.inputs]
        why = f" ({' and '.join(open_ends)} unfinished)" if open_ends else ""
        same = f"{len(mine & theirs)} of {len(mine)} indices with the same label"
        return "be on the same inputs", f"{len(theirs)} inputs, {same}{why}"
    if None not in digests and digests[0] != digests[1]:
        return "be on the same data", "other values for the same indices (hashes differ)"
    return None


def _radii(question: Asked) -> str:
    if question.radii is None:
        return "the largest radius"
    return f"{'radius' if len(question.radii) == 1 else 'radii'} {', '.join(f'{r:g}' for r in question.radii)}"


def _tested(question: Asked) -> str:
    return "true labels" if question.against == "labels" else "the class of its draws"


def _promises(question: Asked) -> str:
    levels = question.own_levels and not question.settled
    return "radii at each input's own noise level without a memory" if levels else "certificates"


def _differs(before: Run, after: Run) -> Iterator[str]:
    """Settings in which two runs of ours differ; a log has none."""
    if not before.settings or not after.settings:
        return
    models = [record.settings["question"]["model_digest"] for record in (before, after)]
    if models[0] != models[1]:
        yield f"model {models[0][:8]} ≠ {models[1][:8]}"
    for name in TOLD:
        one, two = part(before, name), part(after, name)
        unlike = [key for key in {**one, **two} if one.get(key) != two.get(key)]
        yield from (f"{name} {key} {one.get(key, 'none')} ≠ {two.get(key, 'none')}" for key in unlike)


def label(name: str, unit: str = "") -> str:
    """A figure's name for a reader."""
    if name in ("acr", "accuracy"):
        return {"acr": "ACR", "accuracy": f"accuracy {unit}".strip()}[name]
    return f"{unit} at {name}" if unit else f"certified accuracy at {name}"
