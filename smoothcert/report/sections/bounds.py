"""How sure the smoothed classifier is: the distribution over inputs of the bound on its leading class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from smoothcert.report.metrics import lows
from smoothcert.report.plots import low_figure
from smoothcert.report.section import Figure, Section
from smoothcert.runs.run import Run

PLACE = 50  # among the sections
ALT = "Cumulative distribution over inputs of the lower bound on the probability of the top class."
CAPTION = (
    "Distribution over inputs of the lower confidence bound on the probability of the top class. Unlike the average "
    "radius, it does not reward a few easy inputs. Left of one half nothing can be certified from this bound alone"
)


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """None where no run keeps its bounds."""
    if all(lows(run) is None for run in runs):
        return None
    figure = Figure(partial(low_figure, runs), ALT, CAPTION)
    return Section("bounds", "How sure the smoothed classifier is", figures=(figure,), brief=())
