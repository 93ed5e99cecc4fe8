"""Cross-entropy at noisy copies of the input (Lecuyer et al. 2019; Cohen et al. 2019), whatever the noise."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from smoothcert.contracts import Batch
from smoothcert.errors import OptionError
from smoothcert.training.objectives import Loss


@dataclass(frozen=True)
class GaussianObjective(Loss):
    """Mean cross-entropy over `copies` noisy copies of each input; 1 as in the papers.

    `smoothing` is the share of each label that is spread over all classes (Szegedy et al. 2016); 0 as in the papers.
    """

    copies: int = 1
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing >= 1:
            raise OptionError(f"smoothing of {self.name} must be in [0, 1); got {self.smoothing}")

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        labels = batch.y.repeat(self.copies)
        return {"cross_entropy": F.cross_entropy(answers.flatten(0, 1), labels, label_smoothing=self.smoothing)}
