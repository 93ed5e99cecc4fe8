"""Do certificates stand a test with noise that they have not seen? New seeds, new draws, the same question.

A certificate is contradicted when fresh hits show that its class is less likely than the radius needs. Where it comes
from one look, fresh votes are also held against the stored ones. `_chance.py` says what both are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smoothcert.audit import _chance
from smoothcert.audit._check import Check
from smoothcert.audit._claims import Claim
from smoothcert.audit._draws import votes
from smoothcert.contracts import Stream


def fresh(claims: Sequence[Claim], draws: int, error: float, seed: int, advance: Callable[[], None]) -> Check:
    """Test every certificate again; those that rest on all cases have nothing to be tested by chance."""
    claims = [claim for claim in claims if not claim.exact]
    level, invented, contradicted = _chance.each(error, len(claims)), [], []
    for claim in claims:
        counts = votes(claim.source, claim.x, Stream(seed, claim.index, "audit fresh"), draws)
        hits = int(counts[claim.label]) if claim.label < len(counts) else 0
        if (found := _against_stored(claim, hits, draws, level)) is not None:
            invented.append(found)
        if _chance.shown_below(hits, draws, claim.least, level):
            contradicted.append(
                f"input {claim.index}: {hits} of {draws} fresh draws say {claim.label}; "
                f"radius {claim.radius:.6g} needs a share of {claim.least:.6g}"
            )
        advance()
    guilty = len(contradicted) > _chance.excused(len(claims), max((c.alpha for c in claims), default=0.0), error)
    return Check(
        "fresh",
        len(claims),
        f"{len(claims)} certificates tested again with {draws} draws of other seeds each",
        (*invented, *(contradicted if guilty else ())),
        () if guilty else tuple(contradicted),
    )


def _against_stored(claim: Claim, hits: int, draws: int, level: float) -> str | None:
    """Stored votes that fresh ones cannot be of the same kind as."""
    evidence = claim.evidence
    if evidence is None or evidence.question is not None or len(evidence.counts) != 1:
        return None
    stored = evidence.counts[0][evidence.label] if evidence.label < len(evidence.counts[0]) else 0
    if evidence.label != claim.label or _chance.as_few(stored, evidence.draws, hits, draws) > level:
        return None
    return (
        f"input {claim.index}: {stored} of {evidence.draws} stored votes are for {claim.label}, "
        f"but {hits} of {draws} fresh ones"
    )
