"""What a network can do so far: a guide while it trains, not a result."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.bounds import Integers, proven_radii, radii_between
from smoothcert.contracts import EVERY, Batch, Noise, Stream
from smoothcert.data import Inputs
from smoothcert.training import Settings
from smoothcert.training.noisy import fresh, generator, scores

_WATCHED, _ESTIMATED, _DRAWS, _ALPHA = 1000, 200, 100, 0.05
_RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_WHOLE = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)  # coordinates in l0, pixels of a patch


@torch.inference_mode()
def measured(network: nn.Module, watched: Inputs, settings: Settings, epoch: int) -> dict[str, float]:
    """The share of (at most 1000) inputs of which one noisy copy is classified rightly; a denoiser's squared error."""
    random = generator(settings.seed, epoch, "accuracy")
    every = _spread(len(watched), _WATCHED)
    network.eval()
    right, squares, denoises = 0, 0.0, False
    for start in range(0, len(every), settings.batch):
        chosen = every[start : start + settings.batch]
        x = watched.tensors(chosen)
        answers = _asked(network, settings, x, 1, random)[0]
        denoises = answers.shape == x.shape
        if denoises:
            squares += float((answers - x).square().flatten(1).mean(1).sum())
        else:
            right += int((answers.argmax(dim=1) == torch.from_numpy(watched.labels[chosen])).sum())
    return {"noisy_mse": squares / len(every)} if denoises else {"noisy_accuracy": right / len(every)}


@torch.inference_mode()
def certified_estimate(network: nn.Module, watched: Inputs, settings: Settings) -> dict[str, float]:
    """About what certification will say, from 100 draws on 200 inputs: accuracy by radius; nothing for denoisers.

    Of a noise with few cases each of them is asked about instead.
    """
    random = generator(settings.seed, settings.epochs, "estimate")
    network.eval()
    noise, radii = settings.build_noise().fitted(watched.shape), []
    counted = noise.counted and noise.cases <= _DRAWS
    for index in _spread(len(watched), _ESTIMATED):
        x, label = watched.tensors(np.array([index])), int(watched.labels[index])
        answers = _every(network, noise, x) if counted else _asked(network, settings, x, _DRAWS, random)[:, 0]
        if answers.shape[1:] == x.shape[1:]:
            return {}
        votes = answers.argmax(dim=1).bincount(minlength=answers.shape[1]).numpy()
        radii.append(_radius(votes, label, noise, x[0].numel(), counted))
    reach, steps = max(radii), _WHOLE if noise.whole else _RADII
    return {f"{r:g}": sum(radius >= r for radius in radii) / len(radii) for r in steps if r == 0 or r <= reach}


def _radius(votes: Integers, label: int, noise: Noise, dim: int, counted: bool) -> float:
    """What these votes prove for the label."""
    if not counted:
        return float(proven_radii(votes[label], _DRAWS, _ALPHA, noise, dim))
    others = np.delete(votes + (np.arange(len(votes)) < label), label).max()  # which win ties by their number
    return float(radii_between(votes[label] / votes.sum(), others / votes.sum(), noise, dim, exact=True))


def _every(network: nn.Module, noise: Noise, x: Tensor) -> Tensor:
    """What the network says of every case of the noise at one input [1, ...]: [cases, ...], on the CPU."""
    copies = torch.empty(noise.cases or 0, *x.shape[1:])
    noise.fill(copies, x[0], Stream(0, 0, EVERY), 0)
    return scores(network, copies.unsqueeze(1).to(next(network.parameters()).device))[:, 0].cpu()


def _asked(network: nn.Module, settings: Settings, x: Tensor, copies: int, random: torch.Generator) -> Tensor:
    """What the network says of noisy copies of x [batch, ...]: [copies, batch, ...], on the CPU."""
    levels = torch.full((len(x),), settings.level)
    batch = Batch(x, torch.zeros(len(x)), levels, random, 0.0, settings.build_noise())
    device = next(network.parameters()).device
    return scores(network, fresh(batch, copies)(x).to(device)).cpu()


def _spread(count: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(0, count, math.ceil(count / most), dtype=np.int64)
