"""Projected gradient ascent on the smoothed loss (Salman et al. 2019): −log mean softmax(f(x′+ε))_label, fresh noise
in every step.

The gradient is taken at the noisy copies and added up. For noise that is added this is the gradient at the point; for
noise that replaces or cuts values it is the way in which the copies would have to move, which is as good as any guess.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.audit._draws import noisy
from smoothcert.audit._search import SPREADS, Target
from smoothcert.contracts import Classifier, Stream

if TYPE_CHECKING:
    from smoothcert.contracts import Source


def climb(target: Target, network: Classifier, steps: int, draws: int, seed: int, index: int) -> Tensor:
    """The point where some normalised steps, each two radii long in all together, end."""
    ball, x = target.ball, target.x
    source, moved = replace(target.source, classifier=network), torch.zeros(x.shape, dtype=torch.float64)
    for number in range(steps):
        gradient = ascent(source, ball.put(x, moved), target.label, Stream(seed, index, f"audit climb {number}"), draws)
        if not bool(gradient.abs().sum() > 0):  # a vote by one-hot scores has no slope
            break
        spread = SPREADS[number % len(SPREADS)]
        moved = ball.shortened(moved + 2 / steps * ball.steepest(gradient, x, spread).double())
    return ball.put(x, moved)


def ascent(source: Source, at: Tensor, label: int, stream: Stream, draws: int) -> Tensor:
    """The gradient of the smoothed loss up to a positive factor: −Σ ∇p = −Σ p∇log p, which does not underflow."""
    total = torch.zeros(at.shape)
    for batch, number in noisy(source, at, stream, draws):
        copies = batch[:number].requires_grad_()
        logs = source.classifier(copies).log_softmax(dim=1)[:, label]
        if logs.requires_grad:
            (gradient,) = torch.autograd.grad(-(logs.detach().exp() * logs).sum(), copies)
            total += gradient.sum(dim=0)
    return total
