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
from smoothcert.errors import THREADS, ModelError, OptionError, require_count, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.classifiers.module import Module
    from smoothcert.contracts import Classifier

ENGINES = ("auto", "onnxruntime", "torch", "torch:DEVICE")


@checked
def load(spec: str | Path, named_by: str = "") -> Classifier:
    """A folder (checkpoint, ensemble, denoised, hf:), a file (ONNX, weights, .pt2, …), `module:callable`, a zoo name.

    `named_by`: the file that says so, where it is not the caller's own word. Code is then imported only on trust.
    """
    text, path = str(spec), zoo.located(spec)
    if path.suffix == ".onnx":
        from smoothcert.classifiers.onnx import Onnx

        return Onnx(path)
    if composite.is_composite(path) or any(foreign.is_there(path / name) for name in composite.OLDER):
        return composite.load(path)
    if (saved := _hugging_face(text, path)) is not None:
        from smoothcert.classifiers import hugging_face

        return hugging_face.load(saved)
    if foreign.is_folder(path) or (foreign.is_there(path) and path.suffix == ".safetensors"):
        from smoothcert.classifiers.module import Module
        from smoothcert.training.checkpoints import read_any

        return Module(read_any(path))
    if foreign.is_there(path):
        from smoothcert.classifiers import torch_files

        return torch_files.load(path)
    if text.startswith(OBJECT):
        raise ModelError(
            f"model {text.removeprefix(OBJECT)} was an object in Python, which only its owner has: give it again "
            "(open_run(…).verify(model=…)), or look at the counts alone (--redraw 0)"
        )
    if ":" in text:
        from smoothcert.classifiers.module import resolve

        return wrap(resolve(text, named_by), text)
    raise ModelError(
        f"model must be a checkpoint folder, hf:FOLDER, a file.onnx, .pt2, .pt or .joblib, package.module:callable or "
        f"a name that `smoothcert zoo` lists; there is no '{text}'{zoo.hint(text)}"
    )


def _hugging_face(text: str, path: Path) -> Path | None:
    """The folder of Hugging Face's that is named, with hf: or without."""
    if text.startswith("hf:"):
        from smoothcert.classifiers import hugging_face

        return hugging_face.located(text)
    if foreign.is_regular(path / "config.json"):
        from smoothcert.classifiers import hugging_face

        return path if hugging_face.is_saved(path) else None
    return None


def wrap(model: Any, name: str = "") -> Classifier:
    """A torch network or program, a fitted estimator or any other callable → classifier; what is one stays as it is.

    `name`: what the user calls it.
    """
    from torch import nn

    from smoothcert.classifiers import callables, torch_files
    from smoothcert.classifiers.class_names import by_number
    from smoothcert.classifiers.estimator import Estimator, is_estimator
    from smoothcert.classifiers.module import Module
    from smoothcert.classifiers.onnx import Onnx

    if torch_files.is_program(model):
        return torch_files.from_program(model)
    if isinstance(model, nn.Module):
        names = by_number(getattr(getattr(model, "config", None), "id2label", None))
        return Module(model, class_names=names, about=_unprocessed(model))
    if not isinstance(model, type) and isinstance(model, Module | Onnx | callables.Function | Estimator | HasMembers):
        return model
    if is_estimator(model):
        return Estimator(model)
    if callable(model):
        classifier: Classifier = callables.from_callable(model, wrap, name)
        return classifier
    named = f" (smoothcert.load({str(model)!r}) opens it)" if isinstance(model, str | Path) else ""
    raise ModelError(
        "a model must be a torch network, a program of torch.export, a fitted estimator or a callable; got "
        f"{type(model).__name__}{named}"
    )


def _unprocessed(network: Any) -> str:
    """What to know of a network of images from Hugging Face, whose normalisation lies in another object."""
    if getattr(network, "main_input_name", "") != "pixel_values":
        return ""
    return "the network gets inputs in [0,1] as they are: its image processor is not part of it (of hf:FOLDER it is)"


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
    """One classifier on the engine that is best for it, with what there is to say; ONNX Runtime with any threads."""
    import torch

    from smoothcert.classifiers import onnx
    from smoothcert.classifiers.module import Module

    if isinstance(classifier, onnx.Onnx):
        found = Ready(classifier, "onnxruntime")
    else:
        if threads is not None:
            torch.set_num_threads(threads)
        try_once(classifier, example)
        found = Ready(classifier, "callable")
        if isinstance(classifier, Module):
            found = _network(classifier, example, engine)
    said = [note for note in (getattr(classifier, "note", ""), found.note) if note]
    return found._replace(note="; ".join(said))


def _network(classifier: Module, example: Tensor, engine: str) -> Ready:
    """A torch network, as ONNX if that can be."""
    import torch

    from smoothcert.classifiers import onnx
    from smoothcert.classifiers.module import arranged

    name, _, device = engine.partition(":")
    if engine == "auto" and torch.cuda.is_available():
        name, device = "torch", "cuda"
    if name == "torch" or torch.device(classifier.device).type != "cpu":
        fast = arranged(classifier, example, device or classifier.device)
        elsewhere = torch.device(fast.device).type != "cpu"
        return Ready(fast, f"torch:{fast.device}" if device or elsewhere else "torch")
    if engine == "onnxruntime" and classifier.precision != "float32":
        raise OptionError(f"engine of a network in {classifier.precision} must be torch (--engine torch); got {engine}")
    try:
        return Ready(onnx.from_network(classifier.exportable, example), "onnxruntime")
    except ModelError as error:
        if engine == "onnxruntime":
            raise
        return Ready(arranged(classifier, example, "cpu"), "torch", f"running on torch: {error}")


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
            try_once(leaf, example)
            return leaf.scoring
        raise ModelError(
            f"a search that climbs needs a torch network, for its gradients; got {type(leaf).__name__.lower()} "
            "(the grid search needs none: --sigma-search grid)"
        )

    return rebuilt(classifier, network, example)


def try_once(classifier: Classifier, example: Tensor) -> None:
    """One forward pass, to tell a network that does not fit its inputs from one that cannot be exported."""
    rows = getattr(classifier, "rows", None) or 1
    try:
        classifier(example.unsqueeze(0).repeat(rows, *(1 for _ in example.shape)))
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
    if (saved := _hugging_face(str(spec), path)) is not None:
        from smoothcert.classifiers import hugging_face

        return hugging_face.digest(saved)
    if path.is_dir():
        return digests.of_files([path / "config.json", path / "weights.safetensors"])
    if path.suffix == ".onnx" and path.is_file():
        from smoothcert.classifiers.onnx import parts

        return digests.of_files(parts(path))
    return digests.of_files([path]) if foreign.is_there(path) else digests.of_callable(str(spec))
