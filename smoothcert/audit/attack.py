"""Does the label change inside a certified radius? Points where it might are looked for, then put to a test.

Every certificate is one trial: the weakest point that search and, where the network has gradients, ascent find inside
its ball is looked at with a few fresh draws; only where the label seems to be losing, many more decide. These draws
chose nothing. `_chance.py` says what the test is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from smoothcert.audit import _chance
from smoothcert.audit._ball import ball
from smoothcert.audit._check import Check
from smoothcert.audit._claims import Claim
from smoothcert.audit._climb import climb
from smoothcert.audit._draws import votes
from smoothcert.audit._search import Target, search, weakest
from smoothcert.contracts import EVERY, Classifier, Counts, Stream

SCREEN, DOUBTFUL = 200, 0.6  # draws at every attacked point, and the share of votes below which more are taken
JUDGE = 10_000
NEAR = 2  # other inputs to go towards


class Force(NamedTuple):
    """How hard to attack."""

    network: Classifier | None  # with gradients; None: a black box
    steps: int
    draws: int  # noisy copies behind a gradient
    seed: int


def attack(claims: Sequence[Claim], force: Force, error: float, advance: Callable[[], None]) -> Check:
    """Attack every certificate that has a radius."""
    claims = [claim for claim in claims if claim.radius > 0]
    level, contradicted = _chance.each(error, len(claims)), []
    for claim in claims:
        target = Target(claim.source, claim.x, claim.label, ball(claim.source.noise, claim.radius, claim.exact))
        point = worst(target, strangers(claim, claims), force, claim.index)
        if (found := judged(claim, point, level, force.seed)) is not None:
            distance = target.ball.distance(claim.x, point)
            contradicted.append(f"input {claim.index}: at distance {distance:.6g}, inside {claim.radius:.6g}, {found}")
        advance()
    allowed = _chance.excused(len(claims), max((claim.alpha for claim in claims), default=0.0), error)
    how = (
        "by search"
        if force.network is None
        else f"by search and {force.steps} steps of ascent with {force.draws} draws"
    )
    tried = f"{len(claims)} certificates attacked inside their radii {how}"
    guilty = len(contradicted) > allowed
    return Check(
        "attack",
        len(claims),
        tried,
        tuple(contradicted) if guilty else (),
        () if guilty else tuple(contradicted),
    )


def worst(target: Target, towards: Sequence[Tensor], force: Force, index: int) -> Tensor:
    """The weakest point that any way of looking finds."""
    points = [search(target, towards, force.seed, index)]
    if force.network is not None:
        points.append(climb(target, force.network, force.steps, force.draws, force.seed, index))
    return weakest(target, points, Stream(force.seed, index, "audit choice"))


def strangers(claim: Claim, claims: Sequence[Claim]) -> list[Tensor]:
    """The nearest inputs that the run gives another label."""
    others = [other.x for other in claims if other.label != claim.label]
    return sorted(others, key=lambda x: float((x - claim.x).norm()))[:NEAR]


def judged(claim: Claim, point: Tensor, level: float, seed: int) -> str | None:
    """What draws at a point say against the label, or None where they do not."""
    if claim.exact:
        noise: Any = claim.source.noise  # one that can be counted
        found = votes(claim.source, point, Stream(seed, claim.index, EVERY), noise.cases)
        winner = int(found.argmax())
        return (
            None if winner == claim.label else f"{_share(found, winner)} of all cases say {winner}, not {claim.label}"
        )
    seen = votes(claim.source, point, Stream(seed, claim.index, "audit screen"), SCREEN)
    if _votes(seen, claim.label) >= DOUBTFUL * SCREEN:
        return None
    found = votes(claim.source, point, Stream(seed, claim.index, "audit judge"), JUDGE)
    hits, draws = _votes(found, claim.label), JUDGE
    if not claim.by_half:  # it only says that no other class has more
        rival = max((other for other in range(len(seen)) if other != claim.label), key=lambda other: int(seen[other]))
        draws = hits + int(found[rival])
    return f"{hits} of {draws} draws keep label {claim.label}" if _chance.shown_below(hits, draws, 0.5, level) else None


def _votes(counts: Counts, label: int) -> int:
    return int(counts[label]) if label < len(counts) else 0


def _share(counts: Counts, label: int) -> str:
    return f"{int(counts[label])} of {int(counts.sum())}"
