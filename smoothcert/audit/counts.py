"""Do stored counts give the stored radii, and the recorded seeds the stored counts? What `smoothcert verify` asks."""

from __future__ import annotations

from collections.abc import Callable

from smoothcert.audit._check import Check
from smoothcert.contracts import Classifier
from smoothcert.data import Inputs
from smoothcert.runs.run import Run
from smoothcert.runs.verify import verify


def counts(
    run: Run,
    inputs: Inputs,
    classifier: Classifier,
    redraw: int,
    seed: int,
    advance: Callable[[int, int], None],
    memory: str | None = None,
) -> Check:
    """Every row recomputed from its counts, some rows drawn again, and what a memory answered replayed."""
    found = verify(run, inputs, classifier, redraw, seed, advance, memory)
    again = f"; {found.redrawn} inputs drawn again, {found.votes} votes" if found.redrawn else ""
    settled = f"; {found.settled} answers of a memory replayed" if found.settled else ""
    tried = f"{found.rows} radii recomputed from stored counts{again}{settled}"
    return Check("counts", found.rows + found.redrawn + found.settled, tried, tuple(found.problems))
