"""A torch network as a classifier: device, eval mode and precision are settled here; whether named code is trusted."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.classifiers.digests import state_digest
from smoothcert.classifiers.estimator import is_estimator
from smoothcert.classifiers.precision import ROUNDING, computing
from smoothcert.classifiers.scores import Place, Scored, as_tensor, find
from smoothcert.errors import ModelError, OptionError

TOKENS = (
    "the model must take numbers that noise can be added to; got {}, which takes token ids: between two words there is "
    "nothing (what follows the embedding would be a classifier of vectors)"
)


@dataclass(frozen=True, eq=False)
class Module:
    """A network in eval mode on a device. Normalisation belongs inside it: it is given inputs in [0,1] plus noise."""

    network: nn.Module
    device: str = ""  # where it is, unless said otherwise
    rows: int | None = None  # a batch size frozen at export
    shape: tuple[int, ...] | None = None  # of inputs, where others would pass and be wrong
    class_names: tuple[str, ...] = ()
    about: str = ""  # what its user should know of how it was taken
    precision: str = "float32"
    _place: Place | None = field(init=False, default=None, repr=False)  # of the scores, once something was returned

    def __post_init__(self) -> None:
        self._refuse_training()
        _refuse_tokens(self.network)
        if not self.device:
            here = next((str(tensor.device) for tensor in self.network.state_dict().values()), "cpu")
            object.__setattr__(self, "device", here)

    @property
    def note(self) -> str:
        """What was decided for the user: known once it has been called."""
        return "; ".join(part for part in (self.about, self._place.note if self._place else "") if part)

    @property
    def rounding(self) -> float:
        """How far scores may move by rounding alone, relative to the largest."""
        return ROUNDING[self.precision]

    @property
    def scoring(self) -> nn.Module:
        """The network as one that returns its scores and nothing else: itself, where it is known to do that."""
        return self.network if self._place == Place() else Scored(self.network, self._place)

    @property
    def exportable(self) -> nn.Module:
        """The same for export to ONNX; ModelError where it is known that this cannot be."""
        if self.precision != "float32":
            raise ModelError(f"not exportable to ONNX (precision {self.precision} is torch's own)")
        if self.rows is not None:
            fix = "export it with dynamic_shapes=({0: torch.export.Dim('batch')},)"
            raise ModelError(f"not exportable to ONNX (the batch is frozen at {self.rows} rows: {fix})")
        if any(isinstance(part, torch.jit.ScriptModule) for part in self.network.modules()):
            raise ModelError("not exportable to ONNX (TorchScript is not)")
        return self.scoring

    def state(self) -> str:
        """What the network is now, layers and weights, as a hash; train mode is refused. It takes 0.6 ms a megabyte."""
        self._refuse_training()
        said = "" if self.precision == "float32" else f" {self.precision}"
        return f"{state_digest(self.network)} {self.network!r}{said}"

    def _refuse_training(self) -> None:
        training = [name or "the network" for name, part in self.network.named_modules() if in_training(part)]
        if training:
            raise ModelError(
                f"the network must be in eval mode (call .eval()); got {len(training)} parts in train mode, "
                f"first: {training[0]}"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] → scores [batch, classes] in float32, where the inputs are."""
        if self.shape is not None and tuple(x.shape[1:]) != self.shape:
            size = f" (--image-size {self.shape[-1]})" if self.shape[-2:] == self.shape[-1:] * 2 else ""
            raise ModelError(f"the model takes inputs {list(self.shape)}; got {list(x.shape[1:])}{size}")
        with torch.inference_mode(), computing(self.precision, self.device):
            on_device = x.to(self.device)
            if on_device.ndim == 4:
                on_device = on_device.contiguous(memory_format=torch.channels_last)
            output: Any = self.network(on_device)
        if self._place is None:
            object.__setattr__(self, "_place", find(output, len(x)))
        return as_tensor((self._place or Place()).take(output), len(x), x.device)


def in_training(network: nn.Module) -> bool:
    """Whether this part is in train mode; a frozen TorchScript program has no mode."""
    return bool(getattr(network, "training", False))


def _refuse_tokens(network: nn.Module) -> None:
    """Refuse a text model of Hugging Face. Every model of theirs says that it takes input_ids unless told otherwise."""
    if getattr(network, "main_input_name", "") != "input_ids":
        return
    if next(iter(inspect.signature(network.forward).parameters), "") == "input_ids":
        raise ModelError(TOKENS.format(type(network).__name__))


def arranged(classifier: Module, example: Tensor, device: str) -> Module:
    """A copy of the network made fast on a device: batch-norm folded where that can be done, channels last."""
    if classifier.precision == "tf32" and torch.device(device).type != "cuda":
        raise OptionError(f"precision tf32 must be computed on CUDA (--engine torch:cuda); got the device '{device}'")
    fast = _folded(classifier.scoring, example)
    script = any(isinstance(part, torch.jit.ScriptModule) for part in fast.modules())  # stays as it was saved
    if not script and any(parameter.ndim == 4 for parameter in fast.parameters()):
        fast = fast.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TorchScript, about gradients that nobody wants
            return Module(fast.to(device), device, classifier.rows, precision=classifier.precision)
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


TRUST: ContextVar[bool] = ContextVar("TRUST", default=False)  # whether code that files name or hold may be run


@contextlib.contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, code that runs, documents and composites name, or pickles hold, is run: `smoothcert --trust-code`."""
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
    if not callable(target) and not is_estimator(target):
        raise ModelError(f"model must name a callable or an estimator; '{spec}' is of type {type(target).__name__}")
    return target
