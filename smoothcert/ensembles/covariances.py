"""Covariances behind the variance model, averaged over inputs (ENS, App. D, Figs 10 and 11), as matrices to look at.

Over margins, nearest rival first: of the clean part, of the noise part, between both, and between two members under the
same noise, as observed and as the model has it, ζ_p·Σ_p. Around a member's mean under noise the clean and the noise
part have no covariance, by definition; around the clean point they have the little that is there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcert.ensembles.variance import Floats, MarginSample, VarianceModel


class PartCovariances(NamedTuple):
    """Matrices [rivals, rivals] for one way to see the clean part: of it, of the noise part, and between both."""

    clean: Floats
    noise: Floats
    between: Floats  # clean part in rows, noise part in columns

    @property
    def blocks(self) -> Floats:
        """As Fig. 10 shows them: [clean, between; betweenᵀ, noise]."""
        return np.block([[self.clean, self.between], [self.between.T, self.noise]])

    @property
    def correlation(self) -> float:
        """The largest correlation of an averaged entry, in size; 0 where nothing varies."""
        scale = np.sqrt(np.outer(np.diagonal(self.clean), np.diagonal(self.noise)))
        return float(np.abs(np.divide(self.between, scale, out=np.zeros_like(scale), where=scale > 0)).max())

    def as_json(self) -> dict[str, Any]:
        matrices = {name: matrix.tolist() for name, matrix in self._asdict().items()}
        return {**matrices, "largest_correlation": self.correlation}


class CovarianceMaps(NamedTuple):
    """For both ways to see the clean part, and between the noise parts of two members."""

    mean: PartCovariances
    point: PartCovariances
    observed: Floats
    modelled: Floats

    @property
    def misfit(self) -> float:
        """How far the model is from what is observed between members, relative to it (Frobenius)."""
        size = float(np.linalg.norm(self.observed))
        return float(np.linalg.norm(self.modelled - self.observed)) / size if size > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        between = {"observed": self.observed.tolist(), "modelled": self.modelled.tolist(), "misfit": self.misfit}
        return {
            "margins": "the label's score less that of each rival, nearest first; averaged over inputs",
            "clean_part_as_mean": self.mean.as_json(),
            "clean_part_as_point": self.point.as_json(),
            "noise_parts_of_two_members": between,
        }


def covariance_maps(sample: MarginSample, parts: VarianceModel) -> CovarianceMaps:
    """From the sample of the members that the model was fitted to."""
    means = sample.noisy.mean(axis=2)
    moved = means - sample.clean  # what noise adds on average; 0 around the mean
    observed, modelled = parts.shared.mean(axis=0), parts.zeta_p * parts.noise.mean(axis=0)
    within: Floats = parts.noise.mean(axis=0)
    mean = PartCovariances(_over_members(means, means), within, np.zeros_like(within))
    point = PartCovariances(
        _over_members(sample.clean, sample.clean),
        within + _over_members(moved, moved),
        _over_members(sample.clean, moved),
    )
    return CovarianceMaps(mean, point, observed, modelled)


def _over_members(one: Floats, other: Floats) -> Floats:
    """The covariance over members [inputs, members, rivals] of an input, averaged over inputs."""
    first, second = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    found: Floats = np.einsum("nka,nkb->ab", first, second, optimize=True) / (len(one) * (one.shape[1] - 1))
    return found
