"""`smoothcert ensemble forecast`: what more members will bring, before they are trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _json
from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli._console import console
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.contracts import Classifier
    from smoothcert.data import Inputs
    from smoothcert.ensembles.forecast import ForecastResult
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.ensembles.variance import MarginSample


def command(
    members: Annotated[list[str], typer.Argument(help="Models alike but for their seeds; three or more tell most.")],
    data: o.Data,
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    sizes: Annotated[str, typer.Option(help="Numbers of members to forecast.")] = "1,3,5,10,50",
    fit: Annotated[int | None, typer.Option(help="Fit to the first so many members; the others are a check.")] = None,
    draws: Annotated[int, typer.Option(help="Noisy copies of each input.")] = 200,
    n: Annotated[int, typer.Option("--n", "--N", help="Draws an input of the certification to come.")] = 100_000,
    alpha: o.Alpha = 0.001,
    radii: Annotated[
        str | None, typer.Option(help="Radii to tell of; default: 0, sigma, 2 sigma, 3 sigma; l1: to 3/4 lam.")
    ] = None,
    clean: Annotated[str, typer.Option(help="Clean part of a member: its mean under noise, or at the point.")] = "mean",
    skip: o.Skip = 1,
    max: o.Max = -1,
    start: o.Start = 0,
    split: o.Split = "test",
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    as_json: _json.Option = False,
    out: Annotated[Path | None, typer.Option(help="Pictures: OUT and OUT-fit, each as .svg and .png.")] = None,
    set_: o.NoiseSet = None,
) -> None:
    """Forecast the radii of ensembles of other sizes from a few members, by the variance of their scores.

    smoothcert ensemble forecast models/a models/b models/c --data cifar10 --skip 20 --start 1 --sigma 0.25
    """
    from smoothcert.ensembles.forecast import Forecast
    from smoothcert.ensembles.holdout import HoldoutInputs

    asked = Forecast(_sizes(sizes), n, alpha, p.parse_radii(None, radii) or None, clean, fit, seed)
    asked.check_members(len(members))
    chosen = p.only_noise(noise, sigma, set_, "forecast")
    _check_out(out)
    inputs = o.subset(data, split, skip, max, range, image_size, start).load()
    ready = [_member(spec, inputs, engine, threads) for spec in members]
    found = asked.result(_sample(ready, HoldoutInputs(inputs, chosen, seed), draws), chosen)
    if out is not None:
        _draw(found, out)
    _print(found, as_json)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise OptionError(f"--sizes must be whole numbers with commas between; got '{text}'") from error


def _check_out(out: Path | None) -> None:
    """Refused before anything is drawn, not after."""
    if out is not None and (out.suffix.lower() not in (".svg", ".png") or not out.parent.is_dir()):
        raise OptionError(f"--out must end in .svg or .png, in a folder that exists; got '{out}'")


def _member(spec: str, inputs: Inputs, engine: str, threads: int | None) -> Classifier:
    """A member made ready; where several workers were found best, its one call at a time gets all their threads."""
    from smoothcert.classifiers.onnx import Onnx

    prepared = o.prepare(spec, inputs, engine, threads)
    if isinstance(prepared.classifier, Onnx) and prepared.workers > 1:
        return prepared.classifier.with_threads(prepared.workers * (prepared.classifier.threads or 1))
    return prepared.classifier


def _sample(members: list[Classifier], holdout: HoldoutInputs, draws: int) -> MarginSample:
    from smoothcert.cli._progress import bar
    from smoothcert.ensembles.variance import sample, work

    total, done = work(len(members), len(holdout.inputs), draws), 0
    with bar("forecast", "member evaluations") as update:

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            update(done, total)

        return sample(members, holdout._replace(advance=advance), draws)


def _draw(found: ForecastResult, out: Path) -> None:
    from smoothcert.report.forecast_plots import fit_figure, size_figure
    from smoothcert.report.plots import save

    outlooks, measured = found.outlooks, found.measured
    radii = list(outlooks[0].check.certified)
    figure = size_figure(
        [outlook.size for outlook in outlooks],
        {
            found.asked.n: [outlook.certify.acr for outlook in outlooks],
            found.draws: [outlook.check.acr for outlook in outlooks],
        },
        {f"radius {radius:g}": [outlook.check.certified[radius] for outlook in outlooks] for radius in radii},
        found.draws,
        [entry.size for entry in measured],
        [entry.check.acr for entry in measured],
        {f"radius {radius:g}": [entry.check.certified[radius] for entry in measured] for radius in radii},
    )
    save(figure, out)
    held, seen = measured[-1], found.fit
    told = next(outlook for outlook in outlooks if outlook.size == held.size)
    figure = fit_figure(
        seen.noise, seen.clean, seen.members, (seen.modelled, seen.observed), (told.p, held.p), held.size
    )
    save(figure, out.with_name(f"{out.stem}-fit{out.suffix}"))


def _print(found: ForecastResult, as_json: bool) -> None:
    if as_json:
        _json.say(found.as_json())
        return
    console(120).print(found.text())
