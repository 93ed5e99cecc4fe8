"""Do the certificates of a run stand? With noise that they have not seen, and at points where their label is weakest.

**Fresh draws**: new seeds, the same question. A certificate is contradicted when fresh hits show that its class is less
likely than the radius needs. Where it comes from one look, fresh votes are also held against the stored ones.

**Attack**: every certificate is one trial. The weakest point that search and, where the network has gradients, ascent
find inside its ball is looked at with a few fresh draws; only where the label seems to be losing, many more decide.
These draws chose nothing. `chance.py` says what both tests are worth.

**Accuracy under attack** is the other side of certified accuracy, which at r is at most what any attack within r
leaves; accuracy under one attack is at least what the strongest one would leave: the truth lies between the two. The
smoothed classifier is estimated by the majority of some draws, 128 in the field (Salman et al. 2019). Attacked points
are inputs, so they stay in [0,1] unless features have scales of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from smoothcert.audit import chance
from smoothcert.audit.chance import Check
from smoothcert.audit.search import Ball, Force, Target, asked, looked, worst
from smoothcert.contracts import EVERY, Evidence, Source, Stream
from smoothcert.errors import RunError
from smoothcert.runs.recompute import replay, source_of
from smoothcert.runs.run import Row
from smoothcert.spec import Spec

SCREEN, DOUBTFUL = 200, 0.6  # draws at every attacked point, and the share of votes below which more are taken
JUDGE = 10_000
NEAR = 2  # other inputs to go towards


@dataclass(frozen=True, eq=False)
class Certified:
    """One certificate, as the run has it; the radius is the stored one, whatever the votes say."""

    index: int
    x: Tensor
    label: int
    radius: float
    alpha: float
    source: Source
    evidence: Evidence | None  # None where the stored answers are not those of the procedure

    @classmethod
    def of(cls, row: Row, x: Tensor, spec: Spec, source: Source) -> Certified:
        """The certificate of a row, as smoothing alone left it: a memory's promises are about the memory."""
        own = source_of(row, source)
        try:
            evidence = replay(row, spec.procedure, own, spec.dim)[0].evidence
        except RunError:
            evidence = None  # said where counts are checked
        return cls(row.index, x, row.predicted, row.radius, spec.alpha, own, evidence)

    @property
    def exact(self) -> bool:
        """Whether every case of the noise was counted."""
        return self.alpha == 0.0

    @property
    def by_half(self) -> bool:
        """Whether it says that the class keeps half of the noisy copies, and not only more than any other class."""
        evidence = self.evidence
        return evidence is None or evidence.question is not None or evidence.next_high >= 1 - evidence.low

    @property
    def least(self) -> float:
        """The probability of its class at the input itself that the claim amounts to."""
        if self.by_half or self.evidence is None:
            return self.source.noise.p_needed(self.radius, self.x.numel())
        return self.evidence.low

    def votes(self, at: Tensor, purpose: str, draws: int, seed: int) -> list[int]:
        """Votes of each class at a point, in draws of the audit's own."""
        return votes(self.source, at, Stream(seed, self.index, purpose), draws, self.label)


def votes(source: Source, at: Tensor, stream: Stream, draws: int, label: int) -> list[int]:
    """Votes of each class, and 0 for a label that the classifier does not have."""
    scores = torch.cat([scores for _, scores in asked(source, at, stream, draws)])
    seen = source.readout(scores)
    # One column names the class of each copy; of several each is of one class, and 1 is a vote for it.
    counts = seen[:, 0].bincount(minlength=scores.shape[1]) if seen.shape[1] == 1 else seen.sum(dim=0)
    found: list[int] = counts.tolist()
    return found + [0] * (label + 1 - len(found))


def check_fresh(
    certificates: Sequence[Certified], draws: int, error: float, seed: int, advance: Callable[[], None]
) -> Check:
    """Test every certificate again; those that rest on all cases have nothing to be tested by chance."""
    sampled = [certified for certified in certificates if not certified.exact]
    level, invented, contradicted = chance.each(error, len(sampled)), [], []
    for certified in sampled:
        hits = certified.votes(certified.x, "audit fresh", draws, seed)[certified.label]
        invented += _against_stored(certified, hits, draws, level)
        if chance.shown_below(hits, draws, certified.least, level):
            contradicted.append(
                f"input {certified.index}: {hits} of {draws} fresh draws say {certified.label}; "
                f"radius {certified.radius:.6g} needs a share of {certified.least:.6g}"
            )
        advance()
    tried = f"{len(sampled)} certificates tested again with {draws} draws of other seeds each"
    return chance.weighed(
        Check("fresh", len(sampled), tried, tuple(invented)), contradicted, _largest_alpha(sampled), error
    )


def _against_stored(certified: Certified, hits: int, draws: int, level: float) -> list[str]:
    """Stored votes that fresh ones cannot be of the same kind as."""
    evidence = certified.evidence
    if evidence is None or evidence.question is not None or len(evidence.counts) != 1:
        return []
    stored = evidence.counts[0][evidence.label] if evidence.label < len(evidence.counts[0]) else 0
    if evidence.label != certified.label or chance.as_few(stored, evidence.draws, hits, draws) > level:
        return []
    return [
        f"input {certified.index}: {stored} of {evidence.draws} stored votes are for {certified.label}, "
        f"but {hits} of {draws} fresh ones"
    ]


@dataclass(frozen=True, eq=False)
class Attacked:
    """The weakest point that the attack found inside one certified ball."""

    certified: Certified
    point: Tensor
    distance: float  # of the point from the input, in the norm of the certificate
    lost: str | None  # what draws there say against the label; None where it stood
    seed: int  # of the draws that looked

    def support(self, at: Tensor) -> tuple[int, int]:
        """How many draws at a point are for the label, and of how many; at `point` those that judged it."""
        certified, cases = self.certified, self.certified.source.noise.cases
        every = certified.exact and cases is not None
        purpose, draws = (EVERY, cases or 0) if every else ("audit screen", SCREEN)
        return certified.votes(at, purpose, draws, self.seed)[certified.label], draws


def check_attack(
    certificates: Sequence[Certified],
    force: Force,
    error: float,
    advance: Callable[[], None],
    met: Callable[[Attacked], None] = lambda attacked: None,
) -> Check:
    """Attack every certificate that has a radius; `met` is told each outcome."""
    wide = [certified for certified in certificates if certified.radius > 0]
    level, contradicted = chance.each(error, len(wide)), []
    for certified in wide:
        others = [other.x for other in wide if other.label != certified.label]
        found = _attack(certified, _nearest(certified.x, others), force, level)
        if found.lost is not None:
            away = f"at distance {found.distance:.6g}, inside {certified.radius:.6g}"
            contradicted.append(f"input {certified.index}: {away}, {found.lost}")
        met(found)
        advance()
    ascent = "" if force.network is None else f" and {force.steps} steps of ascent with {force.draws} draws"
    tried = f"{len(wide)} certificates attacked inside their radii by search{ascent}"
    return chance.weighed(Check("attack", len(wide), tried), contradicted, _largest_alpha(wide), error)


def _attack(certified: Certified, towards: Sequence[Tensor], force: Force, level: float) -> Attacked:
    x, source = certified.x, certified.source
    ball = Ball.of(source.noise, certified.radius, certified.exact)
    point = worst(Target(source, certified.index, x, certified.label, ball), towards, force)
    lost = judged(certified, point, level, force.seed)
    return Attacked(certified, point, ball.distance(x, point), lost, force.seed)


def judged(certified: Certified, point: Tensor, level: float, seed: int) -> str | None:
    """What draws at a point say against the label, or None where they do not."""
    label, cases = certified.label, certified.source.noise.cases
    if certified.exact and cases is not None:
        found = certified.votes(point, EVERY, cases, seed)
        winner = found.index(max(found))
        return None if winner == label else f"{found[winner]} of {cases} of all cases say {winner}, not {label}"
    seen = certified.votes(point, "audit screen", SCREEN, seed)
    if seen[label] >= DOUBTFUL * SCREEN:
        return None
    found, draws = certified.votes(point, "audit judge", JUDGE, seed), JUDGE
    if not certified.by_half:  # it only says that no other class has more
        rival = max((other for other in range(len(seen)) if other != label), key=lambda other: seen[other])
        draws = found[label] + found[rival]
    lost = chance.shown_below(found[label], draws, 0.5, level)
    return f"{found[label]} of {draws} draws keep label {label}" if lost else None


def _largest_alpha(certificates: Sequence[Certified]) -> float:
    return max((certified.alpha for certified in certificates), default=0.0)


def _nearest(x: Tensor, others: Sequence[Tensor]) -> list[Tensor]:
    """Inputs of other labels to go towards."""
    return sorted(others, key=lambda other: float((other - x).norm()))[:NEAR]


class UnderAttack(NamedTuple):
    """What is left at one radius; all figures are of the same inputs."""

    radius: float
    inputs: int
    right: int  # classified rightly at the attacked point
    certified: int  # certified rightly at this radius, by the run


def accuracy_under_attack(
    rows: Sequence[tuple[Row, Tensor]],
    source: Source,
    radii: Sequence[float],
    force: Force,
    advance: Callable[[], None],
    box: bool = True,
) -> list[UnderAttack]:
    """Attack every row, with its input, at every radius, smallest first; who has fallen stays down.

    `box`: inputs lie in [0,1].
    """
    left = {0.0: 0, **dict.fromkeys(sorted(radii), 0)}
    for row, x in rows:
        others = _nearest(x, [y for other, y in rows if other.label != row.label])
        for radius in left:
            ball = Ball.of(source.noise, radius, box=box)
            if not _stands(Target(source_of(row, source), row.index, x, row.label, ball), others, force):
                break
            left[radius] += 1
        advance()
    certified = {radius: sum(row.correct and row.radius >= radius for row, _ in rows) for radius in left}
    return [UnderAttack(radius, len(rows), right, certified[radius]) for radius, right in left.items()]


def _stands(target: Target, towards: Sequence[Tensor], force: Force) -> bool:
    """Whether most draws at the attacked point are for the true label."""
    radius = target.ball.radius
    point = worst(target, towards, force) if radius > 0 else target.x
    stream = Stream(force.seed, target.index, f"audit answer {radius!r}")
    found = votes(target.source, point, *looked(target.source.noise, stream, force.draws), target.label)
    return found.index(max(found)) == target.label
