"""A procedure run on the answers that a row has kept, instead of on a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothcert.classifiers.bundle import Bundle, Description, outline
from smoothcert.classifiers.bundle import read as describe
from smoothcert.contracts import Answer, Certificate, Draw, Source
from smoothcert.errors import RunError
from smoothcert.recipe import Recipe, build, build_procedure
from smoothcert.runs.components import MOST
from smoothcert.runs.rows import Row
from smoothcert.runs.store import MODEL, read


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


class Replayed(NamedTuple):
    """A run of a composition: its networks' roles and noises, and each row with its certificate in all its parts."""

    bundle: Bundle
    described: Description
    rows: list[tuple[Row, Certificate]]


def composition(folder: Path, kind: str) -> Replayed:
    """Every row of a run of this kind of composition, from its counts; no network is asked."""
    record, question = read(folder), Recipe.read(folder / "recipe.toml").question
    if question.procedure.get("name") != kind:
        raise RunError(
            f"run {record.name} must be one of smoothcert {kind} certify; got {question.procedure.get('name')}"
        )
    bundle, described = outline(folder / MODEL), describe(folder / MODEL)
    source, procedure = Source(bundle, build("noise", question.noise)), build_procedure(question)
    return Replayed(bundle, described, [(row, replay(row, procedure, source, MOST)[0]) for row in record.rows])
