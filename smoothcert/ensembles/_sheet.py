"""A forecast as it is printed: the model, what each size will bring, and how it did where it can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.ensembles._fit import FAR, Fit, distance, fit, standardised_noise
from smoothcert.ensembles._sample import Sample
from smoothcert.ensembles._variance import Parts
from smoothcert.ensembles.forecast import CLEAN, Forecast, Measured, Outlook, Radii

if TYPE_CHECKING:
    from rich.console import RenderableType

    from smoothcert.contracts import Noise

ABOUT_ZETA_C = "zeta_c 0: what members share at an input is part of their mean there, and is shared by those to come"

HEAVY = 0.002  # share below −FAR deviations from which on the model is said to miss the tail


class Sheet(NamedTuple):
    """Everything a forecast found."""

    asked: Forecast
    members: int  # given
    fitted: int  # of these, the first so many were used for the model
    draws: int
    parts: Parts
    fit: Fit
    distances: dict[str, float]  # of the noise part to the normal curve, by the way to see the clean part
    outlooks: list[Outlook]
    measured: list[Measured]
    notes: list[str]

    def gain(self, outlook: Outlook) -> float | None:
        """ACR of a size ÷ that of the size fitted to, less one: what a level is wrong by cancels in it."""
        base = next(other.certify.acr for other in self.outlooks if other.size == self.fitted)
        return outlook.certify.acr / base - 1 if base > 0.0 else None


def sheet(asked: Forecast, sample: Sample, noise: Noise) -> Sheet:
    """Fit, forecast, and hold it against the sample; the sizes at hand are always among those told of."""
    fitted = asked.check_members(sample.members)
    asked = replace(asked, sizes=tuple(sorted({*asked.sizes, fitted, sample.members})))
    parts, own = asked.parts(sample), sample.of(range(fitted))
    fits = fit(own, parts, asked.clean)
    return Sheet(
        asked,
        sample.members,
        fitted,
        sample.draws,
        parts,
        fits,
        {clean: distance(standardised_noise(own, clean)) for clean in CLEAN},
        asked.outlooks(parts, sample.draws, noise),
        asked.measured(sample, noise),
        _notes(sample, fitted, fits),
    )


def _notes(sample: Sample, fitted: int, fits: Fit) -> list[str]:
    notes = [ABOUT_ZETA_C]
    if fits.tail > HEAVY:
        notes.append(
            "heavier lower tail than the model's: large radii are forecast too high, gains are the better guide"
        )
    if fitted < 3:
        notes.append("two members tell little about how members differ: three or more make a better forecast")
    if sample.left_out:
        notes.append(f"only the nearest rivals of each label are looked at; {sample.left_out} classes are left out")
    return notes


def as_json(found: Sheet) -> dict[str, Any]:
    """The forecast as values that JSON can hold."""
    measured = {entry.size: entry for entry in found.measured}
    return {
        "members": found.members,
        "fitted_to": found.fitted,
        "inputs": len(found.parts.centre),
        "draws": found.draws,
        "alpha": found.asked.alpha,
        "clean_part": found.asked.clean,
        "zeta_p": found.parts.zeta_p,
        "zeta_p_quartiles_by_input": list(found.fit.zeta_quartiles),
        "zeta_c": 0.0,
        "noise_part_distance_to_normal": found.distances,
        "noise_part_below_3_deviations": found.fit.tail,
        "sizes": [
            {**_size(outlook, measured.get(outlook.size)), "acr_gain": found.gain(outlook)}
            for outlook in found.outlooks
        ],
        "notes": found.notes,
    }


def _size(outlook: Outlook, measured: Measured | None) -> dict[str, Any]:
    size: dict[str, Any] = {
        "members": outlook.size,
        "p_label": float(outlook.p.mean()),
        "p_label_at_least": float(outlook.p_least.mean()),
        "forecast": _radii(outlook.certify),
        "forecast_with_the_draws_of_the_sample": _radii(outlook.check),
        "measured": None,
    }
    if measured is not None:
        size["measured"] = {
            "ensembles": measured.ensembles,
            "p_label": float(measured.p.mean()),
            "acr_range": list(measured.acr_range),
            **_radii(measured.check),
        }
    return size


def _radii(radii: Radii) -> dict[str, Any]:
    shares = {f"{radius:g}": share for radius, share in radii.certified.items()}
    return {"draws": radii.draws, "acr": radii.acr, "certified_accuracy": shares, "quartiles": list(radii.quartiles)}


def text(found: Sheet) -> RenderableType:
    """The forecast for a terminal."""
    from rich.console import Group
    from rich.text import Text

    inputs, (low, _, high) = len(found.parts.centre), found.fit.zeta_quartiles
    away = ", ".join(f"{value:.3f} around its {clean}" for clean, value in found.distances.items())
    lines = [
        f"model fitted to {found.fitted} of {found.members} members: {inputs} inputs, {found.draws} draws each",
        f"zeta_p {found.parts.zeta_p:.3f}, by input {low:.3f} to {high:.3f} (quartiles)",
        f"noise part: distance to the normal distribution {away}",
        f"noise part below −{FAR:g} deviations: {100 * found.fit.tail:.2f} % (normal: 0.13 %)",
    ]
    parts: list[RenderableType] = [Text("\n".join(lines)), Text(f"\nforecast with {found.asked.n} draws an input")]
    heads = ["members", "P(label)", "at least", "ACR", f"gain over {found.fitted}", *_heads(found)]
    parts.append(_grid(heads, [_row(found, outlook) for outlook in found.outlooks]))
    parts.append(Text(f"\nforecast / measured with the members at hand, {found.draws} draws an input"))
    parts.append(_grid(["members", "ensembles", "P(label)", "ACR", *_heads(found)], _checked(found)))
    return Group(*parts, *(Text(f"note: {note}") for note in found.notes))


def _heads(found: Sheet) -> list[str]:
    return [f"≥ {radius:g}" for radius in found.outlooks[0].certify.certified]


def _row(found: Sheet, outlook: Outlook) -> list[str]:
    gain = found.gain(outlook)
    return [
        str(outlook.size),
        f"{outlook.p.mean():.4f}",
        f"{outlook.p_least.mean():.4f}",
        f"{outlook.certify.acr:.3f}",
        "–" if gain is None else f"{100 * gain:+.1f} %",
        *(f"{100 * share:.1f} %" for share in outlook.certify.certified.values()),
    ]


def _checked(found: Sheet) -> list[list[str]]:
    outlooks, rows = {outlook.size: outlook for outlook in found.outlooks}, []
    for seen in found.measured:
        told = outlooks[seen.size]
        shares = zip(told.check.certified.values(), seen.check.certified.values(), strict=True)
        rows.append(
            [
                str(seen.size),
                str(seen.ensembles),
                f"{told.p.mean():.4f} / {seen.p.mean():.4f}",
                f"{told.check.acr:.3f} / {seen.check.acr:.3f}",
                *(f"{100 * a:.1f} / {100 * b:.1f} %" if a or b else "–" for a, b in shares),
            ]
        )
    return rows


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        grid.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid
