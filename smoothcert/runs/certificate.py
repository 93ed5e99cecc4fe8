"""One input's certificate as a document that stands alone: with the model it can be checked, and with nothing else.

    answer        what is claimed: label, radius, norm, alpha, kind of guarantee
    input         index, label, shape and hash of the input, and its values: float32, little-endian, zlib, base64
    certificate   what smoothing proved, with its evidence, in all its parts
    answers       every draw it rests on: purpose, number, counts
    question      what was asked: hashes of model and data, noise, procedure, sampling, seed
    means         how it was carried out; the check does not need it
    memory        where a memory of regions answered: what it went by. The check is of smoothing, not of the memory

A check goes the way of `runs.verify`: counts are replayed through the procedure, and every draw is drawn again. Then
the document is made anew from what was read, and everything in it must come out the same.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert import foreign
from smoothcert.classifiers import ready
from smoothcert.classifiers.composite import kind_of, outline
from smoothcert.contracts import Answer, Certificate, Classifier, Source
from smoothcert.data import Inputs
from smoothcert.errors import RunError, SmoothcertError
from smoothcert.runs.recompute import CLEAN, recompute, replay, source_of
from smoothcert.runs.run import UNCOUNTED, BeforeMemory, MemoryRef, Row, Run, claim_of
from smoothcert.runs.store import MODEL
from smoothcert.runs.verify import (
    UNTOLD,
    Findings,
    Places,
    absent_model,
    certified_model,
    changed_data,
    committed_seed,
    draw_rows,
)
from smoothcert.runs.verify_memory import replay_one
from smoothcert.spec import Means, Spec

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "smoothcert certificate 3"
LARGEST_FILE = 2**30  # bytes
ANSWER = {"label": int, "radius": float}  # of an answer, what a memory decides
LARGEST = 2**26  # values of an input: what a document may ask to be unpacked


@dataclass(frozen=True, eq=False)
class Document:
    """One input of a run: its row, what its counts prove, and the input itself or only its hash."""

    run: Run  # its only row is this one
    proven: Certificate
    digest: str  # of the input's values
    x: Tensor | None  # None where its values are left out

    @property
    def row(self) -> Row:
        return self.run.rows[0]

    @property
    def guarantee(self) -> str:
        """Of the answer: the memory's where it answered, none without a memory at a level of its own."""
        stated = self.row.settled is not None or self.run.claim.guarantee == "none"
        return self.run.guarantee(self.row) if stated else self.proven.guarantee

    def tables(self) -> dict[str, Any]:
        """As JSON holds it."""
        run, row = self.run, self.row
        given = {"index": row.index, "label": row.label, "shape": list(run.asked.shape), "sha256": self.digest}
        if self.x is not None:
            given["values"] = base64.b64encode(zlib.compress(_bytes(self.x), 9)).decode()
        made: dict[str, Any] = {
            "format": FORMAT,
            "answer": {
                "label": row.predicted, "radius": row.radius, "norm": self.proven.norm, "alpha": self.proven.alpha,
                "guarantee": self.guarantee, "test_class": run.claim.test_class,
            },
            "input": given,
            "certificate": dataclasses.asdict(self.proven),
            "answers": [answer._asdict() for answer in row.answers],
            "question": run.asked.tables(),
            "means": run.means.tables() if run.means else {},
        }  # fmt: skip
        if row.sigma is not None:
            made["sigma"] = row.sigma
        if row.settled is not None:
            made["memory"] = {**row.settled._asdict(), "of": run.memory._asdict() if run.memory else None}
        return made


def document(run: Run, index: int, inputs: Inputs, values: bool = True) -> Document:
    """The certificate of one input of a run."""
    row, spec = _row(run, index), run.asked
    if not spec.revealed:
        raise RunError(f"run {run.name} must be complete, and its seed told, before a certificate is cut from it")
    if inputs.digest != spec.data_digest:
        raise RunError(f"data {spec.data.spec} must be what run {run.name} certified; its hash differs")
    x = inputs.tensor(inputs.indices.tolist().index(index))
    own = None if run.folder is None else run.folder / MODEL
    networks: Any = outline(own) if own is not None and kind_of(own) in ("aces", "route") else None
    proven, _ = replay(row.smoothed, spec.procedure, source_of(row, Source(networks, spec.noise)), spec.dim)
    return Document(dataclasses.replace(run, rows=(row,)), proven, _hash(x), x if values else None)


@dataclass(frozen=True)
class GivenInput:
    """What a document says of its input."""

    index: int
    label: int
    shape: tuple[int, ...]
    sha256: str
    values: str | None = None


@dataclass(frozen=True, eq=False)
class ReadDocument:
    """A document as it was read: a run of one input, whose certificate is yet to be proven."""

    run: Run
    digest: str
    x: Tensor | None
    given: Mapping[str, Any]  # all of it but the signature
    signature: Any = None
    left_out: Tensor | None = None  # the input, from the data, where the document itself has its hash only

    @property
    def row(self) -> Row:
        return self.run.rows[0]

    @property
    def known(self) -> Tensor | None:
        """The input, from wherever it is known."""
        return self.left_out if self.x is None else self.x


def verify_document(
    found: ReadDocument,
    places: Places | None = None,
    again: bool = True,
    advance: Callable[[int, int], None] = lambda done, total: None,
    words: Callable[[Document], Mapping[str, Any]] = Document.tables,
    threads: int | None = None,
) -> Findings:
    """`check` with the model loaded, from where it is now if it has moved; and against the data, where they are given.

    A model that is not the certified one is not asked anything.
    """
    places = places or Places()
    inputs = None if places.data is None else places.inputs(found.run)
    if found.x is None and inputs is not None:
        found = dataclasses.replace(found, left_out=_held(found, inputs))
    told = found.run.asked if places.secret is None else found.run.asked.told(places.secret)
    again = again and found.known is not None and told.revealed
    loaded, changed = certified_model(found.run, places) if again else (None, [])
    classifier = absent_model(found.run, places)
    if found.known is not None and loaded is not None:
        classifier = ready(loaded, found.known, threads=threads).classifier
    findings = check(found, classifier, again and loaded is not None, advance, words, loaded, told)
    findings.problems = [*changed, *findings.problems, *_of_memory(found, places.memory)]
    if not again:
        findings.left_open.insert(0, f"nothing was drawn again{_why(told)}: counts that were invented would not show")
    if told.served is not None:
        findings.left_open.append("that the service committed to its secret before it was asked is for you to know")
    elif inputs is None:
        findings.left_open.append("index, label and hash of the data are as somebody wrote them down (--data)")
    else:
        findings.problems += _in_data(found, inputs)
    return findings


def _held(found: ReadDocument, inputs: Inputs) -> Tensor | None:
    """The input that a document leaves out, where the data has it."""
    for place in np.flatnonzero(inputs.indices == found.row.index).tolist():
        if _hash(x := inputs.tensor(place)) == found.digest:
            return x
    return None


def check(
    found: ReadDocument,
    classifier: Classifier,
    again: bool = True,
    advance: Callable[[int, int], None] = lambda done, total: None,
    words: Callable[[Document], Mapping[str, Any]] = Document.tables,
    loaded: Classifier | None = None,
    told: Spec | None = None,
) -> Findings:
    """The certificate recomputed from its counts and, with its input, drawn again; findings instead of exceptions.

    `words` makes the whole document from what is proven; the one that was read must be the same. `told`: its question
    with the seed, where the document itself does not tell it.
    """
    spec, row, findings = found.run.asked, found.row.smoothed, Findings(rows=1, left_open=[UNTOLD])
    source = Source(classifier, spec.noise)
    findings.problems += [*committed_seed(spec), *recompute(row, spec, source)]
    try:
        made = words(proven_document(found, classifier))
        findings.problems += _differences(found.given, json.loads(json.dumps(made)))
    except RunError:
        pass  # said already, where the row was recomputed
    if again and found.known is not None:
        draw_rows([(row, found.known)], told or spec, source, loaded, findings, advance)
    return findings


def _why(spec: Spec) -> str:
    """Why nothing can be drawn again yet."""
    return "" if spec.revealed else " (the seed follows from a secret that its service has not told yet; --secret)"


def _of_memory(found: ReadDocument, memory: str | None) -> list[str]:
    """What a memory answered, from the memory itself."""
    if found.run.memory is None:
        return []
    if memory is None or found.known is None:
        needs = "the memory (--memory)" if memory is None else "the values of its input"
        return [f"a memory answered, so that the answer cannot be checked without {needs}"]
    return replay_one(found.run, found.run.memory, found.known, memory)


def _in_data(found: ReadDocument, inputs: Inputs) -> list[str]:
    """The input and what was asked, held against the data."""
    spec, row, indices = found.run.asked, found.row, inputs.indices.tolist()
    problems = changed_data(spec, inputs)
    if spec.inputs != len(inputs):
        problems.append(f"it says that {spec.inputs} inputs were asked for; the data has {len(inputs)}")
    if row.index not in indices:
        return [*problems, f"input {row.index} is not among those that were asked for"]
    place = indices.index(row.index)
    if int(inputs.labels[place]) != row.label:
        problems.append(f"it says that the data's label is {row.label}; it is {int(inputs.labels[place])}")
    if _hash(inputs.tensor(place)) != found.digest:
        problems.append(f"input {row.index} of the data has other values")
    return problems


def _differences(given: Any, made: Any, where: str = "") -> list[str]:
    """Every place where the document says something else than follows from its own counts and question."""
    if isinstance(given, dict) and isinstance(made, dict):
        keys = dict.fromkeys([*given, *made])
        return [line for key in keys for line in _differences(given.get(key), made.get(key), f"{where} {key}".strip())]
    return [] if given == made else [f"it says {where} {_shown(given)}; from what it holds follows {_shown(made)}"]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def read_document(path: Path) -> ReadDocument:
    """A document from its file; RunError in one line when it is not one."""
    table = foreign.parse_json(foreign.content(path, "certificate", largest=LARGEST_FILE), f"certificate '{path}'")
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise RunError(f"certificate {path} must be a document of {FORMAT!r}; got another one")
    return parse_document(table, path.name, f"certificate {path}")


def parse_document(table: dict[str, Any], name: str, where: str = "the certificate") -> ReadDocument:
    """A document from plain values; RunError in one line when they are not those of one."""
    try:
        return _parsed(table, name)
    except (SmoothcertError, ValueError, LookupError, TypeError, AttributeError, OverflowError, zlib.error) as error:
        raise RunError(f"{where} must be as it was made; it is damaged ({_short(error)})") from error


def proven_document(found: ReadDocument, classifier: Classifier) -> Document:
    """What its counts prove; RunError where they are not those that its question asks for. No network is asked."""
    row, spec = found.row.smoothed, found.run.asked
    proven, _ = replay(row, spec.procedure, source_of(row, Source(classifier, spec.noise)), spec.dim)
    return Document(found.run, proven, found.digest, found.x)


def _parsed(table: dict[str, Any], name: str) -> ReadDocument:
    signature = table.pop("signature", None)
    given, spec = foreign.typed(GivenInput, table["input"], "input"), Spec.parse(table["question"])
    proven: Certificate = foreign.typed(Certificate, table["certificate"], "certificate")
    answers = foreign.typed(tuple[Answer, ...], table["answers"], "answers")
    draws = sum(answer.draws for answer in answers if answer.purpose not in UNCOUNTED)
    looks = [answer.counts[0] for answer in answers if answer.purpose == CLEAN]
    low = proven.evidence.low if proven.evidence.low > 0 else None
    row = Row(
        given.index, given.label, proven.label, proven.radius, draws, None, looks[0].index(1) if looks else None, low,
        answers, foreign.typed(float, table["sigma"], "sigma") if "sigma" in table else None,
    )  # fmt: skip
    memory = None
    if "memory" in table:
        of = dict(foreign.typed(dict[str, Any], table["memory"], "memory"))
        memory = foreign.typed(MemoryRef, of.pop("of"), "memory of")
        label, radius = (foreign.typed(kind, table["answer"][key], key) for key, kind in ANSWER.items())
        before = foreign.typed(BeforeMemory, of, "memory")
        row = dataclasses.replace(row, predicted=label, radius=radius, settled=before)
    run = Run(
        name=name, kind="certify", rows=(row,), claim=claim_of(spec, memory, memory is not None),
        spec=spec, means=Means.parse(table["means"]), memory=memory, inputs=spec.inputs,
    )  # fmt: skip
    x = None if given.values is None else _unpacked(given.values, given.sha256, spec.shape)
    return ReadDocument(run, given.sha256, x, table, signature)


def _unpacked(values: str, digest: str, shape: tuple[int, ...]) -> Tensor:
    """The input, held against its own hash."""
    import torch

    size = math.prod(shape)
    if not 0 < size <= LARGEST:
        raise ValueError(f"an input of shape {list(shape)}")
    raw = zlib.decompressobj().decompress(base64.b64decode(values, validate=True), 4 * size + 1)
    if len(raw) != 4 * size or hashlib.sha256(raw).hexdigest() != digest:
        raise ValueError("the input does not have its hash")
    return torch.from_numpy(np.frombuffer(raw, dtype="<f4").astype(np.float32).reshape(shape))


def _bytes(x: Tensor) -> bytes:
    return np.ascontiguousarray(x.numpy(), dtype="<f4").tobytes()


def _hash(x: Tensor) -> str:
    return hashlib.sha256(_bytes(x)).hexdigest()


def _row(run: Run, index: int) -> Row:
    if run.kind != "certify":
        raise RunError(f"run {run.name} must hold certificates; it holds predictions")
    for row in run.rows:
        if row.index == index:
            if not row.answers:
                raise RunError(f"input {index} of run {run.name} must rest on draws; a memory answered without any")
            return row
    known = [str(row.index) for row in run.rows]
    shown = ", ".join(known if len(known) < 8 else [*known[:3], "…", known[-1]])
    raise RunError(f"index of run {run.name} must be one of {shown or 'none: nothing is finished'}; got {index}")


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())[:120]
