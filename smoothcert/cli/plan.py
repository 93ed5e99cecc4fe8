"""`smoothcert plan`: what a certification will cost, before any draw is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import Json, console, print_json
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.contracts import Noise
    from smoothcert.plan.like import Rate
    from smoothcert.plan.sheet import Sheet
    from smoothcert.runs.run import Run


def command(
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the noise; default: --like's.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="gaussian, uniform, splitting, discrete, …; default: --like's, or gaussian.")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Radius to certify; none: the largest.")] = None,
    radii: Annotated[str | None, typer.Option(help="Radii to certify, smallest first, as in 0.25,0.5.")] = None,
    alpha: o.Alpha = 0.001,
    beta: Annotated[float, typer.Option(help="Probability to give up on an input at the limit.")] = 0.001,
    cap: Annotated[int, typer.Option(help="The most draws one input may take, when a radius is given.")] = 120_000,
    n: Annotated[int, typer.Option("--n", "--N", help="Draws of fixed n.")] = 100_000,
    n0: Annotated[int, typer.Option("--n0", "--N0", help="Draws that choose the class.")] = 100,
    like: Annotated[Path | None, typer.Option(help="Run or log whose inputs the new ones will be like.")] = None,
    like_n: Annotated[int, typer.Option(help="Draws behind each radius of a log.")] = 100_000,
    like_alpha: Annotated[float, typer.Option(help="Alpha behind the radii of a log; locuslab's fit 0.01.")] = 0.01,
    rate: Annotated[float | None, typer.Option(help="Draws a second; default: measured, or as --like was.")] = None,
    inputs: Annotated[int | None, typer.Option(help="How many inputs; default: as many as --like has.")] = None,
    as_json: Json = False,
    set_: o.NoiseSet = None,
) -> None:
    """What each scheme will draw, and what that can prove, before anything is spent.

    smoothcert plan --sigma 0.25 --radius 0.5 --like runs/a
    """
    asked = o.parse_radii(radius, radii)
    _check(n0, like_n, like_alpha, rate, inputs)

    from smoothcert.plan.like import recovered
    from smoothcert.plan.sheet import Request
    from smoothcert.runs.exchange import open_run

    record = open_run(like) if like is not None else None
    chosen = _noise(noise, sigma, set_, record)
    p, notes = recovered(record, chosen, like_n, like_alpha) if record is not None else (None, [])
    request = Request(chosen, asked, alpha, beta, cap, n, n0, p)
    # Refused plans are refused before a model is loaded for its speed.
    count = inputs if inputs is not None or p is None else len(p)
    _print(request.sheet(notes, count, lambda: _rate(rate, record, like_n)), as_json)


def _check(n0: int, like_n: int, like_alpha: float, rate: float | None, inputs: int | None) -> None:
    from smoothcert.bounds import check_alpha, check_draws

    check_draws(n0, "n0", "plan")
    check_draws(like_n, "like-n", "plan")
    check_alpha(like_alpha, "plan", "like-alpha")
    if inputs is not None:
        check_draws(inputs, "inputs", "plan")
    if rate is not None and not 0.0 < rate < float("inf"):
        raise OptionError(f"rate of plan must be a positive number of draws a second; got {rate}")


def _noise(name: str | None, sigma: float | None, settings: list[str] | None, record: Run | None) -> Noise:
    """The noise of the plan; a run's probabilities are those under its own noise and no other."""
    from smoothcert.catalog import rebuild as build

    part = record.settings.get("question", {}).get("noise") if record is not None else None
    if name is None and sigma is None and not settings:
        if part is None:
            raise OptionError("--sigma must be given, unless --like is a run of smoothcert; got neither")
        kept: Noise = build("noise", part)
        return kept
    found = o.only_noise(name or (part["name"] if part else "gaussian"), sigma, settings, "plan")
    if record is not None and part is not None and found != (kept := build("noise", part)):
        raise OptionError(f"noise of plan must be that of {record.name}, {o.say_noise(kept)}; got {o.say_noise(found)}")
    return found


def _rate(rate: float | None, record: Run | None, n: int) -> Rate | None:
    """Given, else measured here with the run's model, else as the record says."""
    from smoothcert.plan.like import Rate, measured_rate, recorded_rate

    if rate is not None:
        return Rate(rate, "given by --rate")
    return None if record is None else measured_rate(record) or recorded_rate(record, n)


def _print(sheet: Sheet, as_json: bool) -> None:
    from smoothcert.plan import sheet as layout

    if as_json:
        print_json(layout.as_json(sheet))
        return
    console(120).print(layout.text(sheet))
