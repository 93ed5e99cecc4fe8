"""What a run's certificates say and do not say, in plain words, for every noise and every kind of guarantee.

statistical      wrong with probability at most α, over the noise that was drawn
deterministic    every case of the noise was counted: no α
memory           what a memory of regions answers from now on
none             a noise level of its own for each input, and no memory: nothing about neighbours
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smoothcert.report.tables import NORMS, radius_words
from smoothcert.runs.run import Row, Run
from smoothcert.spec import Spec


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
    "patch": "that differs inside one square of R × R pixels only, wherever it is and whatever it shows: a sticker",
}
COUNTED = {
    "l1": "whose changes, added up over all coordinates (the ℓ₁ norm), come to R or less, inputs being scaled to [0, 1]"
}
SQUARE = "square of R × R pixels"
UNIT = "inputs being scaled to [0, 1]"
ONLY = {"l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞", "unstated": "log's own, unstated"}
ONE_PATCH = (
    "One patch of this size is covered, upright and in one piece: not two of them, not a larger one, not faint changes "
    "all over the image, and not rotations, blur or new conditions."
)


def says(runs: Sequence[Run]) -> list[Statement]:
    """What holds."""
    return _merged(runs, _says)


def does_not_say(runs: Sequence[Run]) -> list[Statement]:
    """What a reader might take for said, and is not."""
    return _merged(runs, _does_not_say)


def in_units(run: Run) -> str:
    """In what a radius is told, after a comma."""
    return UNIT if run.spec is None or run.spec.data.scale is None else run.spec.data.units


def far(run: Run, row: Row) -> str:
    """How far the label of an input holds: within a radius, or against stickers."""
    if run.claim.norm != "patch":
        return f"within {NORMS[run.claim.norm]} radius {radius_words(run, row)}, {in_units(run)}"
    found = sticker(run.asked, row.radius)
    if found is None:
        return "as it is, against no patch at all"
    rows, columns = (side.stop - side.start for side in found)
    return f"against every patch of {rows} × {columns} pixels, wherever it is and whatever it shows"


def sticker(spec: Spec, radius: float) -> tuple[slice, slice] | None:
    """Rows and columns of a patch of this radius in the middle of an image; None where there is none."""
    if spec.noise.patch is None or radius < 1:
        return None
    both = zip(spec.shape[-2:], spec.noise.patch, strict=True)
    sides = [(pixels, min(pixels, int(radius) * size)) for pixels, size in both]
    rows, columns = (slice((pixels - side) // 2, (pixels + side) // 2) for pixels, side in sides)
    return rows, columns


def noise_words(run: Run) -> str:
    """`Gaussian noise, σ = 0.25`; where each input has its own level, from which to which. Empty for a log."""
    if run.spec is None:
        return ""
    levels = [row.sigma for row in run.rows if row.sigma is not None]
    if not levels:
        return run.spec.noise.words
    low, high = f"{min(levels):.3g}", f"{max(levels):.3g}"
    level = f"σ = {low} for every input" if low == high else f"σ chosen for each input, {low} to {high}"
    return f"{run.spec.noise.kind}, {level}"


def _merged(runs: Sequence[Run], make: Callable[[Run], list[Statement]]) -> list[Statement]:
    """Each statement once, points of one kind together, with the names of its runs unless it holds for all."""
    found: dict[Statement, list[str]] = {}
    for run in runs:
        for statement in make(run):
            found.setdefault(statement, []).append(run.name)
    leads = list(dict.fromkeys(statement.lead for statement in found))
    return [
        statement._replace(runs=() if len(names) == len(runs) else tuple(names))
        for statement, names in sorted(found.items(), key=lambda item: leads.index(item[0].lead))
    ]


def _says(run: Run) -> list[Statement]:
    if run.kind == "predict":
        label = "Where the run did not abstain, the label shown is the one the smoothed classifier gives most often."
        return [Statement("The likeliest label under noise.", label), _risk(run)]
    accuracy = "is the share of inputs whose label is right and proven up to r. An abstention counts as wrong."
    return [_promise(run), Statement("Certified accuracy at r", accuracy), _risk(run), *_exact(run)]


def _promise(run: Run) -> Statement:
    claim, grid = run.claim, _grid(run)
    near = NEAR[claim.norm] if claim.guarantee != "deterministic" else COUNTED.get(claim.norm, NEAR[claim.norm])
    near = near.replace(UNIT, in_units(run))
    near = near.replace(SQUARE, f"patch of R times {claim.measure}") if claim.measure else near
    near += "" if grid is None else f", among inputs that are multiples of 1/{grid}, as 8-bit images are"
    if claim.guarantee == "memory" and claim.frozen:
        text = (
            "Inside a certified region every input gets the region's label from this memory, which no longer changes, "
            f"whatever was asked before: every input {near}."
        )
        return Statement("The memory is a fixed function.", text)
    if claim.guarantee == "memory":
        text = "Every later query inside a certified region gets this region's label from this memory: every input"
        return Statement("The memory keeps its word.", f"{text} {near}.")
    if claim.guarantee == "none":
        text = (
            "Each input has a noise level of its own, so the smoothed classifier is no fixed function. Without a "
            "memory of regions these radii promise nothing: they only say how far each level would have reached."
        )
        return Statement("Nothing about neighbours.", text)
    text = f"For an input certified at radius R, the smoothed classifier gives the same label to every input {near}"
    nothing = "No sticker of this size" if claim.norm == "patch" else "Nothing nearer"
    return Statement(f"{nothing} changes the label.", f"{text}.")


def _grid(run: Run) -> int | None:
    return None if run.spec is None else run.spec.noise.grid


def _risk(run: Run) -> Statement:
    if run.claim.guarantee == "deterministic":
        return Statement("Without a risk.", "Every case of the noise was counted: no α, no luck of the draw.")
    at_most = "Each statement is wrong with probability at most"
    if run.claim.alpha is None:
        return Statement("With a known risk.", f"{at_most} the α it was made with (a log does not say which).")
    return Statement("With a known risk.", f"{at_most} α = {run.claim.alpha:g}, over the noise that was drawn.")


def _exact(run: Run) -> list[Statement]:
    if run.spec is not None and run.claim.norm == "patch":
        text = "A copy shows pixels as they are, or hides them: nothing is added, so no rounding can betray an input."
        return [Statement("In exact arithmetic.", text)]
    if run.spec is not None and run.spec.noise.from_table:
        text = "Noisy values come from a fixed table: no rounding can betray an input to the network."
        return [Statement("In exact arithmetic.", text)]
    if (grid := _grid(run)) is not None:
        text = (
            f"Inputs and noise are whole numbers of 1/{grid}, and so are their sums: no rounding can betray an "
            "input to the network. What the sampler leaves open is paid for in the bound."
        )
        return [Statement("In exact arithmetic.", text)]
    return []


def _does_not_say(run: Run) -> list[Statement]:
    certify, grid, words = run.kind == "certify", _grid(run), noise_words(run)
    where = f" ({words})" if words else ""
    alone = f"It holds for the smoothed classifier only{where}: asked often, under this noise, at this level."
    found = [] if run.claim.guarantee == "deterministic" else [ALL_AT_ONCE]
    if certify:
        norm = run.claim.norm
        text = f"Only the {ONLY.get(norm)} norm is covered: not other norms, rotations, blur or new conditions."
        found.append(Statement("Other kinds of change.", ONE_PATCH if norm == "patch" else text))
    if certify and grid is not None:
        found.append(Statement("Inputs off the grid.", f"Only multiples of 1/{grid} are covered."))
    if certify and run.claim.guarantee == "memory":
        found.append(MEMORY)
    found.append(Statement("The network alone.", alone))
    if run.spec is not None and run.spec.model_covers == "source":
        found.append(WEIGHTS)
    if certify:
        tested = (
            "only the true one was tested here" if run.claim.test_class == "labels" else "see the wrong inputs below"
        )
        found.append(Statement("That the label is right.", f"A wrong label can be certified too; {tested}."))
    if certify and (run.spec is None or not run.spec.noise.exact):
        found.append(ROUNDING)
    if run.spec is None:
        rounded = ", and logs of this family round radii to nearest" if certify else ""
        text = f"It was read from a log: no counts came with it, so nothing can be recomputed here{rounded}."
        found.append(Statement("What a log leaves out.", text))
    return found


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
WEIGHTS = Statement(
    "Weights outside the source.",
    "The model is a callable, and only its source was hashed: weights that it loads from elsewhere may have changed "
    "since, and nobody would notice.",
)
ROUNDING = Statement(
    "Floating point.",
    "The theorem is about real numbers; noise is added in floating point, and a network made to exploit the rounding "
    "could betray it.",
)
