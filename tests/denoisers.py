"""Small denoisers and classifiers on disk, with weights that do something, and callables: `denoisers:halve`."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothcert.training import checkpoints

SHAPE = (1, 8, 8)


def write(folder: Path, arch: str, seed: int = 0, shape=SHAPE, classes: int = 10, **options) -> Path:
    """An untrained network as a checkpoint folder; every parameter is drawn, a denoiser's last layer too."""
    config = {"arch": arch, "arch_options": options, "shape": list(shape), "classes": classes, "data": "digits"}
    network = checkpoints.build(config, str(folder))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    folder.mkdir(parents=True)
    checkpoints.publish(folder, checkpoints.plain(network), config)
    return folder


def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def crop(x: torch.Tensor) -> torch.Tensor:
    return x[:, :-1]
