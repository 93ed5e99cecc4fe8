"""An interval as it is shown."""

from __future__ import annotations

from decimal import Decimal

from smoothcert.report.metrics import Interval
from smoothcert.runs.exchange import rounded_down


def span(interval: Interval | None, percent: bool = True) -> str:
    """Its low end rounded down, its high end up."""
    if interval is None:
        return "unknown"
    low, high = rounded_down(interval.low, 3), rounded_down(-interval.high, 3).lstrip("-")
    if percent:
        low, high = (str((Decimal(end) * 100).quantize(Decimal("0.1"))) for end in (low, high))
    return f"{low} – {high}"
