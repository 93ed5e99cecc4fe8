"""λ, the half-width of the l1 noises, from whichever of λ and the standard deviation σ = λ/√3 was given."""

from __future__ import annotations

import math

from smoothcert.errors import OptionError

ROOT = math.sqrt(3.0)


def half_width(whose: str, lam: float, sigma: float) -> float:
    """λ; 0 stands for an option that was not given."""
    for option, value in (("lam", lam), ("sigma", sigma)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
            raise OptionError(f"{option} of {whose} must be a positive number, for inputs in [0,1]; got {value}")
    if lam == 0.0 and sigma == 0.0:
        raise OptionError(f"{whose} needs a value for sigma, its standard deviation, or for lam = sigma·√3; got none")
    if lam > 0.0 and sigma > 0.0 and not math.isclose(lam, sigma * ROOT, rel_tol=1e-9):
        raise OptionError(f"lam of {whose} must be sigma·√3, here {sigma * ROOT:g}, or given alone; got {lam:g}")
    return float(lam) or sigma * ROOT


def needed(radius: float, lam: float) -> float:
    """½ + r/(2λ), rounded up; above 1 where the radius is out of reach."""
    return math.nextafter(0.5 + radius / (2 * lam) * (1 + 1e-15), math.inf)
