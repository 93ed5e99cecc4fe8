"""Stability of a frozen classifier behind a denoiser (Salman et al. 2020, "Denoised Smoothing", §3.2).

Cross-entropy between the class that the classifier gives x and its answer to D(x+ε): labels of people are not used.
Begin with a denoiser trained by `denoise` (`--from`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.training.checkpoints import read_any
from smoothcert.training.objectives.denoise import restored
from smoothcert.training.published import require_count


@dataclass(frozen=True)
class Stability:
    """`classifier` is a checkpoint; its weights are never changed."""

    RESTORES: ClassVar[bool] = True

    classifier: str
    copies: int = 1
    _loaded: list[nn.Module] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_count("stability", copies=self.copies)
        self._loaded.append(read_any(self.classifier).requires_grad_(False))

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        frozen = self._loaded[0].to(batch.x.device)
        with torch.no_grad():
            wanted = frozen(batch.x).argmax(dim=1)
        answers = frozen(restored(model, batch, self.copies).flatten(0, 1))
        return {"stability": F.cross_entropy(answers, wanted.repeat(self.copies))}
