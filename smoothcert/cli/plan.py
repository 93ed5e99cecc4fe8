"""`smoothcert plan`: what a certification will cost, before any draw is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import Json, columns, print_json, put
from smoothcert.cli.report import LogNorm, open_named
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.contracts import Noise
    from smoothcert.plan.like import Rate
    from smoothcert.runs.run import Run


FASTEST = 1e12  # draws a second: no machine is


def command(
    sigma: Annotated[
        float | None,
        panels.noise(help="Set the noise level sigma, for inputs in [0,1].", show_default="that of --like"),
    ] = None,
    noise: Annotated[
        str | None,
        panels.noise(help="Choose the noise, named as for certify.", show_default="that of --like, or gaussian"),
    ] = None,
    radius: Annotated[
        float | None, panels.what(help="Plan to certify this radius.", show_default="the largest")
    ] = None,
    radii: Annotated[
        str | None, panels.what(help="Plan to certify these radii, smallest first, such as 0.25,0.5.")
    ] = None,
    alpha: o.Alpha = 0.001,
    beta: Annotated[float, panels.draws(help="Give up on an input at the limit with this probability.")] = 0.001,
    cap: Annotated[int, panels.draws(help="Allow this many draws per input when a radius is given.")] = 120_000,
    n: Annotated[int, panels.draws("--n", "--N", help="Compare with a fixed number of draws, n.")] = 100_000,
    n0: Annotated[int, panels.draws("--n0", "--N0", help="Select the class to test with this many draws.")] = 100,
    like: Annotated[Path | None, panels.data(help="Expect inputs like those of this run or log.")] = None,
    norm: LogNorm = None,
    like_n: Annotated[int, panels.data(help="Assume this many draws behind each radius of a log.")] = 100_000,
    like_alpha: Annotated[
        float | None, panels.data(help="Assume this significance for a log.", show_default="as the log shows")
    ] = None,
    rate: Annotated[
        float | None,
        panels.means(help="Assume this many draws per second.", show_default="measured, or that of --like"),
    ] = None,
    inputs: Annotated[
        int | None, panels.data(help="Plan for this many inputs.", show_default="as many as --like has")
    ] = None,
    as_json: Json = False,
    set_: o.NoiseSet = None,
) -> None:
    """Forecast what a certification will cost and can prove.

    smoothcert plan --sigma 0.25 --inputs 500 --rate 20000
    smoothcert plan --sigma 0.25 --radius 0.5 --like runs/a
    """
    asked = o.parse_radii(radius, radii)
    _check(like_n, like_alpha, rate, inputs)

    from smoothcert import plan
    from smoothcert.plan.like import recovered

    run = open_named([like], None, norm)[0] if like is not None else None
    chosen, dim = _noise(noise, sigma, set_, run), run.spec.dim if run is not None and run.spec is not None else None
    p, notes = (None, []) if run is None else recovered(run, chosen, dim or plan.ASSUMED_DIM, like_n, like_alpha)
    request = plan.PlanRequest(chosen, asked, alpha, beta, cap, n, n0, dim, p)
    # Refused plans are refused before a model is loaded for its speed.
    count = inputs if inputs is not None or p is None else len(p)
    result = request.result(notes, count, lambda: _rate(rate, run, like_n))
    if as_json:
        print_json(plan.as_json(result))
    else:
        put(plan.text(result, columns() or 120), end="")


def _check(like_n: int, like_alpha: float | None, rate: float | None, inputs: int | None) -> None:
    from smoothcert.bounds import check_alpha, check_draws

    check_draws(like_n, "like-n", "plan")
    if like_alpha is not None:
        check_alpha(like_alpha, "plan", "like-alpha")
    if inputs is not None:
        check_draws(inputs, "inputs", "plan")
    if rate is not None and not 0.0 < rate <= FASTEST:
        raise OptionError(f"rate of plan must be a positive number of draws a second, at most {FASTEST:g}; got {rate}")


def _noise(name: str | None, sigma: float | None, settings: list[str] | None, run: Run | None) -> Noise:
    """The noise of the plan; a run's probabilities are those under its own noise and no other."""
    from smoothcert.catalog import describe

    own = run.spec.noise if run is not None and run.spec is not None else None
    if name is None and sigma is None and not settings:
        if own is None:
            raise OptionError("--sigma must be given, unless --like is a run of smoothcert; got neither")
        return own
    found = o.only_noise(name or (describe(own)["name"] if own else "gaussian"), sigma, settings, "plan")
    if run is not None and own is not None and found != own:
        raise OptionError(f"noise of plan must be that of {run.name}, {o.say_noise(own)}; got {o.say_noise(found)}")
    return found


def _rate(rate: float | None, run: Run | None, n: int) -> Rate | None:
    """Given, else measured here with the run's model, else as the record says."""
    from smoothcert.plan.like import Rate, measured_rate, recorded_rate

    if rate is not None:
        return Rate(rate, "given by --rate")
    return None if run is None else measured_rate(run) or recorded_rate(run, n)
