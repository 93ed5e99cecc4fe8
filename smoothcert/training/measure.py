"""What a network can do so far: a guide while it trains, not a result."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.bounds import proven_radii
from smoothcert.contracts import Batch
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
    """About what certification will say, from 100 draws on 200 inputs: accuracy by radius; nothing for denoisers."""
    random = generator(settings.seed, settings.epochs, "estimate")
    network.eval()
    noise, radii = settings.build_noise().fitted(watched.shape), []
    for index in _spread(len(watched), _ESTIMATED):
        x = watched.tensors(np.array([index]))
        answers = _asked(network, settings, x, _DRAWS, random)[:, 0]
        if answers.shape[1:] == x.shape[1:]:
            return {}
        votes = int((answers.argmax(dim=1) == int(watched.labels[index])).sum())
        radii.append(float(proven_radii(np.array(votes), _DRAWS, _ALPHA, noise, x[0].numel())))
    reach, steps = max(radii), _WHOLE if noise.whole else _RADII
    return {f"{r:g}": sum(radius >= r for radius in radii) / len(radii) for r in steps if r == 0 or r <= reach}


def _asked(network: nn.Module, settings: Settings, x: Tensor, copies: int, random: torch.Generator) -> Tensor:
    """What the network says of noisy copies of x [batch, ...]: [copies, batch, ...], on the CPU."""
    levels = torch.full((len(x),), settings.level)
    batch = Batch(x, torch.zeros(len(x)), levels, random, 0.0, settings.build_noise())
    device = next(network.parameters()).device
    return scores(network, fresh(batch, copies)(x).to(device)).cpu()


def _spread(count: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(0, count, math.ceil(count / most), dtype=np.int64)
