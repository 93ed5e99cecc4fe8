"""What a route did: which branch was taken, and whether the selector's radius or the branch's was the smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from certus.report.aces import grid
from certus.report.metrics import Share
from certus.report.tables import decimal, percent
from certus.runs.replay import composition

if TYPE_CHECKING:
    from certus.contracts import Certificate, Noise


@dataclass(frozen=True)
class Branch:
    """The inputs that were certainly sent to one branch."""

    name: str
    taken: int
    correct: int
    abstained: int
    gain: float  # sum of radius·[correct]
    bound_by_selector: int  # of those with a radius
    bound_by_branch: int


@dataclass(frozen=True)
class Taken:
    """A whole run."""

    inputs: int
    unsure: int  # the selector abstained
    branches: tuple[Branch, ...]


def taken(folder: Path) -> Taken:
    """Where every input of a run was sent."""
    bundle, found = composition(folder, "route")
    names = [_words(number, noise) for number, noise in enumerate(bundle.noises[:-1])]
    sure = [(row.label, certificate) for row, certificate in found if not certificate.parts[0].abstained]
    sent = [[pair for pair in sure if pair[1].parts[0].label == number] for number in range(len(names))]
    branches = tuple(_branch(name, pairs) for name, pairs in zip(names, sent, strict=True))
    return Taken(len(found), len(found) - len(sure), branches)


def _branch(name: str, pairs: Sequence[tuple[int, Certificate]]) -> Branch:
    right = [certificate for label, certificate in pairs if certificate.label == label]
    radii = [certificate for _, certificate in pairs if certificate.radius > 0]
    selector = sum(certificate.parts[0].radius < certificate.parts[1].radius for certificate in radii)
    return Branch(
        name, len(pairs), len(right), sum(certificate.abstained for _, certificate in pairs),
        math.fsum(certificate.radius for certificate in right), selector, len(radii) - selector,
    )  # fmt: skip


def text(found: Taken) -> str:
    """One line a branch: how many inputs it was given, what it made of them, and which radius was the smaller."""
    heads = ["branch", "taken %", "right %", "abstained %", "ACR share", "selector binds", "branch binds"]
    cells = [
        [
            branch.name, percent(Share(branch.taken, found.inputs)), percent(Share(branch.correct, found.inputs)),
            percent(Share(branch.abstained, found.inputs)), decimal(branch.gain / found.inputs),
            str(branch.bound_by_selector), str(branch.bound_by_branch),
        ]
        for branch in found.branches
    ]  # fmt: skip
    unsure = percent(Share(found.unsure, found.inputs))
    return f"{grid(heads, cells)}\nthe selector was unsure, and so nothing was said, about {unsure} % of the inputs"


def _words(number: int, noise: Noise | None) -> str:
    return f"{number} (core)" if noise is None else f"{number} (noise {getattr(noise, 'sigma', 0.0):g})"
