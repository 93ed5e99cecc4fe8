"""What a route did: which branch was taken, and whether the selector's radius or the branch's was the smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.report.aces import grid
from smoothcert.report.metrics import Share
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.store import read
from smoothcert.runs.verify import Replayed, composition

if TYPE_CHECKING:
    from smoothcert.contracts import Certificate, Noise


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
    return taken_by(composition(read(folder), "route"))


def taken_by(run: Replayed) -> Taken:
    """The same of a run that has been replayed."""
    names, found = names_of(run), run.rows
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


HEADS = ("branch", "taken %", "right %", "abstained %", "ACR share", "selector binds", "branch binds")


def rows(found: Taken) -> list[list[str]]:
    """One line a branch: how many inputs it was given, what it made of them, and which radius was the smaller."""
    return [
        [
            branch.name, percent(Share(branch.taken, found.inputs)), percent(Share(branch.correct, found.inputs)),
            percent(Share(branch.abstained, found.inputs)), decimal(branch.gain / found.inputs),
            str(branch.bound_by_selector), str(branch.bound_by_branch),
        ]
        for branch in found.branches
    ]  # fmt: skip


def unsure(found: Taken) -> str:
    """What became of inputs that were sent nowhere."""
    share = percent(Share(found.unsure, found.inputs))
    return f"the selector was unsure, and so nothing was said, about {share} % of the inputs"


def text(found: Taken) -> str:
    """For a terminal."""
    return f"{grid(HEADS, rows(found))}\n{unsure(found)}"


def names_of(run: Replayed) -> list[str]:
    """The branches, by number and noise."""
    return [_words(number, noise) for number, noise in enumerate(run.bundle.noises[:-1])]


def _words(number: int, noise: Noise | None) -> str:
    return f"{number} (core)" if noise is None else f"{number} (noise {getattr(noise, 'sigma', 0.0):g})"
