"""In which order a device works: two queues on CUDA, one elsewhere; moments in them, and what is brought over and back.

Written for CUDA after torch's documentation; only the other side of each choice has been run.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch

from smoothcert.contracts import Tensor

WORDS = ("out of memory", "can't allocate memory", "not enough memory")


def out_of_memory(error: RuntimeError) -> bool:
    """Whether torch has found no room, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in WORDS)


class Queues:
    """Two queues of work on CUDA, for noise and for networks; elsewhere everything is done in its turn."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.cuda = self.device.type == "cuda"
        self.noise: Any = self._made() if self.cuda else None
        self.network: Any = self._made() if self.cuda else None

    def _made(self) -> Any:
        made: Any = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        made.wait_stream(torch.cuda.current_stream(self.device))  # where weights were brought over
        return made

    def on(self, queue: Any) -> Any:
        return torch.cuda.stream(queue) if self.cuda else contextlib.nullcontext()

    def mark(self) -> Any:
        """A moment in the present queue."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def after(self, mark: Any) -> None:
        """What follows in the present queue comes after that moment."""
        if self.cuda and mark is not None:
            torch.cuda.current_stream(self.device).wait_event(mark)

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1000 if self.cuda else float(end - start)

    def sent(self, x: Tensor) -> Tensor:
        """Over to the device, without waiting where that can be."""
        return x.pin_memory().to(self.device, non_blocking=True) if self.cuda else x.to(self.device)

    def fetched(self, x: Tensor) -> Tensor:
        """Back to the host; on CUDA there when the present moment has passed."""
        if not self.cuda:
            return x
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        return host.copy_(x, non_blocking=True)
