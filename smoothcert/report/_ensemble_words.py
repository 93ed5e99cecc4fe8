"""A comparison of an ensemble with its members in words: cells of tables, and a block for a terminal.

Figures are rounded down, intervals outwards, standard deviations and costs to nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from smoothcert.report.ensemble import Comparison, Gain, Line
from smoothcert.report.metrics import LEVEL, Interval, radius_name
from smoothcert.report.paired import Estimate
from smoothcert.report.tables import UNKNOWN, count, ends, rounded, signed

if TYPE_CHECKING:
    from rich.console import RenderableType


COMPUTED = (
    "computed: expected figures from the member's stored votes, not drawn; each input's share of votes is taken "
    "for its probability, which favours the member where all votes agree"
)


def rows(found: Comparison) -> list[tuple[str, list[str]]]:
    """Name, ACR and certified accuracies (%): the ensemble, then what it is held against."""
    strongest = found.strongest
    lines = [found.ensemble, found.average, found.envelope, strongest]
    names = ["the ensemble", found.average.name, found.envelope.name, f"strongest, {strongest.name}"]
    made = [(name, _cells(line)) for name, line in zip(names, lines, strict=True)]
    if found.same is not None:
        expected = Line("", found.same.acr, found.same.certified)
        made.append((f"{strongest.name} with {count(found.same.draws)} draws, computed", _cells(expected)))
    return made


def gain_rows(found: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """Name and cells of value and interval: ACR, ACR in percent of the other's, certified accuracies in points."""
    sides = [("the strongest member", found.over_strongest), ("the average member", found.over_average)]
    return [(name, list(_gain_cells(gain))) for name, gain in sides]


def heads(found: Comparison) -> list[str]:
    """What stands over the cells of `rows`."""
    return ["ACR", *(radius_name(radius) for radius in found.radii)]


def title(found: Comparison) -> str:
    """The ensemble, what it is, and how much of it is here."""
    family = found.family
    vote = f"{family.vote} of " if family.vote else ""
    here = "" if len(family.members) == family.size else f", {len(family.members)} of them among these runs"
    return f"{family.ensemble.name}: {vote}{family.size} members{here}"


def sides(found: Comparison) -> str:
    """How often the ensemble is ahead of every member."""
    larger, equal, smaller = found.sides
    return (
        f"radius against the best member of each input: larger on {larger:,}, the same on {equal:,}, "
        f"smaller on {smaller:,} (0 where wrong or abstained)"
    )


def costs(found: Comparison) -> list[str]:
    """Members asked, and time against the whole ensemble."""
    said = []
    if cost := found.cost:
        each = "" if cost.an_input is None else f", {cost.an_input:,.0f} evaluations an input"
        spared = f"; {100 * cost.spared:.1f} % of draws did not need all (KCR)" if found.family.whole is False else ""
        said.append(f"members asked a draw: {cost.a_draw:.2f} of {found.family.size}{each}{spared}")
    if found.time is not None:
        said.append(f"time ÷ that of {found.time.against}, which asks all members: {found.time.ratio:.2f}")
    return said


def same_words(found: Comparison) -> str | None:
    """How many evaluations the row of another number of draws stands for."""
    if found.same is None:
        return None
    times = found.cost.a_draw if found.cost else float(found.family.size)
    whose = f"{count(found.same.draws)} draws of {found.strongest.name}"
    return f"{whose}: as many evaluations as the ensemble took, {times:.3g} a draw"


def percent(value: float) -> str:
    """A share in percent, one decimal, rounded down."""
    return rounded(value, shift=2)


def text(comparisons: Sequence[Comparison], width: int = 100) -> RenderableType:
    """A block for each ensemble, for a terminal, and what the figures are."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for found in comparisons:
        said = [_gain_line(name, cells, found) for name, cells in gain_rows(found)]
        said += [line for line in (sides(found), *costs(found), same_words(found)) if line]
        parts += [Text(f"ensemble {title(found)}", style="italic"), *_grids(found, width), *map(Text, said), Text("")]
    parts.append(Text(f"in brackets: {LEVEL * 100:g} % intervals of a paired bootstrap over inputs", style="dim"))
    if any(found.same for found in comparisons):
        parts.append(Text(COMPUTED, style="dim"))
    return Group(*parts)


def _cells(line: Line) -> list[str]:
    def spread(value: str, deviation: float | None, scale: int, places: int) -> str:
        return value if deviation is None else f"{value} ± {scale * deviation:.{places}f}"

    deviations = line.certified_sd or {}
    shares = [spread(percent(value), deviations.get(r), 100, 1) for r, value in line.certified.items()]
    return [spread(rounded(line.acr), line.acr_sd, 1, 3), *shares]


def _gain_cells(gain: Gain) -> Iterator[tuple[str, str]]:
    yield _signed(gain.acr)
    relative = None if gain.relative is None else _signed(gain.relative, 2)
    yield (UNKNOWN, "") if relative is None else (f"{relative[0]} %", relative[1])
    for estimate in gain.certified.values():
        yield _signed(estimate, 2)


def _signed(estimate: Estimate, shift: int = 0) -> tuple[str, str]:
    """A gain with its sign, rounded down, and its interval, rounded outwards."""
    return signed(estimate.value, shift), ends(Interval(estimate.low, estimate.high), shift)


def _gain_line(name: str, cells: Sequence[tuple[str, str]], found: Comparison) -> str:
    (acr, ends), (relative, relative_ends), *shares = cells
    much = f" = {relative} ({relative_ends})" if relative_ends else ""
    points = [f"{value} ({span}) at {radius_name(r)}" for r, (value, span) in zip(found.radii, shares, strict=True)]
    return f"gain over {name}: ACR {acr} ({ends}){much}; points {', '.join(points)}"


def _grids(found: Comparison, width: int) -> Iterator[RenderableType]:
    """The table, in as many blocks of columns as the width needs."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    lines, over = rows(found), heads(found)
    wide = max(len(cell) for _, cells in lines for cell in cells)
    room = max(2, (width - max(len(name) for name, _ in lines)) // (wide + 2))
    for first in range(0, len(over), room):
        grid = Table(box=SIMPLE_HEAD, pad_edge=False)
        grid.add_column("", overflow="fold")
        for head in over[first : first + room]:
            grid.add_column(head, justify="right", no_wrap=True)
        for name, cells in lines:
            grid.add_row(Text(name), *cells[first : first + room])
        yield grid
