"""One input's certificate as a document that stands alone: with the model it can be checked, and with nothing else.

    answer        what is claimed: label, radius, norm, alpha, kind of guarantee
    input         index, label, shape and hash of the input, and its values: float32, little-endian, zlib, base64
    certificate   what smoothing proved, with its evidence, in all its parts
    answers       every draw it rests on: purpose, number, counts
    question      what was asked: hashes of model and data, noise, procedure, sampling, seed
    means         how it was carried out; the check does not need it
    memory        where a memory of regions answered: what it went by. The check is of smoothing, not of the memory

A check goes the way of `runs.verify`: counts are replayed through the procedure, and every draw is drawn again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smoothcert.classifiers.bundle import is_bundle, outline
from smoothcert.contracts import Certificate, Classifier, Source
from smoothcert.data import Inputs
from smoothcert.errors import RunError
from smoothcert.recipe import Question, build, build_procedure
from smoothcert.runs.document import FORMAT, Document, packed
from smoothcert.runs.replay import replay
from smoothcert.runs.rows import Record, Row
from smoothcert.runs.store import MODEL, read
from smoothcert.runs.verify import Findings, draw_again, recompute, source_of


def document(folder: Path, index: int, inputs: Inputs, values: bool = True) -> tuple[dict[str, Any], Record, Row]:
    """The certificate of one input of a run, with the record and row it was made of."""
    record = read(folder)
    row = _row(record, index)
    question = Question(**record.settings["question"])
    if inputs.digest != question.data_digest:
        raise RunError(f"data {question.data} must be what run {record.name} certified; its hash differs")
    x = inputs.tensor(inputs.indices.tolist().index(index))
    proven = _replayed(folder, row.smoothed, question, x.numel())
    memory = None if row.settled is None else {**row.settled._asdict(), "of": record.settings.get("memory")}
    kind = "none" if question.preparation and row.settled is None else proven.guarantee
    answer = {
        "label": row.predicted, "radius": row.radius, "norm": proven.norm, "alpha": proven.alpha,
        "guarantee": kind if row.settled is None else "memory",
    }  # fmt: skip
    made = {
        "format": FORMAT,
        "answer": answer,
        "input": packed(row, x, values),
        "certificate": dataclasses.asdict(proven),
        "answers": [answer._asdict() for answer in row.answers],
        **{name: found for name, found in (("sigma", row.sigma), ("memory", memory)) if found is not None},
        "question": record.settings["question"],
        "means": record.settings["means"],
    }
    return made, record, row


def check(
    found: Document,
    classifier: Classifier,
    model_digest: str,
    again: bool = True,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """The certificate recomputed from its counts and, with its input, drawn again; findings instead of exceptions."""
    question, row, findings = found.question, found.row, Findings(rows=1)
    noise, procedure = build("noise", question.noise), build_procedure(question)
    source = source_of(row, Source(classifier, noise))
    findings.problems += _stated(found)
    if model_digest != question.model_digest:
        findings.problems.append("the model is not the one that was certified (its hash differs)")
    findings.problems += recompute(row, procedure, source, math.prod(found.shape))
    if again and found.x is not None:
        total = row.draws or 0
        draw_again(row, found.x, procedure, source, question.seed, findings, lambda: advance(findings.votes, total))
    return findings


def _stated(found: Document) -> list[str]:
    """Whether the claim at the top is the one that is proven below; a memory's own claim is not."""
    pairs = {"label": found.row.predicted, "radius": found.row.radius, **found.stated}
    if found.memory:
        return []
    return [
        f"the answer says {name} {found.answer.get(name)!r}; its certificate says {value!r}"
        for name, value in pairs.items()
        if found.answer.get(name) != value
    ]


def _row(record: Record, index: int) -> Row:
    if record.kind != "certify":
        raise RunError(f"run {record.name} must hold certificates; it holds predictions")
    for row in record.rows:
        if row.index == index:
            if not row.answers:
                raise RunError(f"input {index} of run {record.name} must rest on draws; a memory answered without any")
            return row
    known = [str(row.index) for row in record.rows]
    shown = ", ".join(known if len(known) < 8 else [*known[:3], "…", known[-1]])
    raise RunError(f"index of run {record.name} must be one of {shown or 'none: nothing is finished'}; got {index}")


def _replayed(folder: Path, row: Row, question: Question, dim: int) -> Certificate:
    """What the counts prove, without a network."""
    networks: Any = outline(folder / MODEL) if is_bundle(folder / MODEL) else None
    source = source_of(row, Source(networks, build("noise", question.noise)))
    return replay(row, build_procedure(question), source, dim)[0]
