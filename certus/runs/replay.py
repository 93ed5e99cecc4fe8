"""A procedure run on the answers that a row has kept, instead of on a network."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from certus.contracts import Answer, Certificate, Draw, Source
from certus.errors import RunError
from certus.runs.rows import Row


class Asked(NamedTuple):
    """What the procedure asked, and what the row says it was answered."""

    draw: Draw
    answer: Answer


def replay(row: Row, procedure: Any, source: Source, dim: int) -> tuple[Certificate, list[Asked]]:
    """The certificate that the stored answers give; RunError where they are not those that the procedure asks for."""
    answers, asked = [answer for answer in row.answers if answer.purpose != "clean"], list[Asked]()
    steps = procedure(source, dim, row.label)
    draw: Draw = next(steps)
    for answer in answers:
        if (draw.purpose, draw.draws) != (answer.purpose, answer.draws):
            raise RunError(f"{answer.draws} {answer.purpose} draws are stored where {draw.draws} {draw.purpose} belong")
        asked.append(Asked(draw, answer))
        try:
            draw = steps.send(np.array(answer.counts, dtype=np.int64))
        except StopIteration as end:
            return end.value, asked
    raise RunError(f"answers end where {draw.draws} {draw.purpose} draws should follow")
