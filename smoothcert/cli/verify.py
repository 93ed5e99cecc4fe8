"""`smoothcert verify`: check a finished or unfinished run with nothing but the run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _json

if TYPE_CHECKING:
    from smoothcert.runs.verify import Findings


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one certificate as JSON.")],
    redraw: Annotated[int, typer.Option(help="Inputs to draw again from their seeds; 0: none.")] = 3,
    seed: Annotated[int, typer.Option(help="Chooses which inputs are drawn again.")] = 0,
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
    from smoothcert.classifiers.bundle import is_bundle
    from smoothcert.cli._progress import bar
    from smoothcert.cli.certificate import check
    from smoothcert.data import load as load_data
    from smoothcert.errors import OptionError
    from smoothcert.recipe import Recipe
    from smoothcert.runs.store import MODEL
    from smoothcert.runs.verify import check_files, verify

    if redraw < 0:
        raise OptionError(f"--redraw must be 0 or more; got {redraw}")
    if run.is_file():
        check(run, model, redraw > 0, as_json)
        return
    question = Recipe.read(run / "recipe.toml").question
    place, subset = data or question.data, (question.split, question.skip, question.max)
    inputs = load_data(place, *subset, question.value_range, question.image_size, question.start)
    own = run / MODEL  # a composition is kept inside its run, and moves with it
    spec = model or (str(own) if is_bundle(own) else question.model)
    loaded = load(spec)
    problems = check_files(question, inputs, digest(spec).hex)
    with bar(f"verify {run.name}", "draws") as update:
        classifier = ready(loaded, inputs.tensor(0)).classifier
        findings = verify(run, inputs, classifier, redraw, seed, update, memory)
    problems += findings.problems
    if as_json:
        _json.say({"run": str(run), "inputs": question.inputs, **asdict(findings), "problems": problems})
    else:
        _say(findings, problems, question.inputs)
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
