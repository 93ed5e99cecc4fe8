"""`smoothcert verify`: check a finished or unfinished run with nothing but the run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _json

if TYPE_CHECKING:
    from smoothcert.runs.verify import Findings


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one certificate as JSON.")],
    redraw: Annotated[int, typer.Option(help="Inputs to draw again from their seeds; 0: none.")] = 3,
    seed: Annotated[
        int | None, typer.Option(help="Chooses which inputs are drawn again.  [default: anew each time]")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Where the model is now, if it has moved.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the data is now, if it has moved.")] = None,
    memory: Annotated[str | None, typer.Option(help="Where the memory is now, if it has moved.")] = None,
    as_json: _json.Option = False,
) -> None:
    """Recompute every radius of a run from its counts, and draw some inputs again. Exit 1 if anything is amiss.

    What a memory answered is replayed from the counts and from the regions that it held then, by other code.

    smoothcert verify runs/a
    """
    from smoothcert.classifiers import digest, load, ready
    from smoothcert.classifiers.composite import is_composite
    from smoothcert.cli._progress import bar
    from smoothcert.cli.certificate import check
    from smoothcert.errors import OptionError
    from smoothcert.runs.store import MODEL, read
    from smoothcert.runs.verify import check_files, verify

    if redraw < 0:
        raise OptionError(f"--redraw must be 0 or more; got {redraw}")
    if run.is_file():
        check(run, model, redraw > 0, as_json)
        return
    found = read(run)
    spec = found.asked
    inputs = replace(spec.data, spec=data or spec.data.spec).load()
    own = run / MODEL  # a composition is kept inside its run, and moves with it
    place = model or (str(own) if is_composite(own) else spec.model)
    loaded = load(place)
    problems = check_files(spec, inputs, digest(place).hex)
    with bar(f"verify {run.name}", "draws") as update:
        classifier = ready(loaded, inputs.tensor(0)).classifier
        findings = verify(found, inputs, classifier, redraw, seed, update, memory)
    problems += findings.problems
    if as_json:
        _json.say({"run": str(run), "inputs": spec.inputs, **asdict(findings), "problems": problems})
    else:
        _say(findings, problems, spec.inputs)
    if problems:
        raise typer.Exit(1)


def _say(findings: Findings, problems: list[str], inputs: int) -> None:
    for problem in problems[:20]:
        typer.echo(f"NOT AS RECORDED  {problem}")
    if len(problems) > 20:
        typer.echo(f"… and {len(problems) - 20} more")
    typer.echo(
        f"{findings.rows} of {inputs} inputs recomputed from their counts; {findings.redrawn} drawn again "
        f"({findings.votes} draws, {findings.explained} votes moved within rounding)"
        + (f"; {findings.settled} answers of the memory replayed: " if findings.settled else ": ")
        + ("all as recorded" if not problems else f"{len(problems)} problems")
    )
