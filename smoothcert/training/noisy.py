"""Noise in training: copies of a batch for the losses, attacks through them, and a level for every example.

A noise that is added (`ScalableNoise`) is drawn once, by torch, at each example's own level, and attacks climb through
it. Any other noise fills the copies as it does for certificates, example by example, and has no slope. Nothing of this
is evidence: certificates have streams of their own.
"""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from smoothcert.contracts import Batch, Noise, Stream
from smoothcert.noise import ScalableNoise, at_level
from smoothcert.noise.discrete import Discrete
from smoothcert.preparation import slope
from smoothcert.training import Settings

Noisy: TypeAlias = Callable[[Tensor], Tensor]  # points [batch, ...] → noisy copies [copies, batch, ...], draws held

_DDN_START, _DDN_GAMMA = 1.0, 0.05  # first norm, and how much it gives in each step
_WIDEST = 4.0  # an example's own σ stays within a factor of this of the common one


def generator(seed: int, epoch: int, purpose: str, process: int = 0) -> torch.Generator:
    """On the CPU wherever the network is, so that every device sees the same noise."""
    return torch.Generator().manual_seed(mixed(seed, epoch, purpose, process))


def mixed(seed: int, epoch: int, purpose: str, process: int = 0) -> int:
    """Torch keeps 32 bits of a seed, so mix them well."""
    name = f"{seed} {epoch} {purpose}" + (f" {process}" if process else "")
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def fresh(batch: Batch, copies: int) -> Noisy:
    """Fresh draws for a batch; keep them to use the same ones in an attack and in the loss."""
    if isinstance(batch.noise, ScalableNoise):
        noise = _unit(batch, batch.noise, copies) * along(batch.sigma, batch.x)
        return lambda at: at + noise
    seed = int(torch.randint(2**63 - 1, (), generator=batch.generator, device=batch.generator.device))
    return lambda at: filled(batch.noise, at, copies, seed)


def filled(noise: Noise, x: Tensor, copies: int, seed: int) -> Tensor:
    """Noisy copies [copies, batch, ...] of x; the same seed gives the same draws at any other x."""
    inputs = x.detach().float().cpu().contiguous()
    if isinstance(noise, Discrete):  # its coordinates are independent: the batch is as good as one long input
        out = torch.empty(copies, *x.shape)
        noise.fill(out, inputs, Stream(seed, 0, "training"), 0)
        return out.to(x)
    out = torch.empty(len(x), copies, *x.shape[1:])
    for number, own in enumerate(inputs):
        noise.fill(out[number], own, Stream(seed, number, "training"), 0)
    return out.transpose(0, 1).to(x)


def scores(model: nn.Module, noisy: Tensor) -> Tensor:
    """Noisy copies [copies, batch, ...] → scores [copies, batch, classes], by one forward pass."""
    flat = noisy.flatten(0, 1)
    if flat.ndim == 4:
        flat = flat.contiguous(memory_format=torch.channels_last)  # 1.3 × faster on the CPU
    answer: Tensor = model(flat)
    return answer.view(*noisy.shape[:2], *answer.shape[1:])


def smoothed_loss(answers: Tensor, y: Tensor) -> Tensor:
    """−log of the mean probability of y: scores [copies, batch, classes] → [batch]."""
    logs = answers.log_softmax(-1)
    picked = logs.gather(-1, y.expand(len(answers), -1).unsqueeze(-1)).squeeze(-1)
    return math.log(len(answers)) - picked.logsumexp(0)


# Attacks on a smoothed classifier (Salman et al. 2019, §2.3). Both look, in the l2 ball around x, for the point x̂ where
# −log mean_k softmax(f(x̂+ε_k))_y is largest, with draws ε_k that are given and stay: the same in attack and loss. The
# network is asked in eval mode, so that batch statistics are left alone, and x̂ stays in [0,1].


def pgd(
    model: nn.Module, batch: Batch, noisy: Noisy, radius: float, steps: int, step_size: float | None = None
) -> Tensor:
    """Projected gradient ascent by normalised steps, 2·radius/steps long unless told."""
    delta = torch.zeros_like(batch.x)
    with evaluating(model) as network:
        for _ in range(steps):
            gradient, _ = ascent(network, batch, delta, noisy)
            length = 2 * radius / steps if step_size is None else step_size
            moved = _inside(batch.x, delta + length * unit(gradient))
            delta = moved * along((radius / _length(moved)).clamp(max=1.0), moved)
    return batch.x + delta


def ddn(model: nn.Module, batch: Batch, noisy: Noisy, radius: float, steps: int) -> Tensor:
    """Decoupled direction and norm (Rony et al. 2019): the norm shrinks while the attack succeeds, up to radius."""
    delta = torch.zeros_like(batch.x)
    norm = torch.full((len(batch.x),), min(_DDN_START, radius), device=batch.x.device, dtype=batch.x.dtype)
    with evaluating(model) as network:
        for number in range(steps):
            gradient, answers = ascent(network, batch, delta, noisy)
            succeeds = answers.softmax(-1).mean(0).argmax(-1) != batch.y
            length = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * number / steps))
            norm = torch.where(succeeds, norm * (1 - _DDN_GAMMA), norm * (1 + _DDN_GAMMA)).clamp(max=radius)
            moved = delta + length * unit(gradient)
            delta = _inside(batch.x, unit(moved) * along(norm, moved))
    return batch.x + delta


def ascent(network: nn.Module, batch: Batch, delta: Tensor, noisy: Noisy) -> tuple[Tensor, Tensor]:
    """The gradient of the smoothed loss at x+delta, and the scores there."""
    with torch.enable_grad():
        delta = delta.detach().requires_grad_()
        answers = scores(network, noisy(batch.x + delta))
        (gradient,) = torch.autograd.grad(smoothed_loss(answers, batch.y).sum(), delta)
    return gradient, answers.detach()


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The network itself, without what devices and processes wrap around it, in eval mode for a while."""
    network = model
    while isinstance(inner := getattr(network, "module", None), nn.Module):
        network = inner
    was = network.training
    network.eval()
    try:
        yield network
    finally:
        network.train(was)


def unit(vectors: Tensor) -> Tensor:
    """Each of [batch, ...] at length 1; zeros stay."""
    return vectors / along(_length(vectors), vectors)


def along(values: Tensor, like: Tensor) -> Tensor:
    """One value for each example, [batch], so shaped that it multiplies [batch, ...]."""
    return values.view(-1, *(1 for _ in like.shape[1:]))


@dataclass(frozen=True, eq=False)
class SigmaMap:
    """A noise level for every training example, moved uphill as training goes on (Alfarra et al. 2022, §4).

    After a warm-up at one σ, each example's σ takes one step of gradient ascent on its radius an epoch, before its
    loss. `values` holds σ of every training example.
    """

    values: Tensor
    settings: Settings

    @classmethod
    def fresh(cls, settings: Settings, count: int) -> "SigmaMap":
        """All examples at the common σ; 1 for a noise that has none."""
        return cls(torch.full((count,), settings.level), settings)

    def moves(self, epoch: int) -> bool:
        """Whether levels are moved in this epoch."""
        return self.settings.sigma_per_example and epoch >= self.settings.sigma_warmup

    def step(self, network: nn.Module, batch: Batch, chosen: Tensor) -> Batch:
        """One step uphill for the examples of a batch; the batch at its new levels."""
        noise: Any = batch.noise  # one that a level stretches: `setup` refuses others
        common = float(noise.sigma)
        level = along(batch.sigma, batch.x)
        draws = _unit(batch, noise, self.settings.sigma_draws) * level / level  # rounded so since the first networks
        with evaluating(network) as evaluated:
            gradient, _, _ = slope(evaluated, at_level(noise, 1.0), batch.x, batch.sigma, draws)
        moved = (batch.sigma + self.settings.sigma_step * gradient).clamp(common / _WIDEST, common * _WIDEST)
        self.values[chosen] = moved.cpu()
        return batch._replace(sigma=moved)

    def share(self, fabric: Any, before: Tensor) -> None:
        """Bring the processes' maps together: each has moved other examples."""
        moved = fabric.all_reduce(self.values - before, reduce_op="sum")
        self.values.copy_(before + moved)


def _unit(batch: Batch, noise: ScalableNoise, copies: int) -> Tensor:
    """Noise of level 1 for the copies of a batch: [copies, batch, ...]."""
    return noise.unit((copies, *batch.x.shape), batch.generator).to(batch.x.device)


def _length(vectors: Tensor) -> Tensor:
    """Of each of [batch, ...]; never quite 0."""
    length: Tensor = vectors.flatten(1).norm(dim=1)
    return length.clamp_min(torch.finfo(vectors.dtype).tiny)


def _inside(x: Tensor, delta: Tensor) -> Tensor:
    return (x + delta).clamp(0, 1) - x
