"""How well the variance model fits its sample: what the pictures of a forecast show, and a few numbers for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smoothcert.ensembles._sample import Floats, Sample
from smoothcert.ensembles._variance import Parts, zeta_by_input

FAR = 3.0  # deviations: a normal variable is below them in 0.13 % of cases


class Fit(NamedTuple):
    """Observed values, each in the unit that makes the model's curve the same for all."""

    noise: Floats  # noise part of the margin over the nearest rival, in standard deviations of its input and member
    clean: Floats  # clean part of the same margin, in standard deviations over the members of its input
    members: int  # behind each of these standard deviations
    modelled: Floats  # [inputs], ζ_p·Σ_p, the mean over rivals
    observed: Floats  # [inputs], covariance between two members under the same noise, the mean over rivals
    zeta_quartiles: tuple[float, float, float]  # of ζ_p input by input
    tail: float  # share of `noise` below −FAR, where large radii are decided


def fit(sample: Sample, parts: Parts, clean: str) -> Fit:
    """Hold the parts against the sample they come from."""
    noise = standardised_noise(sample, clean)
    apart = parts.apart[:, :, 0]
    spread = apart.std(axis=1, ddof=1, keepdims=True)
    kept = spread[:, 0] > 0.0
    diagonal = np.diagonal(parts.noise, axis1=1, axis2=2).mean(axis=1)
    low, middle, high = (float(value) for value in np.quantile(zeta_by_input(parts), (0.25, 0.5, 0.75)))
    return Fit(
        noise,
        (apart[kept] / spread[kept]).ravel(),
        apart.shape[1],
        parts.zeta_p * diagonal,
        np.diagonal(parts.shared, axis1=1, axis2=2).mean(axis=1),
        (low, middle, high),
        float((noise < -FAR).mean()) if len(noise) else 0.0,
    )


def standardised_noise(sample: Sample, clean: str) -> Floats:
    """What noise adds to the clean part of the margin over the nearest rival, where it adds anything."""
    margins = sample.noisy[..., 0]
    around = margins.mean(axis=2) if clean == "mean" else sample.clean[..., 0]
    spread = margins.std(axis=2, ddof=1)
    kept = spread > 0.0
    scaled: Floats = (margins - around[..., None])[kept] / spread[kept][:, None]
    return scaled.ravel()


def distance(values: Floats) -> float:
    """The largest difference between the values' distribution function and the normal one (Kolmogorov's)."""
    from scipy.special import ndtr

    if not len(values):
        return 0.0
    model, steps = ndtr(np.sort(values)), np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - model).max(), (model - steps[:-1]).max()))
