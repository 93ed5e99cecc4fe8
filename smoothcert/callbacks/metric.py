"""Certified accuracy as a metric of torchmetrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smoothcert.arguments import checked
from smoothcert.callbacks.grown import Grown, installed
from smoothcert.callbacks.question import CAP, TrainingQuestion, kind
from smoothcert.contracts import Noise
from smoothcert.errors import ModelError

_INSTANCES = itertools.count()


class Shared:
    """Holds a network that belongs to somebody else: no part of its holder, and not copied with it alone."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared:
        """Copied together with its network it holds the copy, otherwise the network that goes on training."""
        return Shared(memo.get(id(self.network), self.network))


class CertifiedAccuracy(Grown):
    """A metric of torchmetrics: the share of inputs certified at `radius` with the right label.

    >>> metric = CertifiedAccuracy(network, sigma=0.25, radius=0.5)
    >>> metric.update(x, y)                     # inputs in [0,1], not scores
    >>> metric.compute()

    The network is asked as it is at each update. Noise belongs to an input, so batches change nothing. Options are
    those of `certified_accuracy`; others go to `torchmetrics.Metric`.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False  # or every batch would be drawn twice

    certified: Tensor
    total: Tensor
    add_state: Callable[..., None]

    @checked
    def __init__(
        self,
        network: Any,
        *,
        sigma: float | Noise,
        radius: float,
        cap: int = CAP,
        alpha: float = 0.001,
        seed: int = 0,
        batch: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not callable(network):
            raise ModelError(f"a model must be a torch module or a callable; got {kind(network)}")
        self._shared = Shared(network)  # a metric inside of the network it asks would be a circle of modules
        self._question = TrainingQuestion(sigma, radius, cap, alpha, seed, batch)
        self.add_state("certified", default=torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", default=torch.tensor(0), dist_reduce_fx="sum")
        # A MetricCollection takes metrics with equal states after the first update for one and the same, and updates
        # only one of them: other radii, or other networks, would have its figure. This state is never equal.
        self.add_state("instance", default=torch.tensor(next(_INSTANCES)), dist_reduce_fx="max")

    @classmethod
    def bases(cls) -> tuple[type, ...]:
        return (installed("CertifiedAccuracy", "torchmetrics").Metric,)

    def update(self, x: Any, y: Any) -> None:
        """Certify inputs x [batch, ...] with labels y [batch]."""
        asked = self._question.answer(self._shared.network, x, y)
        self.certified = self.certified + asked.certified
        self.total = self.total + asked.of

    def compute(self) -> Tensor:
        """Certified with the right label ÷ all."""
        return self.certified / self.total
