"""No noise: how a network is asked about the clean input, in the same batches as about noisy ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.contracts import Noise, Norm, Stream

if TYPE_CHECKING:
    from torch import Tensor

PROBE = "probe"  # the purpose under which the engine looks at a network before its first draw


@dataclass(frozen=True)
class Silence:
    """In the place of a noise. A probe is filled by that noise: equal rows would not show that batch mates matter."""

    instead: Noise

    @property
    def norm(self) -> Norm:
        return self.instead.norm

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        if stream.purpose == PROBE:
            self.instead.fill(out, x, stream, first)
        else:
            out[:] = x

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        return p_top * 0

    def need(self, radius: float, dim: int) -> float:
        return 1.0
