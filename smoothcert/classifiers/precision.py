"""In which numbers a torch network computes: part of the function that is certified.

float32: as its weights are. On CUDA, TF32 is switched off, which torch takes for convolutions by itself.
tf32: on CUDA, products of float32 numbers that were rounded to 10 bits first.
bfloat16, float16: under torch.autocast, layers that bear it compute in half precision; scores are float32 again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import torch

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
HALF = ("bfloat16", "float16")

# How far scores may move by rounding alone, relative to the largest: a few units in the last place of such numbers.
ROUNDING = {"float32": 1e-3, "tf32": 1e-2, "float16": 1e-2, "bfloat16": 5e-2}


@contextlib.contextmanager
def computing(precision: str, device: str) -> Iterator[None]:
    """Inside, torch computes in these numbers on this device, whatever was said outside."""
    kind = torch.device(device).type
    with contextlib.ExitStack() as stack:
        if kind == "cuda":
            stack.enter_context(_tf32(precision == "tf32"))
        if precision in HALF:
            stack.enter_context(torch.autocast(kind, dtype=getattr(torch, precision)))
        elif torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """TF32 on or off, in the words of this version of torch; afterwards as it was."""
    matmul, cudnn = torch.backends.cuda.matmul, cast("Any", torch.backends.cudnn)
    switches: list[tuple[Any, str, Any]] = [(matmul, "allow_tf32", allowed), (cudnn, "allow_tf32", allowed)]
    if hasattr(matmul, "fp32_precision"):  # from torch 2.9 on, which refuses to be asked in the older words afterwards
        word = "tf32" if allowed else "ieee"
        switches = [(part, "fp32_precision", word) for part in (matmul, cudnn.conv, cudnn.rnn)]
    before = [getattr(part, name) for part, name, _ in switches]
    try:
        for part, name, value in switches:
            setattr(part, name, value)
        yield
    finally:
        for (part, name, _), value in zip(switches, before, strict=True):
            setattr(part, name, value)
