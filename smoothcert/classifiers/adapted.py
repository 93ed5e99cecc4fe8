"""What stands between the inputs that noise is added to and a stranger's model: part of the function that is certified.

    output    which output of an ONNX file holds the scores
    layout    nhwc: the model takes channels last
    binary    the model gives one score for each input: the logit or the probability of the second of two classes
    precision tf32, bfloat16 or float16, in which a torch network computes
    offset    of every feature: the model takes x·width + offset, as where `--scale` measures features in their own
    width     units, and σ and radii with them

Everything here is a function of one input, so what is proven of the whole is proven of the model as it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from smoothcert.errors import ModelError, OptionError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.contracts import Classifier

LAYOUTS = ("nchw", "nhwc")
BINARY = ("logit", "probability")
PRECISIONS = ("tf32", "bfloat16", "float16")  # beside float32, which changes nothing


@dataclass(frozen=True)
class Adaptation:
    """How a model is called, where that is not as smoothcert calls models."""

    output: str = ""
    layout: Literal["", "nchw", "nhwc"] = ""
    offset: tuple[float, ...] = ()
    width: tuple[float, ...] = ()
    binary: Literal["", "logit", "probability"] = ""
    precision: Literal["", "tf32", "bfloat16", "float16"] = field(default="", repr=False)  # not of the network's layers

    def __post_init__(self) -> None:
        if self.layout and self.layout not in LAYOUTS:
            raise unknown("layout of a model", self.layout, LAYOUTS)
        if self.binary and self.binary not in BINARY:
            raise unknown("binary of a model", self.binary, BINARY)
        if self.precision and self.precision not in PRECISIONS:
            raise unknown("precision of a model", self.precision, ("float32", *PRECISIONS))
        if len(self.offset) != len(self.width):
            raise OptionError(f"a scale must have an offset for every width; got {len(self.offset)}, {len(self.width)}")
        if not all(math.isfinite(value) for value in (*self.offset, *self.width)) or min(self.width, default=1.0) <= 0:
            raise OptionError("a scale must have finite offsets, and widths above 0; got others")

    @property
    def options(self) -> dict[str, Any]:
        """What is asked for, without what is not."""
        said = ((name, value) for name, value in asdict(self).items() if value)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in said}

    def before(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] as noise left them → as the model takes them."""
        import torch

        if self.width:
            if math.prod(x.shape[1:]) != len(self.width):
                raise ModelError(f"a scale of {len(self.width)} features must meet as many; got {list(x.shape[1:])}")
            width, offset = (
                torch.tensor(value, dtype=torch.float64, device=x.device).view(x.shape[1:])
                for value in (self.width, self.offset)
            )
            x = (x.double() * width + offset).float()
        if self.layout == "nhwc":
            if x.ndim != 4:
                raise ModelError(f"layout nhwc must be of a model for images [channels, h, w]; got {list(x.shape[1:])}")
            x = x.permute(0, 2, 3, 1)
        return x

    def after(self, scores: Any) -> Any:
        """What the model gives → scores [batch, classes]: of one score a pair with the larger one where it points."""
        import torch

        if not self.binary:
            return scores
        one = torch.as_tensor(scores)
        if one.ndim not in (1, 2) or one.shape[1:] not in ((), (1,)):
            raise ModelError(f"binary must be of a model with one score an input; got scores {list(one.shape)}")
        one = one.reshape(-1)
        return torch.stack([-one if self.binary == "logit" else 1 - one, one], dim=1)


def adapted(classifier: Classifier, adaptation: Adaptation) -> Classifier:
    """The classifier, called in this way; whatever makes it fast still finds what it is."""
    from smoothcert.classifiers.callables import Function
    from smoothcert.classifiers.composed import HasMembers
    from smoothcert.classifiers.module import Module
    from smoothcert.classifiers.onnx import Onnx

    if not adaptation.options:
        return classifier
    if adaptation.precision and not isinstance(classifier, Module | HasMembers):
        kind = "an ONNX file, which computes as it says itself" if isinstance(classifier, Onnx) else "another model"
        raise ModelError(f"precision must be of a torch network; got {adaptation.precision} and {kind}")
    if isinstance(classifier, Onnx):
        return classifier.adapted(adaptation)
    if adaptation.output:
        raise ModelError(f"output must name an output of an ONNX file; got '{adaptation.output}' and another model")
    if isinstance(classifier, HasMembers):
        raise ModelError(
            "layout, scale and precision must be those of one model; got several networks: adapt each of them"
        )
    if isinstance(classifier, Module):
        precise = adaptation.precision or classifier.precision
        around = replace(adaptation, precision="")
        network = _network(classifier.network, around) if around.options else classifier.network
        return replace(classifier, network=network, precision=precise)
    inner: Callable[[Any], Any] = classifier.function if isinstance(classifier, Function) else classifier
    names = getattr(classifier, "class_names", ())
    return Function(lambda x: adaptation.after(inner(adaptation.before(x))), getattr(classifier, "note", ""), names)


def _network(network: Any, adaptation: Adaptation) -> Any:
    """The network with the adaptation as its first layer, so that both are exported and hashed together."""
    from torch import nn

    class AdaptedNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def extra_repr(self) -> str:
            return repr(adaptation)

        def forward(self, x: Tensor) -> Any:
            return adaptation.after(self.inner(adaptation.before(x)))

    return AdaptedNetwork().eval()
