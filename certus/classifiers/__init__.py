"""② Anything → scores: one file for each kind of thing that can be a classifier.

`load` turns a name into a classifier, `wrap` does it for an object, `ready` makes it as fast as it can be here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from certus.errors import ModelError, OptionError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from certus.classifiers.module import Module
    from certus.classifiers.onnx import Onnx
    from certus.contracts import Classifier

ENGINES = ("auto", "onnxruntime", "torch", "torch:DEVICE")


def load(spec: str | Path) -> Classifier:
    """A checkpoint folder or weights file, `file.onnx`, or `package.module:callable` → classifier."""
    text, path = str(spec), Path(spec)
    if path.suffix == ".onnx":
        from certus.classifiers.onnx import Onnx

        return Onnx(path)
    if path.exists():
        from certus.classifiers.module import Module
        from certus.training.checkpoints import read_any

        return Module(read_any(path))
    if ":" in text:
        from certus.classifiers.function import resolve

        return wrap(resolve(text))
    raise ModelError(
        f"model must be a checkpoint folder, a file.onnx, or package.module:callable; there is no '{text}'"
    )


def wrap(model: Any) -> Classifier:
    """A torch network or any other callable → classifier; what already is one stays as it is."""
    from torch import nn

    from certus.classifiers.function import Function
    from certus.classifiers.module import Module
    from certus.classifiers.onnx import Onnx

    if isinstance(model, nn.Module):
        return Module(model)
    if isinstance(model, Module | Onnx | Function):
        return model
    if not callable(model):
        raise ModelError(f"a model must be a torch module or a callable; got {type(model).__name__}")
    return Function(model)


class Ready(NamedTuple):
    """A classifier as it will be sampled, by what, and why not by something faster."""

    classifier: Classifier
    engine: str
    note: str = ""
    workers: int = 1  # batches to carry out at once


def ready(classifier: Classifier, example: Tensor, engine: str = "auto", threads: int | None = None) -> Ready:
    """Choose what runs the forward passes: on the CPU, ONNX Runtime where a network can be exported, else torch."""
    import torch

    from certus.classifiers import onnx
    from certus.classifiers.module import Module

    name, _, device = engine.partition(":")
    if name not in ENGINES or (device and name != "torch"):
        raise unknown("engine", engine, ENGINES)
    if threads is not None and threads < 1:
        raise OptionError(f"threads must be a positive whole number; got {threads}")
    if isinstance(classifier, onnx.Onnx):
        return _arranged(classifier, example, threads)
    if threads is not None:
        torch.set_num_threads(threads)
    if not isinstance(classifier, Module):
        return Ready(classifier, "callable")
    try_once(classifier, example)
    if engine == "auto" and torch.cuda.is_available():
        name, device = "torch", "cuda"
    if name == "torch" or torch.device(classifier.device).type != "cpu":
        return Ready(_on_torch(classifier, example, device or classifier.device), engine if device else "torch")
    try:
        return _arranged(onnx.from_network(classifier.network, example), example, threads)
    except ModelError as error:
        if engine == "onnxruntime":
            raise
        return Ready(_on_torch(classifier, example, "cpu"), "torch", f"running on torch: {error}")


def _on_torch(classifier: Module, example: Tensor, device: str) -> Module:
    """A fast copy of the network on a device; the user's own stays where and as it is."""
    from certus.classifiers.module import arranged

    try:
        return arranged(classifier.network, example, device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"engine must name a device that torch has here; got 'torch:{device}' ({reason})") from error


def _arranged(classifier: Onnx, example: Tensor, threads: int | None) -> Ready:
    """ONNX Runtime with the arrangement of threads that is fastest here."""
    from certus.classifiers import arrange

    best = arrange.fastest(classifier, example, threads or arrange.cores())
    made_of = classifier.metadata.get("certus", "")  # a quantised network says what it was made of
    return Ready(classifier.with_threads(best.threads), "onnxruntime", made_of, best.workers)


def try_once(classifier: Classifier, example: Tensor) -> None:
    """One forward pass, to tell a network that does not fit its inputs from one that cannot be exported."""
    try:
        classifier(example.unsqueeze(0))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"the network must accept inputs of shape {list(example.shape)}; it raised: {reason}"
        ) from error


def digest(spec: str | Path) -> str:
    """A hash of what a model is: weights and architecture, the ONNX file, or the source file of a callable."""
    path = Path(spec)
    if path.is_dir():
        files = [path / "config.json", path / "weights.safetensors"]
    elif path.exists():
        files = [path]
    else:
        from certus.classifiers.function import source_file

        file = source_file(str(spec))
        files = [file] if file else []
    total = hashlib.sha256(b"" if files else str(spec).encode())
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()
