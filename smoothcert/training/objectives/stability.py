"""Stability of a frozen classifier behind a denoiser (Salman et al. 2020, "Denoised Smoothing", §3.2).

Cross-entropy between the class that the classifier gives x and its answer to D(x+ε): labels of people are not used.
Begin with a denoiser trained by `denoise` (`--from`).
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.training.checkpoints import read_any
from smoothcert.training.objectives import Loss


@dataclass(frozen=True)
class Stability(Loss):
    """`classifier` is a checkpoint; its weights are never changed."""

    denoises = True

    classifier: str
    copies: int = 1
    _loaded: list[nn.Module] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._loaded.append(read_any(self.classifier).requires_grad_(False))

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        frozen = self._loaded[0].to(batch.x.device)
        with torch.no_grad():
            wanted = frozen(batch.x).argmax(dim=1)
        return {"stability": F.cross_entropy(frozen(answers.flatten(0, 1)), wanted.repeat(self.copies))}
