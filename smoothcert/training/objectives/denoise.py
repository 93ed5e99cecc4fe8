"""Squared error of a denoiser (Salman et al. 2020, "Denoised Smoothing", §3.1): mean (D(x+ε) − x)² over pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from smoothcert.contracts import Batch
from smoothcert.training.draws import fresh
from smoothcert.training.forward import scores
from smoothcert.training.published import require_count


@dataclass(frozen=True)
class Denoise:
    """The network must give back images: `--arch dncnn`."""

    RESTORES: ClassVar[bool] = True

    copies: int = 1

    def __post_init__(self) -> None:
        require_count("denoise", copies=self.copies)

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        return {"squared_error": (restored(model, batch, self.copies) - batch.x).square().mean()}


def restored(model: nn.Module, batch: Batch, copies: int) -> Tensor:
    """What the denoiser makes of noisy copies [copies, batch, ...]."""
    return scores(model, fresh(batch, copies)(batch.x))
