"""What is asked of a network that trains, again and again: is it certified at this radius, for how many inputs?

A copy of the network is asked, in eval mode: the one that trains, its modes and gradients, and the random numbers of
its training stay as they are.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.arguments import checked
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.contracts import Noise, Norm, Sampling
from smoothcert.errors import DataError, ModelError, reason, require_count
from smoothcert.noise import as_noise
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.spending import Spending
from smoothcert.smoothed import Smoothed, as_input
from smoothcert.streams import check_seed

CAP = 2000  # draws of one input: at r = 2σ it takes 301 if all hit; who is undecided after these counts as abstained
GUESS = 32  # draws that choose the class: who can be certified at r ≥ σ is guessed wrongly once in 10⁵ times
LEVEL = 0.95  # of intervals


@dataclass(frozen=True)
class CertifiedShare:
    """Of so many inputs, how many are certified at the radius with the right label."""

    certified: int
    abstained: int  # whose radius was not shown, for whatever class
    of: int
    draws: int
    radius: float
    norm: Norm
    notes: tuple[str, ...] = ()  # where the draws were not made in the fastest or exact way

    @property
    def share(self) -> float:
        return self.certified / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share among all inputs like these, at 95 %: exact (Clopper–Pearson)."""
        tail = (1.0 - LEVEL) / 2.0
        return lower_bound(self.certified, self.of, tail), upper_bound(self.certified, self.of, tail)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.share:.3f} of {self.of} inputs certified at {self.norm} radius {self.radius:g} "
            f"(95 % interval {low:.3f} to {high:.3f}), {self.abstained} abstained, {self.draws} draws"
        )


@checked
def certified_accuracy(
    network: Any,
    x: Any,
    y: Any,
    *,
    sigma: float | Noise,
    radius: float,
    cap: int = CAP,
    alpha: float = 0.001,
    seed: int = 0,
    batch: int | None = None,
) -> CertifiedShare:
    """The share of inputs x in [0,1] that are certified at `radius` with their label in y.

    `sigma` is the level of Gaussian noise, or a noise. An input takes at most `cap` draws, and each certificate is
    wrong with probability at most `alpha`. The same `seed` gives an input the same noise in each epoch. The network
    may be in train mode; a copy of it is measured in eval mode, on its device.
    """
    return TrainingQuestion(sigma, radius, cap, alpha, seed, batch).answer(network, x, y)


@dataclass(frozen=True)
class TrainingQuestion:
    """What is asked of a network again and again; refused here, where it makes no sense, before anything trains."""

    sigma: float | Noise
    radius: float
    cap: int = CAP
    alpha: float = 0.001
    seed: int = 0
    batch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", float(self.radius))
        object.__setattr__(self, "sigma", as_noise(self.sigma))
        _ = self.sampling  # checks radius, alpha and cap
        check_seed(self.seed)
        if self.batch is not None:
            require_count("a training's certificates", batch=self.batch)

    @property
    def noise(self) -> Noise:
        return as_noise(self.sigma)

    @property
    def sampling(self) -> Sampling:
        """As few draws as the radius needs; of a noise with few cases each of them."""
        known = (self.radius,)
        return Exhaustive(radii=known) if self.noise.counted else Spending(known, self.alpha, cap=self.cap)

    @property
    def name(self) -> str:
        """The radius with its norm, for the names of logged figures."""
        return f"{self.noise.norm}_{self.radius:g}"

    def answer(self, network: Any, x: Any, y: Any) -> CertifiedShare:
        """Certify these inputs at the radius."""
        inputs, labels = pairs(x, y)
        smoothed = Smoothed(_copied(network), self.noise, engine="torch")
        found = smoothed.certify_all(inputs, n0=GUESS, sampling=self.sampling, seed=self.seed, batch=self.batch)
        return CertifiedShare(
            certified=sum(one.label == label for one, label in zip(found, labels, strict=True)),
            abstained=sum(one.abstained for one in found),
            of=len(found),
            draws=sum(one.evidence.draws + GUESS * (one.alpha > 0) for one in found),
            radius=self.radius,
            norm=self.noise.norm,
            notes=smoothed.notes,
        )


def _copied(network: Any) -> Any:
    """The network in eval mode, as a copy: nothing that happens to it can reach the one that trains."""
    if not isinstance(network, nn.Module):
        return network
    try:
        return copy.deepcopy(network).eval()
    except Exception as error:
        # Whatever a network holds is copied with it, and may refuse that in any way.
        raise ModelError(
            f"the network must be one that copy.deepcopy can copy; it raised: {reason(error)} (give the part of it "
            "that takes inputs and returns scores)"
        ) from error


def pairs(x: Any, y: Any) -> tuple[list[Tensor], list[int]]:
    """Inputs and their labels, one by one."""
    try:
        several = list(x)
    except TypeError as error:
        raise DataError(f"x must be inputs [inputs, ...] as a tensor, an array or a list; got {kind(x)}") from error
    inputs = [as_input(one, number) for number, one in enumerate(several)]
    try:
        labels = torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"y must be the labels of x as a tensor, an array or a list; got {kind(y)}") from error
    if len(inputs) == 0 or labels.shape[:1] != (len(inputs),):
        raise DataError(
            f"x and y must be as many, and at least one; got {len(inputs)} inputs and labels of shape "
            f"{list(labels.shape)}"
        )
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.ndim != 1:
        raise DataError(
            f"y must be whole numbers, one label for each input; got {labels.dtype} of shape {list(labels.shape)} "
            "(of rows with a 1 in the place of the label: y.argmax(1))"
        )
    return inputs, [int(label) for label in labels]


def kind(value: Any) -> str:
    """What was given instead, in a few words."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{type(value).__name__} of shape {list(value.shape)}"
    return repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
