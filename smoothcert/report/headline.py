"""What a page says first: one sentence a run, which a reader takes in before any figure."""

from __future__ import annotations

from smoothcert.report.meaning import in_units
from smoothcert.report.metrics import Figures, Share, radius_name
from smoothcert.report.tables import NORMS
from smoothcert.runs.run import Run

PROMISE = {
    "memory": "are classified correctly, and the memory keeps their label",
    "none": "are classified correctly; without a memory nothing is certified, though their own noise would reach",
}


def headline(run: Run, figures: Figures, radius: float, share: Share | None) -> tuple[str, str]:
    """The statement, and its risk: N of M inputs, at this radius, with this probability of being wrong."""
    if run.kind != "certify" or share is None:
        right = figures.accuracy
        return f"{right.hits:,} of {right.of:,} inputs are classified correctly under noise.", _risk(run)
    keep = PROMISE.get(run.claim.guarantee, "are classified correctly and provably keep their label")
    return f"{share.hits:,} of {share.of:,} inputs {keep} {_where(run, radius)}.", _risk(run)


def _where(run: Run, radius: float) -> str:
    if run.claim.norm == "patch":
        return f"under any sticker of {radius_name(radius)} × {run.claim.measure or f'{radius_name(radius)} pixels'}"
    if run.claim.norm == "unstated":
        return f"within radius {radius_name(radius)}"
    return f"within {NORMS[run.claim.norm]} radius {radius_name(radius)} ({in_units(run)})"


def _risk(run: Run) -> str:
    if run.claim.guarantee == "none" and run.kind == "certify":
        return ""
    if run.claim.guarantee == "deterministic":
        return "Every case was counted: there is no risk of error."
    if run.claim.alpha is None:
        return "The log does not state with which probability this may be wrong."
    return f"For each input this is wrong with probability at most α = {run.claim.alpha:g}."
