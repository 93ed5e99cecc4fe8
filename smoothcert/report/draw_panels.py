"""The pictures about draws as a page holds them: drawn once, with words for who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.report import draw_plots, plots
from smoothcert.report.economy import Economy, rough
from smoothcert.report.scheme import RadiusTest, Scheme


@dataclass(frozen=True)
class Panel:
    """What one scheme does at every p, for one radius."""

    scheme: Scheme
    test: RadiusTest
    runs: tuple[str, ...]
    picture: str

    @property
    def caption(self) -> str:
        """The errors at the worst p beside what they may be."""
        alpha, test = self.scheme.alpha, self.test
        said = (
            f"At p₀ = {test.p0:.6f} it certifies with probability {rough(test.error)}, at most α = {rough(alpha)}; "
            f"it gives up with probability {rough(test.lost)}, at most β = {rough(self.scheme.beta)}."
        )
        if self.scheme.against != "leader":
            return said
        price = 1 - test.level / alpha
        cost = f"{100 * price:.1f} %" if price >= 0.001 else "less than 0.1 %"
        return f"{said} Following whichever class leads takes {cost} of α; the boundaries have the rest."


def histogram(spent: Sequence[Economy]) -> str | None:
    """Draws an input; nothing where every input of every run got the same."""
    shown = [(i, run.name, run.spread) for i, run in enumerate(spent) if run.spread is not None]
    if all(spread.even for _, _, spread in shown):
        return None
    words = "Draws an input. " + "; ".join(
        f"{name}: median {spread.median:,.0f}, mean {spread.mean:,.0f}" for _, name, spread in shown
    )
    return plots.inline_svg(draw_plots.histogram(shown), words, "histogram")


def operating(spent: Sequence[Economy]) -> list[Panel]:
    """What each scheme does at every p; each test once, however many runs made it."""
    tests: dict[tuple[str, float, float], tuple[Scheme, RadiusTest, list[str]]] = {}
    for run in spent:
        if run.scheme is None:
            continue
        for test in run.scheme.tests:
            key = (run.scheme.identity, test.radius, test.level)
            tests.setdefault(key, (run.scheme, test, []))[2].append(run.name)
    return [_panel(i, *item) for i, item in enumerate(tests.values())]


def _panel(number: int, scheme: Scheme, test: RadiusTest, names: Sequence[str]) -> Panel:
    words = f"Probability that {scheme.name} certifies radius {test.radius:g}, gives up or goes on, against p."
    picture = plots.inline_svg(draw_plots.operating(scheme, test), words, f"operating-{number}")
    return Panel(scheme, test, tuple(names), picture)
