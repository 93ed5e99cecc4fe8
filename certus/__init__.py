"""certus: classifiers that are provably robust, by randomized smoothing.

    input ─▶ procedure ─▶ Draw ─▶ engine ─▶ noise ─▶ classifier ─▶ counts ─▶ procedure ─▶ Certificate ─▶ run ─▶ report

>>> import certus
>>> smoothed = certus.Smoothed(certus.load("model.onnx"), certus.Gaussian(sigma=0.25), num_classes=10)
>>> smoothed.certify(x)                       # label, radius, and the evidence for both
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certus.classifiers import load
    from certus.classifiers.denoised import Denoised
    from certus.compositions import Aces, Route
    from certus.contracts import ABSTAIN, Certificate, Evidence
    from certus.ensembles import Ensemble
    from certus.errors import CertusError
    from certus.memory import Memory
    from certus.noise.discrete import Discrete
    from certus.noise.gaussian import Gaussian
    from certus.noise.gaussian_grid import GaussianGrid
    from certus.noise.splitting import Splitting
    from certus.noise.uniform import Uniform
    from certus.smoothed import Smoothed

__version__ = "0.1.0"

# Where each public name lives; imported when first used, so that `certus --help` does not wait for torch.
_HOME = {
    "ABSTAIN": "certus.contracts",
    "Aces": "certus.compositions",
    "Certificate": "certus.contracts",
    "CertusError": "certus.errors",
    "Denoised": "certus.classifiers.denoised",
    "Discrete": "certus.noise.discrete",
    "Ensemble": "certus.ensembles",
    "Evidence": "certus.contracts",
    "Gaussian": "certus.noise.gaussian",
    "GaussianGrid": "certus.noise.gaussian_grid",
    "Memory": "certus.memory",
    "Route": "certus.compositions",
    "Smoothed": "certus.smoothed",
    "Splitting": "certus.noise.splitting",
    "Uniform": "certus.noise.uniform",
    "load": "certus.classifiers",
}

__all__ = [
    "ABSTAIN", "Aces", "Certificate", "CertusError", "Denoised", "Discrete", "Ensemble", "Evidence", "Gaussian",
    "GaussianGrid", "Memory", "Route", "Smoothed", "Splitting", "Uniform", "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'certus' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
