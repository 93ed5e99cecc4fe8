"""Cross-entropy at noisy copies of the input (Lecuyer et al. 2019; Cohen et al. 2019), whatever the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.errors import OptionError
from smoothcert.training.draws import fresh
from smoothcert.training.forward import scores


@dataclass(frozen=True)
class Gaussian:
    """Mean cross-entropy over `copies` noisy copies of each input; 1 as in the papers."""

    copies: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.copies, int) or isinstance(self.copies, bool) or self.copies < 1:
            raise OptionError(f"copies of gaussian must be a whole number of at least 1; got {self.copies}")

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        answers = scores(model, fresh(batch, self.copies)(batch.x))
        targets = batch.y.expand(self.copies, -1)
        return {"cross_entropy": F.cross_entropy(answers.flatten(0, 1), targets.flatten())}
