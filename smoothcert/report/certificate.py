"""One input's certificate for people: a few lines, JSON with its meaning in words, or a page of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smoothcert.contracts import ABSTAIN, Certificate
from smoothcert.report.inputs import votes, votes_in
from smoothcert.report.meaning import Statement, does_not_say, far, noise_words, says
from smoothcert.report.render import beside, fill
from smoothcert.report.tables import NORMS, class_name, outcome, radius_words, rounded
from smoothcert.runs.certificate import Document
from smoothcert.runs.run import UNCOUNTED, Row, Run

if TYPE_CHECKING:
    from smoothcert.report.inputs import Album

OF_RUNS = ("Certified accuracy at r", "That the label is right.")  # statements about many inputs
LEADERS = 4  # classes whose votes are told


def headline(made: Document) -> str:
    """The claim in one sentence."""
    record, row = made.run, made.row
    where = _whose(record, row)
    if row.predicted == ABSTAIN:
        return f"No label is certified for {where}: its draws do not tell the leading class from the others."
    label = class_name(record, row.predicted)
    if made.guarantee != "none":
        how = "certified" if row.settled is None else "promised by a memory"
        return f"Label {label} is {how} for {where} {far(record, row)}."
    if record.asked.preparation is not None:
        reach = f"{NORMS[record.claim.norm]} radius {radius_words(record, row)}"
        return f"Nothing is certified for {where}; at its own noise level, {label} would have reached {reach}."
    return f"Label {label} is the answer for {where}, with no radius around it: a network without noise gave it."


def _whose(record: Run, row: Row) -> str:
    """The input in words: by its place in the data, or the one that a service was sent."""
    if record.asked.served is not None:
        return "the input that was sent"
    return f"input {row.index} of {record.asked.data.name} ({record.asked.data.split})"


def _truth(record: Run, row: Row) -> str:
    if record.asked.served is not None:
        return "nobody has said which label is right"
    return f"the data says {class_name(record, row.label)}"


def meaning(made: Document) -> tuple[list[Statement], list[Statement]]:
    """What this certificate says, and what it does not."""
    record, row = made.run, made.row
    held = made.guarantee != "none" or record.asked.preparation is not None
    said = [one for one in says([record]) if one.lead not in OF_RUNS] if held and row.predicted != ABSTAIN else []
    silent = [one for one in does_not_say([record]) if one.lead not in OF_RUNS]
    told = _truth(record, row)
    truth = f"A wrong label can be certified too. {told[0].upper()}{told[1:]}."
    return said, [Statement("That the label is right.", truth), *silent]


def facts(made: Document) -> Iterator[tuple[str, str]]:
    """What the claim rests on, by name."""
    record, row, proven = made.run, made.row, made.proven
    ended = outcome(row) if record.asked.served is None else "abstained" if row.predicted == ABSTAIN else "answered"
    yield "outcome", f"{ended}; {_truth(record, row)}"
    for number, part in enumerate(proven.parts, start=1):
        yield f"part {number}", f"label {part.label}, radius {rounded(part.radius)}, {_bound(part)}"
    if not proven.parts and record.claim.radii is None:
        yield "bound", f"{class_name(record, proven.evidence.label)}: {_bound(proven)}"
    if proven.alpha > 0.0:
        yield "alpha", f"{proven.alpha:g}: the probability that this statement is wrong"
    yield "noise", noise_words(record) if row.sigma is None else f"{noise_words(record)}; here σ = {row.sigma:g}"
    for purpose, draws, counts in row.answers:
        if purpose in UNCOUNTED:
            yield f"{purpose}, no noise", f"class {class_name(record, counts[0].index(1))}"
        else:
            yield f"{purpose} draws", f"{draws:,}: {_leaders(record, votes_in(record, counts))}"
    if row.settled is not None:
        alone = class_name(record, row.settled.predicted)
        yield "memory", f"answered here; smoothing alone said {alone}, radius {rounded(row.settled.radius)}"
    spec = record.asked
    of = "" if spec.model_covers == "weights" else ", of its source only: its weights may be others now"
    yield "seed", str(spec.seed) if spec.revealed else "follows from a secret that is not told yet"
    if spec.served is not None:
        yield "commitment", f"{spec.served.commitment}, of the secret; request {spec.served.request}"
    yield "model", f"{spec.model}, sha256 {spec.model_digest}{of}"
    yield "input", f"shape {list(spec.shape)}, sha256 {made.digest}"


def with_words(made: Document) -> dict[str, Any]:
    """The document with its meaning; a check makes both again."""
    table = made.tables()
    said, silent = meaning(made)
    words = {
        "claim": headline(made),
        "says": [f"{one.lead} {one.text}" for one in said],
        "does_not_say": [f"{one.lead} {one.text}" for one in silent],
    }
    return {"format": table["format"], "words": words, **table}


def text(made: Document) -> str:
    """For a terminal."""
    told = dict(facts(made))
    wide = max(map(len, told))
    said, silent = meaning(made)
    return "\n".join(
        [
            headline(made),
            *(f"  {name.ljust(wide)}  {words}" for name, words in told.items()),
            *(f"it says: {one.lead} {one.text}" for one in said),
            *(f"it does not say: {one.lead} {one.text}" for one in silent),
        ]
    )


def page(made: Document, pictures: Album | None) -> str:
    """A page that needs nothing but itself."""
    record, row, table = made.run, made.row, made.tables()
    said, silent = meaning(made)
    return fill(
        "certificate.html.jinja",
        style=beside("page.css"),
        title=_whose(record, row).removesuffix(f" ({record.asked.data.split})"),
        headline=headline(made),
        row=row,
        outcome=outcome(row) if record.asked.served is None else None,
        label=class_name(record, row.label),
        picture=pictures.original(row) if pictures else None,
        noisy=pictures.noisy(row) if pictures else None,
        stuck=pictures.stuck(row) if pictures else None,
        side=pictures.shown if pictures else 0,
        bars=votes(record, row),
        says=said,
        does_not_say=silent,
        facts=list(facts(made)),
        settings=[(name, list(_flat(table[name]))) for name in ("question", "means")],
    )


def _bound(part: Certificate) -> str:
    return f"probability {rounded(part.evidence.low, decimals=6)} at least"


def _leaders(record: Run, counts: Sequence[int]) -> str:
    order = sorted(range(len(counts)), key=lambda label: (-counts[label], label))[:LEADERS]
    return ", ".join(f"{counts[label]:,} for {class_name(record, label)}" for label in order if counts[label])


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} ")
        elif value is not None:
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield f"{above}{name}", shown
