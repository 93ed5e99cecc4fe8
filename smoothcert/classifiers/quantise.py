"""A network in 8-bit integers: a classifier of its own, which is certified as what it is.

Static quantisation by ONNX Runtime: 8-bit activations whose ranges are those seen on noisy inputs, 8-bit weights with a
scale for each output channel. The result is an ordinary ONNX file; its metadata say what it was made of. A certificate
of the quantised network says nothing about the network it was made of, nor the other way round.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smoothcert.classifiers import arrange, digest, load, try_once
from smoothcert.classifiers.module import Module
from smoothcert.classifiers.onnx import Onnx, from_network
from smoothcert.classifiers.undisturbed import quiet
from smoothcert.contracts import Classifier, Noise, Stream
from smoothcert.data import Inputs
from smoothcert.errors import DataError, ModelError, reason

if TYPE_CHECKING:
    from onnx import ModelProto

KEY = "smoothcert"  # of the entry in the file's metadata
ROWS = 64  # calibration inputs a forward pass
SECONDS = 0.3  # of each measurement of speed


@dataclass(frozen=True)
class QuantisedAccuracy:
    """A network before and after, on the same noisy inputs."""

    inputs: int
    before: float  # accuracy under noise
    after: float
    same: float  # share of inputs that both give the same class


@dataclass(frozen=True)
class Speedup:
    """Images a second after ÷ before, each in the arrangement of threads that is fastest for it."""

    middle: float
    least: float
    most: float


@dataclass(frozen=True, eq=False)
class Quantised:
    """A quantised network as a file, what it was made of, and how it does beside that."""

    content: bytes
    origin: str
    comparison: QuantisedAccuracy
    speed: Speedup


def make(
    model: str, calibration: Inputs, others: Inputs, noise: Noise, seed: int, most: int, threads: int | None, words: str
) -> Quantised:
    """Quantise a model by inputs under noise, which `words` name, and compare both on at most so many other inputs."""
    before = as_onnx(load(model), calibration.tensor(0))
    clean, labels = held_out(calibration, others, most)
    origin = (
        f"int8 quantisation of {digest(model)}, calibrated on {len(calibration)} inputs of "
        f"{Path(calibration.name).name} ({calibration.split}, {calibration.digest[:12]}) with {words}"
    )
    after = quantise(before, _noisy(calibration.tensors(), noise, seed, "calibrate"), origin)
    found = compare(before, after, _noisy(clean, noise, seed, "compare"), labels)
    return Quantised(after.content or b"", origin, found, speedup(before, after, clean[0], threads))


def held_out(calibration: Inputs, others: Inputs, most: int) -> tuple[Tensor, Tensor]:
    """Inputs that were not calibrated on; by value, since a file or a plain folder has one split only."""
    import numpy as np

    seen = {values.tobytes() for values in calibration.tensors().numpy()}
    few = np.arange(len(others))[: most + len(calibration)]
    values = others.tensors(few)
    fresh = [position for position in few if values[position].numpy().tobytes() not in seen][:most]
    if not fresh:
        raise DataError(f"{others.name} must hold inputs that were not calibrated on; got none (take a smaller --max)")
    return values[fresh], torch.from_numpy(others.labels[fresh])


def _noisy(clean: Tensor, noise: Noise, seed: int, purpose: str) -> Tensor:
    """One noisy copy of each input [N, ...]."""
    out = torch.empty(clean.shape)
    for number, x in enumerate(clean):
        noise.fill(out[number : number + 1], x, Stream(seed, number, purpose), 0)
    return out


def as_onnx(classifier: Classifier, example: Tensor) -> Onnx:
    """The classifier as an ONNX network of floats; a callable has no layers to quantise and is refused."""
    if isinstance(classifier, Module):
        try_once(classifier, example)
        return from_network(classifier.exportable, example)
    if not isinstance(classifier, Onnx):
        raise ModelError("a model to quantise must be a checkpoint or an ONNX file; got a callable")
    if classifier.adaptation.options:
        said = ", ".join(classifier.adaptation.options)
        raise ModelError(f"a model to quantise must be the ONNX file itself; got one with {said} of its own")
    if (origin := origin_of(classifier)) or _quantised_layers(_read(classifier)):
        raise ModelError(f"{classifier.path} must be a network of floats; got {origin or 'a quantised one'}")
    return classifier


def quantise(network: Onnx, noisy: Tensor, origin: str) -> Onnx:
    """The network in 8-bit integers, ranges as on the noisy inputs [calibration inputs, ...]; same batch sizes."""
    batches = _batches(noisy, network.rows)
    network(batches[0])  # refuses another shape in our words
    with tempfile.TemporaryDirectory(prefix="smoothcert-") as folder, quiet():
        try:
            model = _quantised(_read(network), [network.fed(batch) for batch in batches], Path(folder))
        except Exception as error:
            # The quantiser raises whatever a stranger's graph provokes; its first line says enough.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(f"the network cannot be quantised ({reason[:160]})") from error
    if not _quantised_layers(model):
        raise ModelError("the network must have layers that can be quantised; got none")
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, origin
    found = Onnx(Path("int8.onnx"), network.threads, model.SerializeToString())
    if found.rows not in (None, network.rows):
        raise ModelError("the network cannot be quantised (its batch size would change)")
    return found


def origin_of(network: Onnx) -> str:
    """What the metadata say that a quantised network was made of; empty for any other network."""
    return network.metadata.get(KEY, "")


def compare(before: Onnx, after: Onnx, noisy: Tensor, labels: Tensor) -> QuantisedAccuracy:
    """Accuracy of both on noisy inputs [N, ...] with labels [N]."""
    batches = _batches(noisy, before.rows)
    first, second = (torch.cat([network(batch).argmax(1) for batch in batches]) for network in (before, after))
    labels = labels[: len(first)]
    shares = ((first == labels), (second == labels), (first == second))
    return QuantisedAccuracy(len(first), *(float(share.double().mean()) for share in shares))


def speedup(before: Onnx, after: Onnx, example: Tensor, threads: int | None = None, rounds: int = 5) -> Speedup:
    """Both measured in turn, several rounds: the median of the paired ratios and their range."""
    total = threads or arrange.cores()
    chosen = [(network, arrange.fastest(network, example, total)) for network in (before, after)]
    ratios = []
    for _ in range(rounds):
        slow, fast = (arrange.speed(network, example, best, SECONDS) for network, best in chosen)
        ratios.append(fast / slow)
    return Speedup(statistics.median(ratios), min(ratios), max(ratios))


def _quantised(model: ModelProto, batches: list[Any], folder: Path) -> ModelProto:
    """Fold what can be folded, watch the ranges, quantise."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    feeds = iter([{model.graph.input[0].name: batch} for batch in batches])
    given, folded, result = (str(folder / f"{name}.onnx") for name in ("float", "folded", "int8"))
    onnx.save(model, given)
    quant_pre_process(given, folded, skip_symbolic_shape=True)
    # Weights keep 7 of their 8 bits. On processors without VNNI the product of unsigned activations and signed weights
    # is added up in 16 bits and clipped there: full weights then not only cost accuracy (measured: a tenth of all
    # labels), they make the network another function on another machine. At 7 bits nothing can be clipped.
    quantize_static(
        folded,
        result,
        SimpleNamespace(get_next=lambda: next(feeds, None)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(result)


def _batches(noisy: Tensor, rows: int | None) -> list[Tensor]:
    """The inputs in batches; where the network takes exactly so many rows, whole batches only."""
    if rows is not None and len(noisy) < rows:
        raise DataError(f"a network of exactly {rows} rows needs at least {rows} inputs; got {len(noisy)}")
    whole = noisy if rows is None else noisy[: len(noisy) // rows * rows]
    return list(torch.split(whole, rows or ROWS))


def _read(network: Onnx) -> ModelProto:
    import onnx

    content = network.reading.content or network.content
    try:
        model = onnx.load_from_string(content) if content is not None else onnx.load(network.path)
    except Exception as error:  # of a file that ONNX Runtime could read, and onnx cannot
        raise ModelError(f"{network.path} must be a network that onnx can read; got: {reason(error)}") from error
    if model.graph.input[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise ModelError(f"the input of {network.path} must be float32 to be quantised; got another type")
    return model


def _quantised_layers(model: ModelProto) -> int:
    kinds = ("QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear")
    return sum(node.op_type in kinds for node in model.graph.node)
