"""Consistency of answers under noise (Jeong & Shin, NeurIPS 2020).

Mean cross-entropy + λ·mean_k KL(p̄ ‖ p_k) + η·H(p̄), with p_k = softmax(f(x+ε_k)) and p̄ their mean. Published, 2 copies:

    σ      CIFAR-10: consistency λ  entropy η    ImageNet: λ  η
    0.25   20                       0.5          10           0.5
    0.5    10                       0.5          5            0.5
    1.0    10                       0.5          5            0.1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.training.draws import fresh
from smoothcert.training.forward import scores
from smoothcert.training.published import require_count, require_number


@dataclass(frozen=True)
class Consistency:
    """`consistency` is λ, the weight of the divergence; `entropy` is η."""

    PUBLISHED: ClassVar[Mapping[float, Mapping[str, Any]]] = {
        0.25: {"consistency": 20.0},
        0.5: {"consistency": 10.0},
        1.0: {"consistency": 10.0},
    }

    copies: int = 2
    consistency: float = 20.0
    entropy: float = 0.5

    def __post_init__(self) -> None:
        require_count("consistency", copies=self.copies)
        require_number("consistency", consistency=self.consistency, entropy=self.entropy)

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        answers = scores(model, fresh(batch, self.copies)(batch.x))
        logs = answers.log_softmax(-1)
        mean_log = logs.logsumexp(0) - math.log(self.copies)
        mean = mean_log.exp()
        divergence = (mean * (mean_log - logs)).sum(-1).mean()
        return {
            "cross_entropy": F.nll_loss(logs.flatten(0, 1), batch.y.repeat(self.copies)),
            "consistency": self.consistency * divergence,
            "entropy": -self.entropy * (mean * mean_log).sum(-1).mean(),
        }
