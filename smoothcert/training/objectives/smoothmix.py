"""Mixing inputs with their adversaries to calibrate confidence (Jeong et al., NeurIPS 2021).

x̃: normalised steps up the smoothed loss from x, in [0,1] but in no ball. x_mix = (1−t)x + t·x̃ with t ~ U[0, ½] is to
be answered by y_mix = (1−t)·p̄(x) + t/C. Cross-entropy + η·KL(y_mix ‖ p(x_mix+ε)) on correct examples. For CIFAR-10:

    σ      steps  step_size  mixing η  copies
    0.25   4      0.5        5         2
    0.5    4      1          5         2
    1.0    4      2          5         2
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.contracts import Batch
from smoothcert.training.noisy import Noisy, along, ascent, evaluating, fresh, scores, unit
from smoothcert.training.objectives import Loss, warmed


@dataclass(frozen=True)
class Smoothmix(Loss):
    """`mixing` is η, warmed up over `warmup` epochs; with `first_step` the point after one step replaces x."""

    norms = ("l2",)  # of the steps
    published = {0.25: {"step_size": 0.5}, 0.5: {"step_size": 1.0}, 1.0: {"step_size": 2.0}}

    steps: int = 4
    step_size: float = 0.5
    mixing: float = 5.0
    copies: int = 2
    warmup: float = 10
    first_step: bool = False

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        noisy = fresh(batch, self.copies)
        path = self.path(model, batch, noisy)
        x, far = (path[0] if self.first_step else batch.x), path[-1]
        share = torch.rand(len(x), generator=batch.generator, device=batch.generator.device).to(x) / 2
        answers = scores(model, noisy(x))
        labels, correct = mixed_labels(answers.detach(), batch.y, share)
        between = x + along(share, x) * (far - x)
        logs = scores(model, noisy(between)).log_softmax(-1)
        divergence = (torch.xlogy(labels, labels) - labels * logs).sum(-1).mean(0) * correct
        mixing = self.mixing * warmed(batch.epoch, self.warmup) * divergence.mean()
        return {**self.terms(answers, batch), "mixing": mixing}

    def path(self, model: nn.Module, batch: Batch, noisy: Noisy) -> list[Tensor]:
        """The points after each step."""
        points, delta = [], torch.zeros_like(batch.x)
        with evaluating(model) as network:
            for _ in range(self.steps):
                gradient, _ = ascent(network, batch, delta, noisy)
                points.append((batch.x + delta + self.step_size * unit(gradient)).clamp(0, 1))
                delta = points[-1] - batch.x
        return points


def mixed_labels(answers: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """(1−t)·p̄ + t/C [batch, classes], and whether the mean answer is right [batch]."""
    mean = answers.softmax(-1).mean(0)
    t = share.unsqueeze(-1)
    return (1 - t) * mean + t / mean.shape[-1], mean.argmax(-1) == y
