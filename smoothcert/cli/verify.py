"""`smoothcert verify`: check a run, or one certificate, with nothing else; `smoothcert certificate`: write one."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import Json, bar, print_json, problems, remark, wrote
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.runs.verify import Findings


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one certificate as JSON.")],
    redraw: Annotated[int, typer.Option(help="Inputs to draw again from their seeds; 0: none.")] = 3,
    seed: Annotated[int | None, typer.Option(help="Chooses the inputs to redraw.  [default: at random]")] = None,
    model: o.ModelNow = None,
    data: o.DataNow = None,
    memory: o.MemoryNow = None,
    as_json: Json = False,
) -> None:
    """Recompute every radius of a run from its counts, and draw some inputs again. Exit 1 if anything is amiss.

    What a memory answered is replayed from the counts and from the regions that it held then, by other code.

    smoothcert verify runs/a
    """
    if redraw < 0:
        raise OptionError(f"--redraw must be 0 or more; got {redraw}")
    if run.is_file():
        findings = _verify_certificate(run, model, redraw > 0, as_json)
    else:
        findings = _verify_run(run, redraw, seed, (model, data, memory), as_json)
    if findings.problems:
        raise typer.Exit(1)


def _verify_run(
    folder: Path, redraw: int, seed: int | None, places: tuple[str | None, str | None, str | None], as_json: bool
) -> Findings:
    from smoothcert.runs.store import read
    from smoothcert.runs.verify import Places, verify_run

    run = read(folder)
    spec = run.asked
    with bar(f"verify {folder.name}", "draws") as update:
        found = verify_run(run, Places(*places), redraw, seed, update)
    if as_json:
        print_json({"run": str(folder), "inputs": spec.inputs, **asdict(found)})
        return found
    remark(spec.uncovered)
    problems(found.problems, "NOT AS RECORDED")
    again = f"{found.votes} draws, {found.explained} votes moved within rounding"
    if found.redrawn:
        begun = f"from {found.redrawn_attempts} of {found.attempts} attempts, " if found.attempts > 1 else ""
        again += f"; {begun}{math.floor(1000 - 1000 * found.redrawn / found.rows) / 10:g} % of rows not drawn again"
    typer.echo(
        f"{found.rows} of {spec.inputs} inputs recomputed from their counts; {found.redrawn} drawn again ({again})"
        + (f"; {found.settled} answers of the memory replayed: " if found.settled else ": ")
        + ("all as recorded" if not found.problems else f"{len(found.problems)} problems")
    )
    return found


def _verify_certificate(path: Path, model: str | None, again: bool, as_json: bool) -> Findings:
    from smoothcert.report.certificate import with_words
    from smoothcert.runs.certificate import read_document, verify_document

    document = read_document(path)
    row = document.row
    with bar(f"verify {path.name}", "draws") as update:
        found = verify_document(document, model, again, update, with_words)
    if as_json:
        print_json({"certificate": str(path), "index": row.index, **document.given["answer"], **asdict(found)})
        return found
    remark(document.run.asked.uncovered)
    problems(found.problems, "NOT AS STATED")
    drawn = f"{found.votes:,} draws drawn again, {found.explained} votes moved within rounding"
    left = "" if found.redrawn or not again else " (the input's values are not in it)"
    memory = "; the memory that answered is not checked here" if row.settled else ""
    typer.echo(
        f"input {row.index}: label {row.predicted}, radius {row.radius}; recomputed from its "
        f"counts, {drawn if found.redrawn else f'nothing drawn again{left}'}{memory}: "
        + ("all as stated" if not found.problems else f"{len(found.problems)} problems")
    )
    return found


def certificate(
    run: o.RunFolder,
    index: Annotated[int, typer.Argument(metavar="INDEX", help="Which input, by its index in the data.")],
    out: Annotated[Path | None, typer.Option(help="Write it here as JSON, which `smoothcert verify` takes.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    as_json: Json = False,
    data: o.DataNow = None,
    without_input: Annotated[bool, typer.Option("--without-input", help="Leave out the input itself.")] = False,
) -> None:
    """One input's certificate with all it rests on: counts, bound, alpha, seed, hashes, and what it says in words.

    smoothcert certificate runs/a 20 --out certificate.json --html certificate.html
    smoothcert verify certificate.json --model models/a
    """
    from smoothcert.files import write_whole
    from smoothcert.report import certificate as words
    from smoothcert.report.inputs import Album
    from smoothcert.runs.certificate import document
    from smoothcert.runs.store import read
    from smoothcert.runs.verify import Places

    found = read(run)
    inputs = Places(data=data).inputs(found.asked)
    made = document(found, index, inputs, values=not without_input)
    remark(found.asked.uncovered)
    parts = words.with_words(made).items()
    lines = (f' "{name}": {json.dumps(part, ensure_ascii=False, allow_nan=False)}' for name, part in parts)
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    pages = {} if out is None else {out: text}
    if html is not None:
        pages[html] = words.page(made, None if without_input else Album.of_input(found.asked, inputs, index))
    for path, content in pages.items():
        write_whole(path, content.encode())
        wrote(path)
    if as_json:
        typer.echo(text, nl=False)
    elif not pages:
        typer.echo(words.text(made))
