"""Augmentation of small images, as in the field's CIFAR protocol (He et al. 2015, §4.2)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from smoothcert.errors import OptionError

_PAD = 4


def crop_flip(x: Tensor, generator: Generator) -> Tensor:
    """Each image [batch, channels, h, w] padded by 4 zeros, cropped to its size at random, and mirrored or not."""
    if x.ndim != 4:
        raise OptionError(f"augment of training must be none unless inputs are images; got shape {list(x.shape[1:])}")
    count, _, height, width = x.shape
    padded = F.pad(x, (_PAD, _PAD, _PAD, _PAD))
    corners = torch.randint(2 * _PAD + 1, (2, count, 1), generator=generator)
    rows = corners[0] + torch.arange(height)
    columns = corners[1] + torch.arange(width)
    flip = torch.rand(count, 1, generator=generator) < 0.5
    columns = torch.where(flip, columns.flip(1), columns)
    which = torch.arange(count).view(-1, 1, 1)
    # Advanced indices around a slice put their dimensions first: [batch, h, w, channels].
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
