"""A comparison of an ensemble with its members for machines: nothing is rounded, null is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.report.ensemble import Comparison, Gain, Line
from smoothcert.report.metrics import LEVEL, radius_name
from smoothcert.report.paired import RESAMPLES, SEED


def as_json(found: Comparison) -> dict[str, Any]:
    """What stands under `ensemble` in the object of the ensemble's run."""
    larger, equal, smaller = found.sides
    cost, time, same = found.cost, found.time, found.same
    return {
        "size": found.family.size,
        "vote": found.family.vote,
        "members": [member.name for member in found.family.members],
        "average": _line_json(found.average),
        "envelope": _line_json(found.envelope),
        "strongest": _line_json(found.strongest),
        "same_evaluations": None if same is None else {
            "member": found.strongest.name, "draws": same.draws, "how": "computed from its votes, not drawn",
            "acr": same.acr, "certified_accuracy": _by_name(same.certified),
        },
        "gain": {
            "level": LEVEL, "interval": "paired bootstrap, percentile", "resamples": RESAMPLES, "seed": SEED,
            "over_strongest": _gain_json(found.over_strongest), "over_average": _gain_json(found.over_average),
        },
        "radius_against_best_member": {"larger": larger, "equal": equal, "smaller": smaller},
        "members_asked_a_draw": cost.a_draw if cost else None,
        "draws_without_all_members": cost.spared if cost else None,
        "evaluations_an_input": cost.an_input if cost else None,
        "time": None if time is None else {"against": time.against, "ratio": time.ratio},
    }  # fmt: skip


def _line_json(line: Line) -> dict[str, Any]:
    spread = {} if line.certified_sd is None else {
        "acr_sd": line.acr_sd, "certified_accuracy_sd": _by_name(line.certified_sd),
    }  # fmt: skip
    return {"name": line.name, "acr": line.acr, "certified_accuracy": _by_name(line.certified), **spread}


def _gain_json(gain: Gain) -> dict[str, Any]:
    shares = {radius: estimate._asdict() for radius, estimate in gain.certified.items()}
    relative = None if gain.relative is None else gain.relative._asdict()
    return {"acr": gain.acr._asdict(), "acr_relative": relative, "certified_accuracy": _by_name(shares)}


def _by_name(values: Mapping[float, Any]) -> dict[str, Any]:
    return {radius_name(radius): value for radius, value in values.items()}
