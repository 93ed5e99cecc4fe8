"""The forecast of an ensemble's radii, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.ensembles import variance as v
from smoothcert.report.render import laid_out
from smoothcert.report.section import Table, table_of

if TYPE_CHECKING:
    from smoothcert.ensembles.forecast import ForecastResult, SizeForecast


def forecast_text(found: ForecastResult, width: int) -> str:
    """What the model rests on, the forecast by size, and how it did with the members at hand."""
    inputs, (low, _, high) = len(found.parts.centre), found.fit.zeta_quartiles
    away = ", ".join(f"{value:.3f} around its {clean}" for clean, value in found.distances.items())
    parts: list[str | Table] = [
        f"model fitted to {found.fitted} of {found.members} members: {inputs} inputs, {found.draws} draws each",
        f"zeta_p {found.parts.zeta_p:.3f}, by input {low:.3f} to {high:.3f} (quartiles)",
        f"noise part: distance to the normal distribution {away}",
        f"noise part below −{v.FAR:g} deviations: {100 * found.fit.tail:.2f} % (normal: 0.13 %)",
        f"clean part at the point and noise part: correlation up to {found.maps.point.correlation:.3f} (model: 0); "
        f"covariance between members: {100 * found.maps.misfit:.1f} % from the model's",
        "",
        f"forecast with {found.asked.n} draws an input",
        _sizes(found),
        "",
        f"forecast / measured with the members at hand, {found.draws} draws an input",
        _check(found),
        *(f"note: {note}" for note in found.notes),
    ]
    return laid_out(parts, width)


def _sizes(found: ForecastResult) -> Table:
    heads = ["P(label)", "at least", "ACR", f"gain over {found.fitted}", *_heads(found)]
    return table_of("members", heads, [(str(outlook.size), _row(found, outlook)) for outlook in found.outlooks])


def _heads(found: ForecastResult) -> list[str]:
    return [f"≥ {radius:g}" for radius in found.outlooks[0].certify.certified]


def _row(found: ForecastResult, outlook: SizeForecast) -> list[str]:
    gain = found.gain(outlook)
    return [
        f"{outlook.p.mean():.4f}",
        f"{outlook.p_least.mean():.4f}",
        f"{outlook.certify.acr:.3f}",
        "–" if gain is None else f"{100 * gain:+.1f} %",
        *(f"{100 * share:.1f} %" for share in outlook.certify.certified.values()),
    ]


def _check(found: ForecastResult) -> Table:
    outlooks, rows = {outlook.size: outlook for outlook in found.outlooks}, []
    for seen in found.measured:
        told = outlooks[seen.size]
        shares = zip(told.check.certified.values(), seen.check.certified.values(), strict=True)
        cells = [
            str(seen.ensembles),
            f"{told.p.mean():.4f} / {seen.p.mean():.4f}",
            f"{told.check.acr:.3f} / {seen.check.acr:.3f}",
            *(f"{100 * a:.1f} / {100 * b:.1f} %" if a or b else "–" for a, b in shares),
        ]
        rows.append((str(seen.size), cells))
    return table_of("members", ["ensembles", "P(label)", "ACR", *_heads(found)], rows)
