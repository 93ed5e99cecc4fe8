"""Consistency of answers under noise (Jeong & Shin, NeurIPS 2020).

Mean cross-entropy + λ·mean_k KL(p̄ ‖ p_k) + η·H(p̄), with p_k = softmax(f(x+ε_k)) and p̄ their mean. Published, 2 copies:

    σ      CIFAR-10: consistency λ  entropy η    ImageNet: λ  η
    0.25   20                       0.5          10           0.5
    0.5    10                       0.5          5            0.5
    1.0    10                       0.5          5            0.1
"""

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.training.objectives import Loss


@dataclass(frozen=True)
class Consistency(Loss):
    """`consistency` is λ, the weight of the divergence; `entropy` is η."""

    published = {0.25: {"consistency": 20.0}, 0.5: {"consistency": 10.0}, 1.0: {"consistency": 10.0}}

    copies: int = 2
    consistency: float = 20.0
    entropy: float = 0.5

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        logs = answers.log_softmax(-1)
        mean_log = logs.logsumexp(0) - math.log(self.copies)
        mean = mean_log.exp()
        divergence = (mean * (mean_log - logs)).sum(-1).mean()
        return {
            "cross_entropy": F.nll_loss(logs.flatten(0, 1), batch.y.repeat(self.copies)),
            "consistency": self.consistency * divergence,
            "entropy": -self.entropy * (mean * mean_log).sum(-1).mean(),
        }
