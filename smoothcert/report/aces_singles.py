"""Single smoothed networks beside a composition: the runs of a page that are on the same inputs, network by network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from smoothcert.errors import RunError
from smoothcert.report.aces_plots import Group
from smoothcert.report.question import asked, part
from smoothcert.runs.components import Parts, Single, single
from smoothcert.runs.run import Run


class Alone(NamedTuple):
    """A run of a single network on the same inputs; `own`: it is the certified network under its noise."""

    record: Run
    single: Single
    own: bool


def alone(records: Sequence[Run], parts: Parts) -> list[Alone]:
    """The runs of single networks, one noise level for all, that looked for their radii on the same inputs."""
    here, found = list(zip(parts.indices.tolist(), parts.labels.tolist(), strict=True)), []
    for record in records:
        one_network = part(record, "procedure").get("name", "certify") == "certify" and record.kind == "certify"
        if not one_network or asked(record).radii or record.norm != parts.norm:
            continue
        if [(row.index, row.label) for row in record.rows] == here:
            try:
                found.append(Alone(record, single(record), _network(record) == parts.settings["networks"]))
            except RunError:  # noise levels of its own, or another number of draws for every input
                continue
    return found


def by_network(runs: Sequence[Alone]) -> list[Group]:
    """One network at several noise levels is one group, its points named by the level."""
    groups: dict[str, list[Alone]] = {}
    for one in runs:
        groups.setdefault(str(_network(one.record)["certified"] or one.single.name), []).append(one)
    return [_group(sorted(members, key=_level)) for members in groups.values()]


def _group(members: Sequence[Alone]) -> Group:
    if len(members) == 1:
        return Group(members[0].single.name, [members[0].single])
    network = Path(str(members[0].record.settings["question"]["model"])).name
    return Group(f"{network} at noise levels", [replace(one.single, name=f"{_level(one):g}") for one in members])


def _level(one: Alone) -> float:
    """The one number that a noise has."""
    return float(next((value for name, value in part(one.record, "noise").items() if name != "name"), 0.0))


def _network(record: Run) -> dict[str, Any]:
    question = record.settings.get("question", {})
    return {"certified": question.get("model_digest"), "noise": question.get("noise")}
