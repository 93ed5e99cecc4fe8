"""Two runs held against each other input by input: what the second has more than the first.

Certified accuracies differ by the inputs that only one of the runs has (exact intervals and test); average certified
radii by each input's own difference (resampled inputs): `paired`. Intervals speak about inputs drawn like these. Where
only some inputs are in both runs, these are compared, and it is said. Runs that were asked for different radii are
compared at those that both tested, and not by their averages. Runs that share no input, or that were asked something
else, are refused: their difference would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_uppercase
from typing import Any

import numpy as np

from smoothcert.catalog import describe
from smoothcert.errors import OptionError, RunError
from smoothcert.foreign import one_line
from smoothcert.report import choices, paired, tables
from smoothcert.report.columns import columns
from smoothcert.report.metrics import LEVEL, Interval, Share, default_radii, figures, radius_name
from smoothcert.report.paired import RESAMPLES, Estimate, resampled
from smoothcert.report.section import Table, table_of
from smoothcert.report.tables import decimal, ends, percent, rounded, units
from smoothcert.runs.run import Claim, Run

WIDEST = 12  # characters of a run's name over a column


@dataclass(frozen=True)
class Change:
    """Certified accuracy at a radius, or accuracy of predictions: the first run's, the second's, and who has what."""

    radius: float
    before: Share
    after: Share
    gained: int  # inputs that only the second has
    lost: int  # inputs that only the first has
    level: float = LEVEL  # of the interval
    adjusted: float | None = None  # p after Holm, where several runs are held against the first

    @property
    def value(self) -> float:
        return (self.gained - self.lost) / self.before.of

    @cached_property
    def interval(self) -> Interval:
        return paired.interval(self.gained, self.lost, self.before.of, self.level)

    @cached_property
    def p_value(self) -> float:
        return paired.p_value(self.gained, self.lost)


@dataclass(frozen=True)
class Compared:
    """Everything about two runs."""

    before: Run  # on the inputs that are compared, as the second
    after: Run
    left_out: tuple[int, int]  # inputs that only the first run holds, and only the second
    acr: tuple[float, float] | None  # of the first and the second; None for predictions
    acr_change: Estimate | None
    changes: tuple[Change, ...]  # by rising radius; one, at 0, for predictions
    level: float = LEVEL  # of intervals
    unfinished: tuple[str, ...] = ()  # which of the two is, in words

    def __str__(self) -> str:
        from smoothcert.report.render import plain_text

        return plain_text(table(self))

    @property
    def one_of_several(self) -> bool:
        """Whether intervals and tests are corrected for other comparisons."""
        return self.level > LEVEL

    @property
    def figures(self) -> dict[str, float]:
        """Every difference by its name: a radius or accuracy, and acr."""
        shares = {name_of(self.before, change.radius): change.value for change in self.changes}
        return shares if self.acr_change is None else {**shares, "acr": self.acr_change.value}

    @property
    def differs(self) -> tuple[str, ...]:
        """Settings in which two runs of ours differ, in words; a log has none."""
        one, two = self.before.spec, self.after.spec
        if one is None or two is None:
            return ()
        models = [f"model {one.model_digest[:8]} ≠ {two.model_digest[:8]}"] * (one.model_digest != two.model_digest)
        seeds = [f"seed {one.seed} ≠ {two.seed}"] * (one.seed != two.seed)
        parts = {
            "noise": (one.noise, two.noise),
            "procedure": (one.procedure, two.procedure),
            "sampling": (one.sampling, two.sampling),
            "preparation": (one.preparation, two.preparation),
        }
        return (*models, *seeds, *(words for name, pair in parts.items() for words in _unlike(name, *pair)))


def compare(
    before: Run, after: Run, radii: Sequence[float] | None = None, comparisons: int = 1, averages: bool = True
) -> Compared:
    """The second run against the first, on the inputs that both hold; radii as in `metrics.figures`.

    `comparisons`: as one of so many, whose intervals hold together. Without `averages`, only at radii.
    """
    partly = tuple(f"{run.name} is {words}" for run in (before, after) if (words := tables.unfinished(run)))
    before, after, left_out = on_common_inputs(before, after)
    level = paired.level_of(comparisons)
    certified = before.kind == "certify"
    wanted = (default_radii([before, after]) if radii is None else list(radii)) if certified else [0.0]
    tried = [radius for radius in wanted if before.claim.tried(radius)]
    averages = certified and averages and same_radii((before, after))
    if not same_radii((before, after)):
        tried = tested_radii((before, after), wanted)
    first, second = figures(before, tried), figures(after, tried)
    gains = np.stack([columns(before).reached, columns(after).reached], axis=1)[:, :, None]
    return Compared(
        before,
        after,
        left_out,
        (first.acr, second.acr) if averages and first.acr is not None and second.acr is not None else None,
        resampled(gains, RESAMPLES * min(comparisons, 4)).gain(1, 0, 0, level) if averages else None,
        tuple(_change(before, after, radius, level) for radius in tried),
        level,
        partly,
    )


def same_radii(runs: Sequence[Run]) -> bool:
    """Whether all were asked for the same radii, or all for the largest."""
    return len({run.claim.radii for run in runs}) == 1


def tested_radii(runs: Sequence[Run], wanted: Sequence[float]) -> list[float]:
    """Those that every run tested; RunError where there is none."""
    tested = [radius for radius in wanted if all(run.claim.exact(radius) for run in runs)]
    if not tested:
        asked = ", ".join(f"{run.name}: {_radii(run.claim)}" for run in runs)
        sought = ", ".join(f"{radius:g}" for radius in wanted)
        raise RunError(f"runs to be compared must all have tested one of the radii {sought} (--radii); got {asked}")
    return tested


def on_common_inputs(before: Run, after: Run) -> tuple[Run, Run, tuple[int, int]]:
    """Both runs on the inputs that both hold, and how many others each has; RunError where they do not compare."""
    if empty := [run.name for run in (before, after) if not run.rows]:
        raise RunError(f"run {empty[0]} must hold at least one finished input; got none")
    mine, theirs = ({(row.index, row.label) for row in run.rows} for run in (before, after))
    wanted, got = _question(before, after) or _inputs(before, after, mine, theirs) or ("", "")
    if wanted:
        raise RunError(f"run {after.name} must {wanted} to be compared with {before.name}; got {got}")
    first, second, both = before, after, mine & theirs
    if mine != theirs:
        first, second = (
            replace(run, rows=tuple(row for row in run.rows if (row.index, row.label) in both))
            for run in (before, after)
        )
    return first, second, (len(mine - theirs), len(theirs - mine))


def name_of(run: Run, radius: float) -> str:
    """What a change is called in options, JSON and tables."""
    return radius_name(radius) if run.kind == "certify" else "accuracy"


def too_low(found: Compared, limits: Mapping[str, float]) -> list[str]:
    """Figures of the second run that are further below the first's than allowed, in words."""
    unknown = [name for name in limits if name not in found.figures]
    if unknown:
        known = ", ".join(found.figures)
        raise OptionError(f"--fail-below must name figures of this comparison ({known}); got '{unknown[0]}'")
    low = {name: found.figures[name] for name, least in limits.items() if found.figures[name] < least}
    return [
        f"{label(name)} changed by {'+' * (value > 0)}{rounded(value)}, allowed is {limits[name]:+g}".replace("-", "−")
        for name, value in low.items()
    ]


def label(name: str, unit: str = "") -> str:
    """A figure's name for a reader."""
    if name in ("acr", "accuracy"):
        return {"acr": "ACR", "accuracy": f"accuracy {unit}".strip()}[name]
    return f"{unit} at {name}" if unit else f"certified accuracy at {name}"


def table(found: Compared, names: tuple[str, str] | None = None) -> Table:
    """A row a figure: both runs, the difference with its interval, and the inputs that make it."""
    first, second = names or shown_names([found.before, found.after])
    rows = [(label(name_of(found.before, change.radius), "%"), _share_cells(change)) for change in found.changes]
    if found.acr is not None and found.acr_change is not None:
        rows.append(("ACR", [*map(decimal, found.acr), *found.acr_change.told(), "", "", ""]))
    tests = ["lost", "gained", "p (Holm)" if found.one_of_several else "p"]
    heads = [first, second, "difference", f"{100 * found.level:.4g} % interval", *tests]
    return table_of("figure", heads, rows, *_notes(found, first, second), *_chosen(found))


def shown_names(runs: Sequence[Run]) -> list[str]:
    """The runs over their columns; letters where their names would be too wide."""
    names = [one_line(run.name) for run in runs]
    return names if max(map(len, names)) <= WIDEST else [letter(i) for i in range(len(names))]


def letter(number: int) -> str:
    """A, B, …; Z is followed by R27."""
    return ascii_uppercase[number] if number < len(ascii_uppercase) else f"R{number + 1}"


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
            "p_value": change.p_value, **({} if change.adjusted is None else {"p_adjusted": change.adjusted}),
        }
        for change in found.changes
    }  # fmt: skip
    return {
        "first": found.before.name,
        "second": found.after.name,
        "kind": found.before.kind,
        "norm": found.before.claim.norm,
        "inputs": len(found.before.rows),
        **({"left_out": list(found.left_out)} if any(found.left_out) else {}),
        "acr": acr,
        **({"certified_accuracy": shares} if found.before.kind == "certify" else shares),
        "intervals": {"level": found.level, "shares": "exact, unconditional", "acr": "paired bootstrap"},
        "differs": list(found.differs),
        "notes": [*found.unfinished, *_claims(found), *_chosen(found)],
    }


def _change(before: Run, after: Run, radius: float, level: float) -> Change:
    ours, theirs = (known.correct & (known.radius >= radius) for known in (columns(after), columns(before)))
    first, second = (Share(int(have.sum()), len(have)) for have in (theirs, ours))
    return Change(radius, first, second, int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), level)


def _question(before: Run, after: Run) -> tuple[str, str] | None:
    """What the second run should have been asked, and what it was; None where both were asked the same."""
    if after.kind != before.kind:
        return f"hold {before.kind} results", after.kind
    if after.kind == "predict":
        return None
    first, second = before.claim, after.claim
    if "unstated" in (first.norm, second.norm):
        silent = " and ".join(run.name for run in (before, after) if run.claim.norm == "unstated")
        return "have radii in a stated norm", f"no norm in {silent} (give it, as in --norm l2)"
    if first.ruler != second.ruler:
        return f"have radii in {first.ruler}", second.ruler
    if (first.test_class == "labels") != (second.test_class == "labels"):
        return f"test {_tested(first)}", _tested(second)
    if _promises(first) != _promises(second):
        return f"give {_promises(first)}", _promises(second)
    return None


def _inputs(
    before: Run, after: Run, mine: set[tuple[int, int]], theirs: set[tuple[int, int]]
) -> tuple[str, str] | None:
    """The same for the inputs; of a log only indices and labels are known."""
    both = {index for index, _ in mine} & {index for index, _ in theirs}
    if len(mine & theirs) < max(1, len(both)):
        got = f"{len(theirs)} inputs, {len(mine & theirs)} of {len(both)} shared indices with the same label"
        return "be on the same inputs", got
    one, two = before.spec, after.spec
    if one is None or two is None or one.data_digest == two.data_digest:
        return None
    here, there = (replace(spec.data, skip=1, max=-1, start=0) for spec in (one, two))
    if here != there:
        return "be on the same data", f"{there.spec} ({there.split}), not {here.spec} ({here.split})"
    if one.data == two.data or mine == theirs:
        return "be on the same data", "other values for the same indices (hashes differ)"
    return None


def _radii(claim: Claim) -> str:
    if claim.radii is None:
        return "the largest radius"
    return f"{'radius' if len(claim.radii) == 1 else 'radii'} {', '.join(f'{r:g}' for r in claim.radii)}"


def _tested(claim: Claim) -> str:
    return "true labels" if claim.test_class == "labels" else "the class of its draws"


def _promises(claim: Claim) -> str:
    none = claim.guarantee == "none"
    return "radii at each input's own noise level without a memory" if none else "certificates"


def _unlike(name: str, first: Any, second: Any) -> Iterator[str]:
    """Options of two parts that differ."""
    one, two = ({} if part is None else describe(part) for part in (first, second))
    unlike = [key for key in {**one, **two} if one.get(key) != two.get(key)]
    yield from (f"{name} {key} {one.get(key, 'none')} ≠ {two.get(key, 'none')}" for key in unlike)


def _share_cells(change: Change) -> list[str]:
    told = paired.difference(change.value, 2), ends(change.interval, 2)
    p = change.p_value if change.adjusted is None else change.adjusted
    counts = str(change.lost), str(change.gained), f"{p:.2g}"
    return [percent(change.before), percent(change.after), *told, *counts]


def _notes(found: Compared, first: str, second: str) -> Iterator[str]:
    if first != one_line(found.before.name):
        yield f"{first} is {found.before.name}, {second} is {found.after.name}"
    yield from found.unfinished
    if any(found.left_out):
        yield f"only the inputs in both runs are compared; left out: {found.left_out[0]:,} that only {first} has, " \
              f"{found.left_out[1]:,} that only {second} has" + _unchecked(found)  # fmt: skip
    certified = found.before.kind == "certify"
    yield (
        f"difference: {second} − {first} on the same {len(found.before.rows):,} inputs "
        f"({f'{found.before.claim.norm}, ' if certified else ''}{units([found.before])}), of certified accuracies in "
        f"points; lost: inputs that only {first} has, gained: only {second}"
    )
    averages = ", paired bootstrap for ACR" if found.acr_change is not None else ""
    yield f"intervals: exact for shares{averages}; p: McNemar's exact test; for inputs drawn like these"
    if not same_radii((found.before, found.after)):
        yield "they were asked for different radii: compared at radii that both tested, and not by ACR"
    if found.differs and not any(tried.again for tried in choices.tries([found.before, found.after])):
        yield f"{first} and {second} differ in: {'; '.join(found.differs)}"
    yield from _claims(found)


def _chosen(found: Compared) -> list[str]:
    """What picking the better one is worth; of several, it is said of all of them together."""
    return [] if found.one_of_several else choices.notes([found.before, found.after])


def _claims(found: Compared) -> Iterator[str]:
    """What each run says of its radii; once, where both say it."""
    said = [(run.name, line) for run in (found.before, found.after) for line in run.claim.words]
    shared = {line for _, line in said if sum(line == other for _, other in said) == 2}
    yield from dict.fromkeys(line if line in shared else f"{name}: {line}" for name, line in said)


def _unchecked(found: Compared) -> str:
    """Hashes of different subsets say nothing about the values of what they share."""
    specs = [run.spec for run in (found.before, found.after) if run.spec is not None]
    differ = len({spec.data_digest for spec in specs}) > 1
    return "; that their values are the same follows from the name of the data, not from a hash" if differ else ""
