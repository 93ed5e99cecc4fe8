"""A run's noise as a reader names it: its kind and its level, each by its own letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.report.question import part
from smoothcert.runs.run import Run

GRID = ("gaussian_grid", "splitting")  # noises for inputs that are multiples of 1/grid
TABLE = ("discrete", "splitting")  # noises whose values come from a table, so that nothing is rounded


def noise_words(record: Run) -> str:
    """`Gaussian noise, σ = 0.25`; where each input has its own level, from which to which. Empty for a log."""
    noise = part(record, "noise")
    name = str(noise.get("name", ""))
    if not name:
        return ""
    kind = {"gaussian": "Gaussian noise", "gaussian_grid": f"Gaussian noise in steps of 1/{grid(noise)}"}
    level = _own_levels(record) or _level(noise)
    return ", ".join(words for words in (kind.get(name, f"{name.replace('_', ' ')} noise"), level) if words)


def grid(noise: Mapping[str, Any]) -> int:
    """Steps from 0 to 1; 255 where the record does not say, as for the noises themselves."""
    return int(noise.get("grid", 255))


def _level(noise: Mapping[str, Any]) -> str:
    if "keep" in noise:
        return f"each coordinate kept with probability {noise['keep']:g}, of {noise.get('values', 256)} values"
    if noise.get("lam"):
        return f"λ = {noise['lam']:.4g} (σ = {noise['sigma']:.4g})" if "sigma" in noise else f"λ = {noise['lam']:.4g}"
    return f"σ = {noise['sigma']:g}" if "sigma" in noise else ""


def _own_levels(record: Run) -> str:
    levels = [row.sigma for row in record.rows if row.sigma is not None]
    if not levels:
        return ""
    low, high = f"{min(levels):.3g}", f"{max(levels):.3g}"
    return f"σ = {low} for every input" if low == high else f"σ chosen for each input, {low} to {high}"
