"""smoothcert: classifiers that are provably robust, by randomized smoothing.

    input ─▶ procedure ─▶ Draw ─▶ engine ─▶ noise ─▶ classifier ─▶ counts ─▶ procedure ─▶ Certificate ─▶ run ─▶ report

>>> import smoothcert
>>> smoothed = smoothcert.Smoothed(smoothcert.load("model.onnx"), smoothcert.Gaussian(sigma=0.25), num_classes=10)
>>> smoothed.certify(x)                       # label, radius, and the evidence for both
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothcert.calls import certify, predict
    from smoothcert.classifiers import load
    from smoothcert.classifiers.composed import Denoised
    from smoothcert.classifiers.module import trusting
    from smoothcert.compositions import Aces, Route
    from smoothcert.contracts import ABSTAIN, Certificate, Evidence
    from smoothcert.ensembles.spec import Ensemble
    from smoothcert.errors import SmoothcertError
    from smoothcert.held import HeldRun, open_run
    from smoothcert.memory import Memory
    from smoothcert.noise.band import Band
    from smoothcert.noise.block import Block
    from smoothcert.noise.discrete import Discrete
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.noise.gaussian_grid import GaussianGrid
    from smoothcert.noise.splitting import Splitting
    from smoothcert.noise.uniform import Uniform
    from smoothcert.smoothed import Smoothed

__version__ = "0.1.0"

# Where each public name lives; imported when first used, so that `smoothcert --help` does not wait for torch.
_HOME = {
    "ABSTAIN": "smoothcert.contracts",
    "Aces": "smoothcert.compositions",
    "Band": "smoothcert.noise.band",
    "Block": "smoothcert.noise.block",
    "Certificate": "smoothcert.contracts",
    "SmoothcertError": "smoothcert.errors",
    "Denoised": "smoothcert.classifiers.composed",
    "Discrete": "smoothcert.noise.discrete",
    "Ensemble": "smoothcert.ensembles.spec",
    "Evidence": "smoothcert.contracts",
    "Gaussian": "smoothcert.noise.gaussian",
    "GaussianGrid": "smoothcert.noise.gaussian_grid",
    "HeldRun": "smoothcert.held",
    "Memory": "smoothcert.memory",
    "Route": "smoothcert.compositions",
    "Smoothed": "smoothcert.smoothed",
    "Splitting": "smoothcert.noise.splitting",
    "Uniform": "smoothcert.noise.uniform",
    "certify": "smoothcert.calls",
    "load": "smoothcert.classifiers",
    "open_run": "smoothcert.held",
    "predict": "smoothcert.calls",
    "trusting": "smoothcert.classifiers.module",
}

__all__ = [
    "ABSTAIN",
    "Aces",
    "Band",
    "Block",
    "Certificate",
    "Denoised",
    "Discrete",
    "Ensemble",
    "Evidence",
    "Gaussian",
    "GaussianGrid",
    "HeldRun",
    "Memory",
    "Route",
    "SmoothcertError",
    "Smoothed",
    "Splitting",
    "Uniform",
    "certify",
    "load",
    "open_run",
    "predict",
    "trusting",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smoothcert' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
