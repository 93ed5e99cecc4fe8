"""`smoothcert audit`: the sceptic's command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import Json, print_json, say, wrote
from smoothcert.errors import OptionError
from smoothcert.progress import bar

if TYPE_CHECKING:
    from smoothcert.audit import AuditReport
    from smoothcert.runs.run import Run

PICTURED = 4  # attacked inputs in a picture


def command(
    run: o.RunFolder,
    inputs: Annotated[int, panels.what(help="Attack and retest this many certificates; -1 takes all.")] = 100,
    n: Annotated[int, panels.draws("--n", "--N", help="Retest a certificate with this many fresh draws.")] = 1000,
    radii: Annotated[
        str | None, panels.what(help="Also measure accuracy under attack at these radii, r1,r2,….")
    ] = None,
    draws: Annotated[
        int, panels.draws(help="Use this many noisy copies for a gradient, or to answer an attack.")
    ] = 128,
    steps: Annotated[int, panels.what(help="Attack by this many steps of gradient ascent, given gradients.")] = 10,
    redraw: Annotated[int, panels.draws(help="Redraw this many inputs from their seeds.")] = 3,
    error: Annotated[float, panels.draws(help="Accuse an honest run with at most this probability.")] = 0.001,
    seed: Annotated[
        int | None,
        panels.draws(help="Seed the choice of inputs, the directions and the fresh noise.", show_default="random"),
    ] = None,
    model: o.ModelNow = None,
    data: o.DataNow = None,
    memory: o.MemoryNow = None,
    picture: Annotated[
        Path | None, panels.means(help="Draw attacked inputs beside their originals, as .svg and .png.")
    ] = None,
    threads: o.Threads = None,
    as_json: Json = False,
) -> None:
    """Try to prove a run wrong, by attacks and fresh draws.

    It attacks inside the certified radii, tests again, and examines noise, scores and counts. It exits with 1 if the
    run is wrong.

    smoothcert audit runs/a
    smoothcert audit runs/a --radii 0.25,0.5 --draws 128
    smoothcert audit runs/a --picture edge.png
    """
    from smoothcert.audit import AuditPlan, audit
    from smoothcert.runs.store import read
    from smoothcert.runs.verify import Places

    asked = o.parse_radii(None, radii)
    if any(not 0 < radius < float("inf") for radius in asked):
        raise OptionError(f"--radii must be positive numbers; got '{radii}'")
    chosen = {} if seed is None else {"seed": seed}
    kept = 0 if picture is None else PICTURED
    plan = AuditPlan(inputs, n, asked, draws, steps, redraw, error, threads=threads, kept=kept, **chosen)
    opened = read(run)
    _check_picture(opened, picture)
    with bar(f"audit {run.name}", "trials") as update:
        report = audit(opened, plan, Places(model, data, memory), update)
    if as_json:
        print_json(_answer(run, report))
    else:
        say(_as_text(report))
    if picture is not None:
        _draw(opened, report, picture)
    if report.violations:
        raise typer.Exit(1)


def _check_picture(run: Run, picture: Path | None) -> None:
    """Refuse what cannot be drawn before anything is attacked."""
    if picture is not None:
        from smoothcert.report.edge import check_pictures

        o.check_place("--picture", picture)
        check_pictures(run)


def _draw(run: Run, report: AuditReport, picture: Path) -> None:
    from smoothcert.report import plots
    from smoothcert.report.edge import edge_figure

    wrote(*plots.save(edge_figure(run, report.attacked), picture))


def _as_text(report: AuditReport) -> str:
    lines = []
    for check in report.checks:
        lines.append(f"{'held' if check.held else 'VIOLATED':<9} {check.name:<8} {check.tried}")
        lines += [f"    {violation}" for violation in check.violations[:20]]
        if len(check.violations) > 20:
            lines.append(f"    … and {len(check.violations) - 20} more")
        lines += [f"    not more than alpha allows: {excused}" for excused in check.excused]
    for left in report.under_attack:
        under, sure = left.right / left.inputs, left.certified / left.inputs
        lines.append(f"radius {left.radius:g}: accuracy {under:.3f} under attack, {sure:.3f} certified")
    trials = ", ".join(f"{check.name} {check.trials}" for check in report.checks)
    verdict = f"{len(report.violations)} violations" if report.violations else "nothing found"
    chance = f"an honest run is accused with probability at most {report.error:g}"
    lines.append(f"{verdict} (trials: {trials}; seed {report.seed}; {chance})")
    return "\n".join(lines)


def _answer(run: Path, report: AuditReport) -> dict[str, Any]:
    import dataclasses

    return {
        "run": str(run),
        "verdict": "violated" if report.violations else "nothing found",
        "error": report.error,
        "seed": report.seed,
        "checks": [dataclasses.asdict(check) for check in report.checks],
        "under_attack": [left._asdict() for left in report.under_attack],
    }
