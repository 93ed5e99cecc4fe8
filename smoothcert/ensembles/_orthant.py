"""The probability that all coordinates of a normal vector are positive, accurate also where it is close to one.

By sequential conditioning on one coordinate after the other (Geweke, Hajivassiliou and Keane; Genz 1992): each sample
contributes a product of normal probabilities, not a yes or no, so a miss of one in a million needs no million samples.
"""

from __future__ import annotations

import numpy as np

from smoothcert.ensembles._sample import Floats


def missed(means: Floats, root: Floats, uniforms: Floats) -> Floats:
    """1 − P(z > 0) for z ~ N(mean, root·rootᵀ), root lower triangular [d, d]: means [..., d] → [...].

    `uniforms` [..., samples, d−1] in (0,1) are the random numbers to use.
    """
    from scipy.special import ndtr, ndtri

    d = means.shape[-1]
    log_hit = np.zeros(uniforms.shape[:-1])
    steps = np.empty((d - 1, *uniforms.shape[:-1]))  # of the standard normals behind z, given that all so far are > 0
    for i in range(d):
        above = means[..., i, None] + np.tensordot(root[i, :i], steps[:i], axes=1)
        miss = np.minimum(ndtr(-above / root[i, i]), 1 - 1e-15)
        log_hit += np.log1p(-miss)
        if i < d - 1:
            steps[i] = -ndtri(np.maximum(uniforms[..., i] * (1 - miss), 1e-300))
    outside: Floats = -np.expm1(log_hit).mean(axis=-1)
    return outside


def root_of(covariance: Floats) -> Floats:
    """A lower triangular root; a covariance without full rank gets the little on its diagonal that gives it one."""
    d = len(covariance)
    size = max(float(np.trace(covariance)) / d, 1e-300)
    lift = 1e-12
    while True:
        try:
            return np.linalg.cholesky(covariance + lift * size * np.eye(d)).astype(np.float64)
        except np.linalg.LinAlgError:
            lift *= 10
