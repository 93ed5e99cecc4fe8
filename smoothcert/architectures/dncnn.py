"""A denoiser, DnCNN (Zhang et al. 2017), as in denoised smoothing (Salman et al. 2020): images in, images out.

It predicts the noise and subtracts it. The last convolution begins at zero, so that an untrained denoiser gives back
its input. Depth 17 and 64 channels are the paper's, 558,400 parameters in colour; Salman's "wide" one is wider.
Names of weights are those of Salman's code: dncnn.{i}.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from smoothcert.architectures import Architecture, Normalise, start
from smoothcert.errors import OptionError


@dataclass(frozen=True)
class Dncnn(Architecture):
    """`dncnn17` is Dncnn(depth=17). Noise is predicted from the normalised image; the plain default is the paper's."""

    denoises = True
    smallest = 1

    depth: int = 17
    width: int = 64
    mean: Sequence[float] = field(default=(0.0,), kw_only=True)
    std: Sequence[float] = field(default=(1.0,), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth < 2:
            raise OptionError(f"depth of dncnn must be at least 2; got {self.depth}")

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        return Denoiser(normalise, shape[0], self.depth, self.width)


class Denoiser(nn.Module):
    """x − (predicted noise): [batch, channels, h, w] → the same shape."""

    def __init__(self, normalise: Normalise, channels: int, depth: int, width: int) -> None:
        super().__init__()
        self.normalise = normalise
        layers: list[nn.Module] = [nn.Conv2d(channels, width, kernel_size=3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            convolution = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
        last = nn.Conv2d(width, channels, kernel_size=3, padding=1, bias=False)
        self.dncnn = nn.Sequential(*layers, last)
        start(self)
        nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        noise: Tensor = self.dncnn(self.normalise(x))
        return x - noise
