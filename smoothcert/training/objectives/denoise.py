"""Squared error of a denoiser (Salman et al. 2020, "Denoised Smoothing", §3.1): mean (D(x+ε) − x)² over pixels."""

from dataclasses import dataclass

from torch import Tensor

from smoothcert.contracts import Batch
from smoothcert.training.objectives import Loss


@dataclass(frozen=True)
class Denoise(Loss):
    """The network must give back images: `--arch dncnn`."""

    denoises = True

    copies: int = 1

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"squared_error": (answers - batch.x).square().mean()}
