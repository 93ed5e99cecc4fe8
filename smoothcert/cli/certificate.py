"""`smoothcert certificate`: one input's certificate, to hand to somebody who has the model and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import _json

if TYPE_CHECKING:
    from smoothcert.data import Inputs
    from smoothcert.report.pictures import Album
    from smoothcert.runs.certificate import ReadDocument
    from smoothcert.runs.verify import Findings
    from smoothcert.spec import Spec


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    index: Annotated[int, typer.Argument(metavar="INDEX", help="Which input, by its index in the data.")],
    out: Annotated[Path | None, typer.Option(help="Write it here as JSON, which `smoothcert verify` takes.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    as_json: _json.Option = False,
    data: Annotated[str | None, typer.Option(help="Where the data is now, if it has moved.")] = None,
    without_input: Annotated[
        bool, typer.Option("--without-input", help="Leave the input's values out: its draws cannot be drawn again.")
    ] = False,
) -> None:
    """One input's certificate with all it rests on: counts, bound, alpha, seed, hashes, and what it says in words.

    smoothcert certificate runs/a 20 --out certificate.json --html certificate.html
    smoothcert verify certificate.json --model models/a
    """
    from smoothcert.files import write_whole
    from smoothcert.report import certificate as words
    from smoothcert.runs.certificate import document
    from smoothcert.runs.store import read

    found = read(run)
    spec = found.asked
    inputs = replace(spec.data, spec=data or spec.data.spec).load()
    made = document(found, index, inputs, values=not without_input)
    text = _lines(words.with_words(made))
    pages = {} if out is None else {out: text}
    if html is not None:
        pages[html] = words.page(made, None if without_input else _album(spec, inputs, index))
    for path, content in pages.items():
        write_whole(path, content.encode())
        typer.echo(f"smoothcert: wrote {path}", err=True)
    if as_json:
        typer.echo(text, nl=False)
    elif not pages:
        typer.echo(words.text(made))


def _lines(made: Mapping[str, Any]) -> str:
    """JSON with a line for each part."""
    import json

    lines = (f' "{name}": {json.dumps(part, ensure_ascii=False, allow_nan=False)}' for name, part in made.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _album(spec: Spec, inputs: Inputs, index: int) -> Album | None:
    """The input as a picture, if it is one."""
    from smoothcert.report.pictures import Album

    if len(inputs.shape) != 3 or inputs.shape[0] not in (1, 3):
        return None
    return Album(inputs, {index: inputs.indices.tolist().index(index)}, spec.noise, spec.seed)


def check(path: Path, model: str | None, again: bool, as_json: bool = False) -> None:
    """`smoothcert verify` of such a document, with the model and nothing else. Exit 1 if anything is amiss."""
    from smoothcert.classifiers import digest, load, ready
    from smoothcert.cli._progress import bar
    from smoothcert.report.certificate import with_words
    from smoothcert.runs import certificate

    found = certificate.read_document(path)
    place = found.run.asked.model if model is None else model
    loaded = load(place)
    with bar(f"verify {path.name}", "draws") as update:
        classifier = loaded if found.x is None else ready(loaded, found.x).classifier
        findings = certificate.check(found, classifier, digest(place).hex, again, update, with_words)
    if as_json:
        _json.say({"certificate": str(path), "index": found.row.index, **found.given["answer"], **asdict(findings)})
    else:
        _say_findings(found, findings, again)
    if findings.problems:
        raise typer.Exit(1)


def _say_findings(found: ReadDocument, findings: Findings, again: bool) -> None:
    for problem in findings.problems:
        typer.echo(f"NOT AS STATED  {problem}")
    drawn = f"{findings.votes:,} draws drawn again, {findings.explained} votes moved within rounding"
    left = "" if findings.redrawn or not again else " (the input's values are not in it)"
    memory = "; the memory that answered is not checked here" if found.row.settled else ""
    typer.echo(
        f"input {found.row.index}: label {found.row.predicted}, radius {found.row.radius}; recomputed from its "
        f"counts, {drawn if findings.redrawn else f'nothing drawn again{left}'}{memory}: "
        + ("all as stated" if not findings.problems else f"{len(findings.problems)} problems")
    )
