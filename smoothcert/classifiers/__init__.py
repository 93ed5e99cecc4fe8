"""② Anything → scores: one file for each kind of thing that can be a classifier.

`load` turns a name into a classifier, `wrap` does it for an object, `ready` makes it as fast as it can be here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert import foreign, zoo
from smoothcert.arguments import checked
from smoothcert.classifiers import composite, digests
from smoothcert.classifiers.composed import HasMembers, leaves, rebuilt
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.classifiers.objects import OBJECT
from smoothcert.errors import THREADS, ModelError, require_count, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.contracts import Classifier

ENGINES = ("auto", "onnxruntime", "torch", "torch:DEVICE")


@checked
def load(spec: str | Path, named_by: str = "") -> Classifier:
    """A checkpoint, ensemble or denoised folder, a weights file, `file.onnx`, `module:callable` or a zoo name.

    `named_by`: the file that says so, where it is not the caller's own word. Code is then imported only on trust.
    """
    text, path = str(spec), zoo.located(spec)
    if path.suffix == ".onnx":
        from smoothcert.classifiers.onnx import Onnx

        return Onnx(path)
    if composite.is_composite(path) or any(foreign.is_there(path / name) for name in composite.OLDER):
        return composite.load(path)
    if foreign.is_there(path):
        from smoothcert.classifiers.module import Module
        from smoothcert.training.checkpoints import read_any

        return Module(read_any(path))
    if text.startswith(OBJECT):
        raise ModelError(
            f"model {text.removeprefix(OBJECT)} was an object in Python, which only its owner has: give it again "
            "(open_run(…).verify(model=…)), or look at the counts alone (--redraw 0)"
        )
    if ":" in text:
        from smoothcert.classifiers.module import resolve

        return wrap(resolve(text, named_by))
    raise ModelError(
        f"model must be a checkpoint folder, a file.onnx, package.module:callable or a name that `smoothcert zoo` "
        f"lists; there is no '{text}'{zoo.hint(text)}"
    )


def wrap(model: Any) -> Classifier:
    """A torch network or any other callable → classifier; what already is one stays as it is."""
    from torch import nn

    from smoothcert.classifiers.module import Function, Module
    from smoothcert.classifiers.onnx import Onnx

    if isinstance(model, nn.Module):
        return Module(model)
    if isinstance(model, Module | Onnx | Function | HasMembers):
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
    """Choose what runs the forward passes: on the CPU, ONNX Runtime where a network can be exported, else torch.

    Of an ensemble every member is made fast by itself, then all of them share one arrangement of threads.
    """
    name, _, device = engine.partition(":")
    if name not in ENGINES or (device and name != "torch"):
        raise unknown("engine", engine, ENGINES)
    if threads is not None:
        require_count("a forward pass", most=THREADS, threads=threads)
    inside = leaves(classifier)
    parts, workers = _arranged([_fast(leaf, example, engine, threads) for leaf in inside], example, threads)
    if not isinstance(classifier, HasMembers):
        return parts[0]._replace(workers=workers)
    fast = {leaf: part.classifier for leaf, part in zip(inside, parts, strict=True)}
    engines = {part.engine for part in parts}
    shared = engines.pop() if len(engines) == 1 else "callable"  # each in its own way
    note = "; ".join(dict.fromkeys(part.note for part in parts if part.note))
    return Ready(rebuilt(classifier, fast.__getitem__, example), shared, note, workers)


def _fast(classifier: Classifier, example: Tensor, engine: str, threads: int | None) -> Ready:
    """One classifier on the engine that is best for it; ONNX Runtime with any number of threads."""
    import torch

    from smoothcert.classifiers import onnx
    from smoothcert.classifiers.module import Module, arranged

    if isinstance(classifier, onnx.Onnx):
        return Ready(classifier, "onnxruntime", classifier.note)
    if threads is not None:
        torch.set_num_threads(threads)
    if not isinstance(classifier, Module):
        return Ready(classifier, "callable")
    try_once(classifier, example)
    name, _, device = engine.partition(":")
    if engine == "auto" and torch.cuda.is_available():
        name, device = "torch", "cuda"
    if name == "torch" or torch.device(classifier.device).type != "cpu":
        found = arranged(classifier.network, example, device or classifier.device)
        return Ready(found, engine if device else "torch")
    try:
        return Ready(onnx.from_network(classifier.network, example), "onnxruntime")
    except ModelError as error:
        if engine == "onnxruntime":
            raise
        return Ready(arranged(classifier.network, example, "cpu"), "torch", f"running on torch: {error}")


def _arranged(parts: list[Ready], example: Tensor, threads: int | None) -> tuple[list[Ready], int]:
    """ONNX Runtime with the arrangement of threads that is fastest here for the slowest network; batches at once."""
    from smoothcert.classifiers import arrange
    from smoothcert.classifiers.onnx import Onnx

    networks = [part.classifier for part in parts if isinstance(part.classifier, Onnx)]
    total = threads or arrange.cores()
    best = arrange.Arrangement(1, total)
    if networks and len(networks) == len(parts):  # others may not like another thread
        slowest = networks[0]
        if len(networks) > 1:
            slowest = min(networks, key=lambda network: arrange.speed(network, example, best, 0.0))
        best = arrange.fastest(slowest, example, total)
    for number, part in enumerate(parts):
        if isinstance(part.classifier, Onnx):
            parts[number] = part._replace(classifier=part.classifier.with_threads(best.threads))
    return parts, best.workers


def differentiable(classifier: Classifier, example: Tensor) -> Classifier:
    """The same classifier with gradients to its inputs; only torch networks and compositions of them have any."""
    from smoothcert.classifiers.module import Module

    def network(leaf: Classifier) -> Classifier:
        if isinstance(leaf, Module):
            return leaf.network
        raise ModelError(
            f"a search that climbs needs a torch network, for its gradients; got {type(leaf).__name__.lower()} "
            "(the grid search needs none: --sigma-search grid)"
        )

    return rebuilt(classifier, network, example)


def try_once(classifier: Classifier, example: Tensor) -> None:
    """One forward pass, to tell a network that does not fit its inputs from one that cannot be exported."""
    try:
        classifier(example.unsqueeze(0))
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"the network must accept inputs of shape {list(example.shape)}; it raised: {reason}"
        ) from error


def digest(spec: str | Path) -> ModelDigest:
    """A hash of a model: weights and architecture, ONNX with its weights, a callable and its source, or members."""
    path = zoo.located(spec)
    if composite.is_composite(path):
        return composite.read(path).digest
    if path.is_dir():
        return digests.of_files([path / "config.json", path / "weights.safetensors"])
    if path.suffix == ".onnx" and path.is_file():
        from smoothcert.classifiers.onnx import parts

        return digests.of_files(parts(path))
    return digests.of_files([path]) if foreign.is_there(path) else digests.of_callable(str(spec))
