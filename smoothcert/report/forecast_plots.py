"""Pictures of a forecast for ensembles: what more members bring, and how well the model behind it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report.plots import DASHES, INK, PALETTE, STYLE, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.ensembles.covariances import CovarianceMaps
    from smoothcert.ensembles.forecast import ForecastResult

BINS = np.linspace(-4.0, 4.0, 81)


def save_forecast(found: ForecastResult, out: Path) -> None:
    """The pictures of a forecast: OUT, OUT-fit and OUT-maps, each as .svg and .png."""
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
    save(maps_figure(found.maps), out.with_name(f"{out.stem}-maps{out.suffix}"))


def size_figure(
    sizes: Sequence[int],
    acr: Mapping[int, Sequence[float]],
    certified: Mapping[str, Sequence[float]],
    draws: int,
    measured_sizes: Sequence[int],
    measured_acr: Sequence[float],
    measured_certified: Mapping[str, Sequence[float]],
) -> Figure:
    """ACR by number of draws, and certified accuracy by radius, against the number of members.

    Lines are the forecast; points are measured, with `draws` draws, so they belong to that forecast.
    """
    figure, (left, right) = _panels((9.2, 3.9))
    for i, (n, values) in enumerate(acr.items()):
        style: Any = {"color": PALETTE[i], "linestyle": DASHES[i % len(DASHES)], "linewidth": 1.9}
        left.plot(sizes, values, label=f"forecast, {n} draws", **style)
        if n == draws:
            left.plot(measured_sizes, measured_acr, "o", color=PALETTE[i], label=f"measured, {n} draws")
    for i, (name, values) in enumerate(certified.items()):
        if not any((*values, *measured_certified[name])):
            continue  # beyond what so few draws can show
        right.plot(sizes, values, color=PALETTE[i % len(PALETTE)], linewidth=1.9, label=name)
        right.plot(measured_sizes, measured_certified[name], "o", color=PALETTE[i % len(PALETTE)])
    for axes, up in ((left, "ACR"), (right, f"certified accuracy, {draws} draws")):
        axes.set_xscale("log")
        axes.set_xticks(list(sizes), [str(size) for size in sizes])
        axes.minorticks_off()
        styled(axes, "members", up)
        axes.legend(frameon=False, labelcolor=INK, fontsize=8.5)
    left.set_ylim(bottom=0.0)
    right.set_ylim(0.0, 1.0)
    return figure


def fit_figure(
    noise: Floats,
    clean: Floats,
    members: int,
    covariance: tuple[Floats, Floats],
    p: tuple[Floats, Floats],
    p_size: int,
) -> Figure:
    """Noise part and clean part under the model's curves; covariances and probabilities, modelled against observed."""
    figure, (first, second, third, fourth) = _panels((9.2, 7.2), rows=2)
    _histogram(first, noise, normal(BINS), "noise part, in its deviations")
    _histogram(second, clean, of_few(BINS, members), f"clean part, in deviations over {members} members")
    _diagonal(third, *covariance, "covariance between members: model", "observed")
    _diagonal(fourth, *p, f"P(label), {p_size} members: forecast", "measured")
    return figure


def maps_figure(maps: CovarianceMaps) -> Figure:
    """Covariances as maps (ENS, Figs 10 and 11): of clean and noise part, and of the noise parts of two members."""
    figure, (first, second, third, fourth) = _panels((9.2, 8.0), rows=2)
    for axes, matrix, title in (
        (first, maps.mean.blocks, "clean and noise part, clean part as mean"),
        (second, maps.point.blocks, "clean and noise part, clean part at the point"),
    ):
        _map(axes, matrix, float(np.abs(matrix).max()), title, len(matrix) // 2)
    largest = float(max(np.abs(maps.observed).max(), np.abs(maps.modelled).max()))
    _map(third, maps.observed, largest, "noise parts of two members, observed")
    _map(fourth, maps.modelled, largest, "noise parts of two members, model")
    return figure


def _map(axes: Axes, matrix: Floats, largest: float, title: str, parted: int | None = None) -> None:
    """A matrix in colours from −largest to largest, with lines between its blocks."""
    span = largest or 1.0
    shown = axes.imshow(matrix, cmap="RdBu_r", vmin=-span, vmax=span)
    for at in () if parted is None else (parted - 0.5,):
        axes.axhline(at, color=INK, linewidth=0.8)
        axes.axvline(at, color=INK, linewidth=0.8)
    axes.set_title(title, fontsize=9.5, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    colours = axes.figure.colorbar(shown, ax=axes, shrink=0.85)
    colours.ax.tick_params(labelsize=8)


def normal(at: Floats) -> Floats:
    """The normal density."""
    return np.asarray(np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi))


def of_few(at: Floats, members: int) -> Floats:
    """The density of (value − mean)/sd of one of few normal values, mean and sd taken from themselves (Thompson 1935).

    Of three values none can be further than 1.15 from their mean, in their own standard deviation; of many it is the
    normal density. For two there is none: they are always at ±0.71.
    """
    from scipy.special import beta

    if members < 3:
        return np.full(len(at), np.nan)
    limit, power = (members - 1) / np.sqrt(members), (members - 4) / 2
    inside = 1 - (at / limit) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(inside > 0.0, inside**power, 0.0) / (limit * beta(0.5, (members - 2) / 2))
    return np.asarray(density)


def _histogram(axes: Axes, values: Floats, model: Floats, across: str) -> None:
    axes.hist(values, BINS[::2].tolist(), density=True, color=PALETTE[0], alpha=0.45, label="observed")
    axes.plot(BINS, model, color=INK, linewidth=1.5, label="model")
    styled(axes, across, "density")
    axes.legend(frameon=False, labelcolor=INK, fontsize=8.5)


def _diagonal(axes: Axes, model: Floats, seen: Floats, across: str, up: str) -> None:
    """One dot an input, and the line where both are equal."""
    axes.plot(model, seen, "o", markersize=3, alpha=0.5, color=PALETTE[0], markeredgewidth=0)
    ends = [0.0, max(float(np.max(model)), float(np.max(seen)))]
    axes.plot(ends, ends, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
    styled(axes, across, up)


def _panels(size: tuple[float, float], rows: int = 1) -> tuple[Figure, list[Axes]]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = list(figure.subplots(rows, 2).ravel())
    return figure, panels
