"""Where the random numbers of training come from. This is no evidence: certificates have streams of their own."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, epoch: int, purpose: str, process: int = 0) -> torch.Generator:
    """On the CPU wherever the network is, so that every device sees the same noise."""
    return torch.Generator().manual_seed(number(seed, epoch, purpose, process))


def number(seed: int, epoch: int, purpose: str, process: int = 0) -> int:
    """Torch keeps 32 bits of a seed, so mix them well."""
    name = f"{seed} {epoch} {purpose}" + (f" {process}" if process else "")
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
