"""Weights that minimise the cross-entropy of the weighted vote under noise (SWEEN; METHODS section 4).

The vote is Σ w_k softmax(f_k(x+ε)), so only the probability q_k of the label matters and the loss −mean log Σ w_k q_k
is convex in w. `convex` draws one noisy sample and solves it, with a bound on what is left; `gradient` is the paper's
way, steps of Adam on softmax parameters with fresh noise in each. Members are only asked, never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from smoothcert.bounds import check_draws
from smoothcert.contracts import Classifier
from smoothcert.ensembles.holdout import HoldoutInputs, generator
from smoothcert.ensembles.weights import PROBABILITIES, Fitted, Floats, mixture, mixture_gap, mixture_loss
from smoothcert.errors import OptionError, unknown

WAYS = ("convex", "gradient")
LEAST = 1e-30  # a label ruled out entirely would make the loss infinite


@dataclass(frozen=True)
class Learned:
    """Cross-entropy on noisy hold-out inputs, as one convex programme or step by step."""

    votes: ClassVar[tuple[str, ...]] = PROBABILITIES

    method: str = "convex"
    draws: int = 4  # noisy copies of each input, for convex
    steps: int = 400  # for gradient
    batch: int = 128  # inputs in a step
    rate: float = 0.1  # Adam's, falling to almost nothing

    def __post_init__(self) -> None:
        if self.method not in WAYS:
            raise unknown("method of learned", str(self.method), WAYS)
        for option in ("draws", "steps", "batch"):
            check_draws(getattr(self, option), option, "learned")
        if not (isinstance(self.rate, int | float) and 0.0 < self.rate < float("inf")):
            raise OptionError(f"rate of learned must be a positive number; got {self.rate}")

    def work(self, members: int, inputs: int) -> int:
        """Member evaluations that a fit takes."""
        rows = inputs * self.draws if self.method == "convex" else self.steps * min(self.batch, inputs)
        return members * rows

    def fit(self, members: Sequence[Classifier], holdout: HoldoutInputs) -> Fitted:
        """Weights for these hold-out inputs under their noise."""
        holdout.check(members, 1, "learned weights")
        if self.method == "convex":
            likelihoods = _likelihoods(members, holdout, self.draws, 0)
            weights = mixture(likelihoods)
        else:
            weights, likelihoods = self._descend(members, holdout)
        return Fitted(tuple(float(weight) for weight in weights), _report(likelihoods, weights))

    def _descend(self, members: Sequence[Classifier], holdout: HoldoutInputs) -> tuple[Floats, Floats]:
        """Adam on softmax parameters; the weights of the second half of the way are averaged."""
        parameters = torch.zeros(len(members), dtype=torch.float64)
        adam = torch.optim.Adam([parameters], lr=self.rate)
        fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.01, self.steps)
        passed, seen = [], []
        for step, chosen in enumerate(_batches(len(holdout.inputs), self.batch, self.steps, holdout.seed)):
            q = _likelihoods(members, holdout._replace(inputs=holdout.inputs.chosen(chosen)), 1, step)
            weights = parameters.softmax(0).numpy()
            slope = -(q / (q @ weights)[:, None]).mean(axis=0)
            parameters.grad = torch.from_numpy(weights * (slope - slope @ weights))
            adam.step()
            fall.step()
            passed.append(parameters.softmax(0).numpy())
            seen.append(q)
        return np.mean(passed[self.steps // 2 :], axis=0), np.concatenate(seen)


def _likelihoods(members: Sequence[Classifier], holdout: HoldoutInputs, draws: int, first: int) -> Floats:
    """The probability that each member gives to the label of each noisy copy: [rows, members]."""
    labels, parts = holdout.inputs.labels, []
    for owner, scores in holdout.scores(members, draws, "weights", first):
        parts.append(scores.softmax(dim=2).numpy()[:, np.arange(len(owner)), labels[owner]].T)
    found: Floats = np.maximum(np.concatenate(parts), LEAST)
    return found


def _batches(inputs: int, batch: int, steps: int, seed: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Positions of the inputs of each step: one shuffled pass after the other."""
    rng, size = generator(seed, 0, "weights order"), min(batch, inputs)
    queue = rng.permutation(inputs)
    for _ in range(steps):
        if len(queue) < size:
            queue = rng.permutation(inputs)
        yield queue[:size]
        queue = queue[size:]


def _report(likelihoods: Floats, weights: Floats) -> Mapping[str, float]:
    """Losses of these and of other weights on the same noisy copies, and what the best of all could still gain."""
    k = len(weights)
    return {
        "loss": mixture_loss(likelihoods, weights),
        "loss_uniform": mixture_loss(likelihoods, np.full(k, 1 / k)),
        "loss_best_member": min(mixture_loss(likelihoods, member) for member in np.eye(k)),
        "gap": mixture_gap(likelihoods, weights),
        "rows": float(len(likelihoods)),
    }
