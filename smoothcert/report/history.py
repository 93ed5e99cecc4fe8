"""The runs below a folder as a history: what each version of a model reached, question by question, in time order.

Runs belong to one line of history when they differ in nothing but the model, its noise draws and the place of the data.
Time is when a run was first begun; of one that does not tell, when its recipe was last written.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smoothcert.errors import RunError, SmoothcertError
from smoothcert.report import metrics, tables
from smoothcert.report._layout import Table, plain
from smoothcert.report._paired import Estimate
from smoothcert.report.compare import compare
from smoothcert.report.metrics import Figures, Interval, default_radii, figures
from smoothcert.report.tables import UNKNOWN, ends, signed
from smoothcert.runs.run import Run
from smoothcert.runs.store import read

VERSION = ("model", "model_digest", "seed", "data")  # of a question: what may differ within a line of history


@dataclass(frozen=True)
class Version:
    """One run of one version of a model."""

    record: Run
    when: datetime.datetime
    figures: Figures
    change: Estimate | None  # of ACR, against the version before it on the same inputs

    @property
    def digest(self) -> str:
        return str(self.record.settings["question"]["model_digest"])


@dataclass(frozen=True)
class Line:
    """Versions that were asked the same, the oldest first."""

    question: Mapping[str, Any]
    versions: tuple[Version, ...]

    @property
    def words(self) -> str:
        """The question in one line."""
        asked = self.question
        parts = [f"every {asked['skip']}th" if asked["skip"] > 1 else "", f"from {asked.get('start', 0)}"]
        parts = [word for word in parts if word and word != "from 0"]
        data = f"{Path(asked['data']).name} ({', '.join([asked['split'], *parts])}), {asked['inputs']:,} inputs"
        named = [_words(asked[name]) for name in ("noise", "procedure", "sampling", "preparation") if asked.get(name)]
        return "; ".join([data, *named])


def history(folder: Path, radii: Sequence[float] | None = None) -> tuple[list[Line], list[str]]:
    """The lines of history below a folder, and a note for each run that has no figures."""
    found, notes = _runs(folder)
    if not found:
        raise RunError(
            f"folder {folder} must hold runs somewhere below it; got none" + "".join(f" ({n})" for n in notes)
        )
    grouped: dict[str, list[tuple[datetime.datetime, Run]]] = {}
    for when, record in sorted(found, key=lambda pair: (pair[0], pair[1].name)):
        grouped.setdefault(_key(record), []).append((when, record))
    return [_line(group, radii) for group in grouped.values()], notes


def table(line: Line) -> Table:
    """A row a run: when, which model, and its figures."""
    versions = line.versions
    told = [
        UNKNOWN if v.change is None else f"{signed(v.change.value)} ({ends(Interval(v.change.low, v.change.high))})"
        for v in versions
    ]
    facts = [
        plain("when", [f"{version.when:%Y-%m-%d %H:%M}" for version in versions]),
        plain("model", [version.digest[:8] for version in versions]),
        *([plain("ACR against the one before", told)] if any(version.change for version in versions) else []),
    ]
    made = tables.table([version.figures for version in versions])
    return replace(made, columns=(*facts, *made.columns))


def as_json(line: Line) -> dict[str, Any]:
    """A question and its versions, nothing rounded."""
    return {
        "question": dict(line.question),
        "versions": [
            {
                "when": version.when.isoformat(timespec="seconds"),
                "model": version.record.settings["question"]["model"],
                "model_digest": version.digest,
                "acr_change": None if version.change is None else version.change._asdict(),
                **metrics.as_json(version.figures),
            }
            for version in line.versions
        ],
    }


def _runs(folder: Path) -> tuple[list[tuple[datetime.datetime, Run]], list[str]]:
    if not folder.is_dir():
        raise RunError(f"folder {folder} must hold runs; got {'a file' if folder.exists() else 'nothing there'}")
    found, notes = [], []
    for recipe in sorted(folder.rglob("recipe.toml")):
        try:
            record = read(recipe.parent)
            figures(record, [0.0])
        except SmoothcertError as error:
            notes.append(f"left out: {error}")
            continue
        started = record.settings["means"].get("started")
        when = datetime.datetime.fromisoformat(started) if started else _written(recipe)
        name = str(recipe.parent.relative_to(folder)) if recipe.parent != folder else record.name
        found.append((when, replace(record, name=name)))
    return found, notes


def _written(path: Path) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(path.stat().st_mtime).astimezone()


def _question(record: Run) -> dict[str, Any]:
    return {key: value for key, value in record.settings["question"].items() if key not in VERSION}


def _key(record: Run) -> str:
    return hashlib.sha256(json.dumps(_question(record), sort_keys=True).encode()).hexdigest()


def _line(group: Sequence[tuple[datetime.datetime, Run]], radii: Sequence[float] | None) -> Line:
    records = [record for _, record in group]
    wanted = default_radii(records) if radii is None else radii
    versions = [
        Version(record, when, figures(record, wanted), change)
        for (when, record), change in zip(group, _changes(records), strict=True)
    ]
    question = {**_question(records[-1]), "data": records[-1].settings["question"]["data"]}
    return Line(question, tuple(versions))


def _changes(records: Sequence[Run]) -> Iterator[Estimate | None]:
    """Of each run against the one before it; None for the first, and where one of the two is unfinished."""
    yield None
    for before, after in itertools.pairwise(records):
        try:
            yield compare(before, after, [0.0]).acr_change
        except RunError:
            yield None


def _words(part: Mapping[str, Any]) -> str:
    options = [f"{key} {value}" for key, value in part.items() if key != "name"]
    return f"{part['name']}{' (' + ', '.join(options) + ')' if options else ''}".replace("_", " ")
