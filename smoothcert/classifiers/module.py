"""A torch network or any callable as a classifier: device, eval mode and precision are settled here, nowhere else."""

from __future__ import annotations

import contextlib
import copy
import importlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.classifiers.digests import state_digest
from smoothcert.errors import ModelError, OptionError


@dataclass(frozen=True, eq=False)
class Module:
    """A network in eval mode on a device. Normalisation belongs inside it: it is given inputs in [0,1] plus noise."""

    network: nn.Module
    device: str = ""  # where it is, unless said otherwise

    def __post_init__(self) -> None:
        self._refuse_training()
        if not self.device:
            here = next((str(tensor.device) for tensor in self.network.state_dict().values()), "cpu")
            object.__setattr__(self, "device", here)

    def state(self) -> str:
        """What the network is now, layers and weights, as a hash; train mode is refused. It takes 0.6 ms a megabyte."""
        self._refuse_training()
        return f"{state_digest(self.network)} {self.network!r}"

    def _refuse_training(self) -> None:
        training = [name or "the network" for name, part in self.network.named_modules() if part.training]
        if training:
            raise ModelError(
                f"the network must be in eval mode (call .eval()); got {len(training)} parts in train mode, "
                f"first: {training[0]}"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] → scores [batch, classes] in float32 on the CPU."""
        with torch.inference_mode():
            on_device = x.to(self.device)
            if on_device.ndim == 4:
                on_device = on_device.contiguous(memory_format=torch.channels_last)
            scores: Any = self.network(on_device)
        if not isinstance(scores, torch.Tensor):
            raise ModelError(f"the network must return a tensor of scores; got {type(scores).__name__}")
        return scores.float().cpu()


def arranged(network: nn.Module, example: Tensor, device: str) -> Module:
    """A copy of the network made fast on a device: batch-norm folded where that can be done, channels last."""
    fast = _folded(network, example)
    if any(parameter.ndim == 4 for parameter in fast.parameters()):
        fast = fast.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        return Module(fast.to(device), device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"engine must name a device that torch has here; got 'torch:{device}' ({reason})") from error


def _folded(network: nn.Module, example: Tensor) -> nn.Module:
    """A copy with batch-norm folded into convolutions, if the network can be traced and its scores stay the same."""
    from torch.fx.experimental.optimization import fuse

    plain = copy.deepcopy(network)
    try:
        with torch.no_grad():
            noisy = example + 0.25 * torch.randn(16, *example.shape, generator=torch.Generator().manual_seed(0))
            expected, candidate = plain(noisy), fuse(plain).eval()
            close = bool((candidate(noisy) - expected).abs().max() <= 1e-3 * expected.abs().max())
    except Exception:
        # Tracing a stranger's network may fail in any way; the network itself is then as good, only slower.
        return plain
    return candidate if close else plain


@dataclass(frozen=True, eq=False)
class Function:
    """Calls with a float32 tensor [batch, ...]; takes a tensor or an array of scores [batch, classes] back."""

    function: Callable[[Any], Any]

    def __call__(self, x: Tensor) -> Tensor:
        try:
            scores = self.function(x)
        except Exception as error:
            # A stranger's code may raise anything; it is their input that is bad, and this names it in one line.
            raise ModelError(
                f"the classifier must accept inputs {list(x.shape)}; it raised {type(error).__name__}: {error}"
            ) from error
        if isinstance(scores, np.ndarray):
            scores = torch.from_numpy(scores)
        return scores.detach().float().cpu() if isinstance(scores, torch.Tensor) else scores


TRUST: ContextVar[bool] = ContextVar("TRUST", default=False)  # whether code that files name may be imported


@contextlib.contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, code that is named by runs, documents and composites is imported: `smoothcert --trust-code`."""
    before = TRUST.set(trust)
    try:
        yield
    finally:
        TRUST.reset(before)


def resolve(spec: str, named_by: str = "") -> Any:
    """The object that `package.module:callable` names; installed packages come first, then the current folder.

    `named_by`: the file that names it. To import is to execute, so that must have been allowed.
    """
    if named_by and not TRUST.get():
        raise ModelError(
            f"model {spec} is code that {named_by} names: it is imported only with --trust-code (in Python inside "
            "smoothcert.trusting()), or where you name it yourself (--model)"
        )
    module_name, _, attribute = spec.partition(":")
    if "" not in sys.path:
        sys.path.append("")
    try:
        target: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(f"model must name a callable that can be imported; got '{spec}' ({error})") from error
    if not callable(target):
        raise ModelError(f"model must name a callable; '{spec}' is of type {type(target).__name__}")
    return target
