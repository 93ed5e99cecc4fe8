"""The runs below a folder as a history: what each version of a model reached, question by question, in time order.

Runs belong together when they differ in nothing but the model, its noise draws and the place of the data. Time is when
a run was first begun; of one that does not tell, when its recipe was last written.

In the picture, bars are the intervals of each figure by itself. Versions were asked about the same inputs, so that a
change between two of them can be sure though their bars overlap; the table tells it.
"""

from __future__ import annotations

import datetime
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.catalog import describe
from smoothcert.errors import RunError, SmoothcertError
from smoothcert.foreign import one_line
from smoothcert.report import choices, metrics, tables
from smoothcert.report.choices import Tries
from smoothcert.report.compare import compare
from smoothcert.report.metrics import Figures, Interval, default_radii, figures, radius_name
from smoothcert.report.paired import Estimate
from smoothcert.report.plots import INK, MARKERS, PALETTE, STYLE, styled
from smoothcert.report.section import Table, plain
from smoothcert.report.tables import UNKNOWN
from smoothcert.runs.run import Run
from smoothcert.runs.store import read
from smoothcert.spec import Spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERSION = ("model", "model_digest", "seed", "data")  # of a question: what may differ between versions
MOST_RADII = 5  # curves of certified accuracy that can be told apart
MOST_NAMES = 12  # versions with room for a name


@dataclass(frozen=True)
class Version:
    """One run of one version of a model."""

    run: Run
    when: datetime.datetime
    figures: Figures
    change: Estimate | None  # of ACR, against the version before it on the same inputs

    @property
    def digest(self) -> str:
        return self.run.asked.model_digest


@dataclass(frozen=True)
class Versions:
    """Versions that were asked the same, the oldest first."""

    versions: tuple[Version, ...]
    notes: tuple[str, ...] = ()  # what picking among these versions is worth, and those of other questions beside them

    @property
    def spec(self) -> Spec:
        """What the latest was asked."""
        return self.versions[-1].run.asked

    @property
    def words(self) -> str:
        """The question in one line."""
        spec, data = self.spec, self.spec.data
        where = [data.split, *[f"every {data.skip}th"][: data.skip > 1], *[f"from {data.start}"][: data.start > 0]]
        parts = (spec.noise, spec.procedure, spec.sampling, spec.preparation)
        named = [_words(describe(part)) for part in parts if part is not None]
        return one_line("; ".join([f"{Path(data.spec).name} ({', '.join(where)}), {spec.inputs:,} inputs", *named]))


def history(folder: Path, radii: Sequence[float] | None = None) -> tuple[list[Versions], list[str]]:
    """The histories below a folder, and a note for each run that has no figures."""
    found, notes = _runs(folder)
    if not found:
        raise RunError(
            f"folder {folder} must hold runs somewhere below it; got none" + "".join(f" ({n})" for n in notes)
        )
    grouped: list[tuple[dict[str, Any], list[tuple[datetime.datetime, Run]]]] = []
    for when, run in sorted(found, key=lambda pair: (pair[0], pair[1].name)):
        asked = _question(run.asked)
        group = next((group for question, group in grouped if question == asked), None)
        if group is None:
            grouped.append((asked, group := []))
        group.append((when, run))
    tried = list(choices.tries([run for _, group in grouped for _, run in group]))
    return [_versions(group, radii, tried) for _, group in grouped], notes


def chosen(histories: Sequence[Versions]) -> list[str]:
    """What picking among the runs of a folder is worth, each line once."""
    return list(dict.fromkeys(line for shown in histories for line in shown.notes))


def table(shown: Versions) -> Table:
    """A row a run: when, which model, its figures, and what changed."""
    versions = shown.versions
    told = [UNKNOWN if one.change is None else "{} ({})".format(*one.change.told()) for one in versions]
    facts = [
        plain("when", [f"{version.when:%Y-%m-%d %H:%M}" for version in versions]),
        plain("model", [version.digest[:8] for version in versions]),
    ]
    change = [plain("ACR against the one before", told)] if any(version.change for version in versions) else []
    made = tables.table([version.figures for version in versions])
    radii = [column for column in made.columns if column.radius is not None]  # certified accuracy leads
    # Picking is told once for all questions of the folder: another noise level is another question.
    apart = choices.notes([version.run for version in versions])
    notes = [line for line in made.notes if line not in apart]
    if sum(version.change is not None for version in versions) > 1:
        notes.append(f"changes against the one before: each interval has {100 * metrics.LEVEL:g} % by itself")
    return replace(made, columns=(*radii, *facts, *made.columns[len(radii) :], *change), notes=tuple(notes))


def as_json(shown: Versions) -> dict[str, Any]:
    """A question and its versions, nothing rounded."""
    return {
        "question": {**_question(shown.spec), "data": shown.spec.data.spec},
        "versions": [
            {
                "when": version.when.isoformat(timespec="seconds"),
                "model": version.run.asked.model,
                "model_digest": version.digest,
                "acr_change": None if version.change is None else version.change._asdict(),
                **metrics.as_json(version.figures),
            }
            for version in shown.versions
        ],
        "notes": [*(f"{one.run.name} is {line}" for one in shown.versions if (line := tables.unfinished(one.run))),
                  *shown.notes],
    }  # fmt: skip


def _runs(folder: Path) -> tuple[list[tuple[datetime.datetime, Run]], list[str]]:
    if not folder.is_dir():
        raise RunError(f"folder {folder} must hold runs; got {'a file' if folder.exists() else 'nothing there'}")
    found, notes = [], []
    for recipe in sorted(folder.rglob("recipe.toml")):
        try:
            run = read(recipe.parent)
            figures(run, [0.0])
        except SmoothcertError as error:
            notes.append(f"left out: {error}")
            continue
        name = one_line(str(recipe.parent.relative_to(folder)) if recipe.parent != folder else run.name)
        found.append((_when(run, recipe), replace(run, name=name)))
    return found, notes


def _when(run: Run, recipe: Path) -> datetime.datetime:
    if run.means is not None and run.means.started is not None:
        return datetime.datetime.fromisoformat(run.means.started)
    return datetime.datetime.fromtimestamp(recipe.stat().st_mtime).astimezone()


def _question(spec: Spec) -> dict[str, Any]:
    return {key: value for key, value in spec.tables().items() if key not in VERSION}


def _versions(
    group: Sequence[tuple[datetime.datetime, Run]], radii: Sequence[float] | None, tried: Sequence[Tries]
) -> Versions:
    runs = [run for _, run in group]
    wanted = default_radii(runs) if radii is None else radii
    versions = [
        Version(run, when, figures(run, wanted), change)
        for (when, run), change in zip(group, _changes(runs), strict=True)
    ]
    here = [found for found in tried if any(one is run for one in found.runs for run in runs)]
    return Versions(tuple(versions), tuple(found.words for found in here))


def _changes(runs: Sequence[Run]) -> Iterator[Estimate | None]:
    """Of each run against the one before it; None for the first, and where one of the two is unfinished."""
    yield None
    for before, after in itertools.pairwise(runs):
        try:
            yield None if before.unfinished or after.unfinished else compare(before, after, [0.0]).acr_change
        except RunError:
            yield None


def _words(part: Mapping[str, Any]) -> str:
    options = [f"{key} {value}" for key, value in part.items() if key != "name"]
    return f"{part['name']}{' (' + ', '.join(options) + ')' if options else ''}".replace("_", " ")


def figure(histories: Sequence[Versions]) -> Figure:
    """Certified accuracy at the first radii at the left, ACR at the right; of predictions accuracy alone.

    A row of panels for each question, the oldest version at the left.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(9.6, 0.4 + 3.2 * len(histories)), layout="constrained")
        for part, shown in zip(made.subfigures(len(histories), 1, squeeze=False)[:, 0], histories, strict=True):
            part.suptitle(textwrap.fill(shown.words, 130), fontsize=9, x=0.01, ha="left", color=INK)
            left, right = part.subplots(1, 2)
            _shares(left, shown)
            _radius(right, shown)
            for axes in (left, right):
                _names(axes, shown)
    return made


def _radius(axes: Axes, shown: Versions) -> None:
    figures = [version.figures for version in shown.versions]
    if any(run.acr is None for run in figures):
        axes.set_visible(False)
        return
    axes.set_title("average certified radius", fontsize=10, color=INK)
    _points(axes, [run.acr or 0.0 for run in figures], [run.acr_interval for run in figures], 0, "")


def _shares(axes: Axes, shown: Versions) -> None:
    figures = [version.figures for version in shown.versions]
    radii = [r for r in figures[0].certified_accuracy if all(run.certified_accuracy.get(r) for run in figures)]
    axes.set_title("certified accuracy" if radii else "accuracy", fontsize=10, color=INK)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    if not radii:
        _points(axes, [run.accuracy.value for run in figures], [run.accuracy.interval for run in figures], 0, "")
    for number, radius in enumerate(radii[:MOST_RADII]):
        shares = [share for run in figures if (share := run.certified_accuracy[radius]) is not None]
        around = [share.interval for share in shares]
        _points(axes, [share.value for share in shares], around, number, f"at {radius_name(radius)}")
    if len(radii) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _points(axes: Axes, values: Sequence[float], around: Sequence[Interval | None], number: int, label: str) -> None:
    colour, shape = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
    axes.plot(values, marker=shape, color=colour, label=label, linewidth=1.4, markersize=5)
    for place, ends in enumerate(around):
        if ends is not None:
            axes.plot([place, place], ends, color=colour, linewidth=1.0, alpha=0.55)


def _names(axes: Axes, shown: Versions) -> None:
    every = -(-len(shown.versions) // MOST_NAMES)
    places = range(0, len(shown.versions), every)
    names = [f"{shown.versions[i].when:%Y-%m-%d}\n{shown.versions[i].digest[:8]}" for i in places]
    axes.set_xticks(list(places), names, fontsize=8, rotation=0 if len(places) < 5 else 60)
    axes.set_xlim(-0.5, len(shown.versions) - 0.5)
    styled(axes)
    axes.tick_params(labelsize=8)
