"""What an ONNX file says of itself, and what is made of that: which output holds the scores, of which classes, and
whether a batch size that was frozen at export can be made free.

Everything follows from the file alone, so that every process reads the same function out of it. Where the graph that is
run is not the file's own (a tensor more among its outputs, a free batch), it is the file that is hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert import foreign
from smoothcert.classifiers.class_names import class_names
from smoothcert.classifiers.objects import NOTE
from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from smoothcert.classifiers.adapted import Adaptation

KINDS = {  # of inputs, and what they are in NumPy
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(uint8)": "uint8",
}  # fmt: skip
FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
TOKENS = ("tensor(int64)", "tensor(int32)", "tensor(string)")
MAPS = "seq(map("  # what ZipMap makes of scores: one dictionary for each row
TELLING = ("logits", "scores", "probabilities")  # names that decide between several outputs
CHANNELS = (1, 3, 4)
LARGEST_GRAPH = 2**28  # bytes of a graph whose batch we try to free; larger networks gain next to nothing by it
AGREE = 1e-3  # of the spread of scores: above rounding, far below the effect of any other graph


class Port(NamedTuple):
    """An input or output as the file declares it; no shape where it declares none."""

    name: str
    kind: str
    shape: tuple[int | str | None, ...]

    def __str__(self) -> str:
        dims = ", ".join("batch" if at == 0 and not isinstance(dim, int) else str(dim or "?")[:20]
                         for at, dim in enumerate(self.shape))  # fmt: skip
        return f"{foreign.shown(self.name)} {self.kind}" + (f" [{dims}]" if self.shape else "")

    @property
    def channels_last(self) -> bool:
        """Whether the declared shape can only be that of images with their channels last."""
        dims = self.shape[1:]
        return len(dims) == 3 and dims[2] in CHANNELS and dims[0] not in CHANNELS


@dataclass(frozen=True)
class Reading:
    """How a file is called, and what is to be said of that."""

    entry: Port
    outputs: tuple[str, ...]  # that hold the scores: one, or one a class
    rows: int | None = None  # a batch size frozen at export that could not be freed
    content: bytes | None = field(default=None, repr=False)  # the graph that is run, where that is not the file's
    class_names: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    note: str = ""


def read(
    path: Path,
    session: Any,
    adaptation: Adaptation,
    load: Callable[[], ModelProto | None],
    opened: Callable[[bytes], Any],
) -> Reading:
    """What is made of a file that ONNX Runtime has opened.

    `load` gives the graph where it is small enough to be changed, `opened` opens another.
    """
    try:
        inputs, outputs = (
            [Port(one.name, one.type, tuple(one.shape)) for one in ports]
            for ports in (session.get_inputs(), session.get_outputs())
        )
        metadata = dict(session.get_modelmeta().custom_metadata_map)
    except UnicodeDecodeError as error:
        raise ModelError(f"names in {path} must be UTF-8 text; got others ({error.reason})") from error
    entry = _entry(inputs, path)
    chosen, note = _scores(outputs, adaptation.output, path)
    names, content, rows = tuple(port.name for port in chosen), None, _frozen(entry)
    mapped = chosen[0].kind.startswith(MAPS)
    model = load() if rows is not None or len(outputs) > 1 or mapped else None
    classes = class_names(metadata, model, len(chosen) if len(chosen) > 1 else _columns(chosen[0]))
    if mapped:
        names, content = _tapped(model, chosen[0], path)
        note = f"scores are taken from {foreign.shown(names[0])}, of which output {chosen[0]} is made"
    called = f"its {len(classes)} classes are called {foreign.shown(list(classes))}" if classes else ""
    notes = [note, called, _turned(entry, adaptation)]
    if rows is not None:
        freed = _freed(model, entry, names, rows, session if content is None else opened(content), opened)
        notes.append(_batch(rows, freed is not None))
        rows, content = (rows, content) if freed is None else (None, freed)
    said = "; ".join(filter(None, notes))
    made_of = [metadata.get(key, "") for key in ("smoothcert", NOTE)]
    whole = [*made_of, f"{path.name}: {said}" if said else ""]
    return Reading(entry, names, rows, content, classes, metadata, "; ".join(filter(None, whole)))


def _frozen(entry: Port) -> int | None:
    rows = entry.shape[0] if entry.shape else None
    return rows if isinstance(rows, int) and rows > 0 else None


def _turned(entry: Port, adaptation: Adaptation) -> str:
    """What is done to inputs that are not as the graph takes them."""
    said = []
    if entry.kind == "tensor(uint8)":
        times = "" if adaptation.width else "multiplied by 255, "
        said.append(f"it takes whole numbers from 0 to 255: noisy inputs are {times}rounded and clipped")
    if entry.channels_last and not adaptation.layout:
        said.append(f"it takes channels last, {entry}: images [channels, h, w] are turned")
    return "; ".join(said)


def _batch(rows: int, freed: bool) -> str:
    if freed:
        return f"its batch, frozen at {rows}, was made free: scores are the same on noise, row by row"
    return (
        f"its batch is frozen at {rows}, which makes draws slower, up to ten times for a small network: export it with "
        'a free batch (torch.onnx.export(…, dynamic_shapes=({0: "batch"},)))'
    )


def _entry(inputs: Sequence[Port], path: Path) -> Port:
    """The one input, of a kind that noise can be added to."""
    if tokens := [port for port in inputs if port.kind in TOKENS]:
        raise ModelError(
            f"the input of {path} must be numbers that noise can be added to; got {tokens[0]}: between two token ids "
            "there is nothing (certify the part behind the embedding: export the model to take embeddings as floats)"
        )
    if len(inputs) != 1:
        listed = ", ".join(map(str, inputs)) or "none"
        raise ModelError(f"{path} must have one input; got {listed} (export it with the others fixed inside)")
    if inputs[0].kind not in KINDS:
        raise ModelError(
            f"the input of {path} must be a tensor of floats or uint8; got {inputs[0]} (put a Cast from float in front)"
        )
    return inputs[0]


def _scores(outputs: Sequence[Port], asked: str, path: Path) -> tuple[list[Port], str]:
    """The output that holds scores [batch, classes], or those that hold a column of them each; what was assumed."""
    listed = ", ".join(map(str, outputs)) or "none"
    if asked:
        found = [port for port in outputs if port.name == asked]
        if not found or not _may_score(found[0]):
            must = f"--output must name an output of {path.name} that holds scores"
            raise ModelError(f"{must}; got {foreign.shown(asked)}, and it has {listed}")
        return found, ""
    if len(outputs) == 1 and (_may_score(outputs[0]) or _whole_numbers(outputs[0])):
        return list(outputs), ""
    scores = [port for port in outputs if port.kind in FLOATS and len(port.shape) in (0, 2)]
    wide = [port for port in scores if _columns(port) != 1] or scores
    found = wide if len(wide) == 1 else [port for port in wide if port.name.lower() in TELLING]
    found = found or ([] if wide else [port for port in outputs if port.kind.startswith(MAPS)])
    if len(found) == 1:
        return found, f"scores are taken from output {found[0]} (--output names another)"
    columns = [port for port in outputs if port.kind in FLOATS]
    label = [port for port in outputs if port.kind in TOKENS and len(port.shape) == 1]
    if label and len(columns) > 1 and all(len(port.shape) == 1 for port in columns):
        words = f"outputs {foreign.shown(columns[0].name)} to {foreign.shown(columns[-1].name)}"
        return columns, f"scores are taken from the {len(columns)} {words}, one a class in this order"
    if not any(map(_may_score, outputs)):
        raise ModelError(f"{path} must have an output of scores, floats [batch, classes]; got {listed} (export it so)")
    raise ModelError(f"{path} must have one output of scores [batch, classes]; got {listed} (--output says which)")


def _may_score(port: Port) -> bool:
    return port.kind in FLOATS or port.kind.startswith(MAPS)


def _whole_numbers(port: Port) -> bool:
    """Scores of an integer network; one number for each input is a label."""
    return port.kind.startswith(("tensor(int", "tensor(uint")) and len(port.shape) > 1 and _columns(port) != 1


def _columns(port: Port) -> int | None:
    """Classes, where they are declared."""
    found = port.shape[1] if len(port.shape) == 2 else None
    return found if isinstance(found, int) else None


def _tapped(model: ModelProto | None, port: Port, path: Path) -> tuple[tuple[str], bytes]:
    """The tensor that ZipMap makes dictionaries of, and the graph with it among its outputs."""
    from onnx import TensorProto, helper

    nodes = [] if model is None else [node for node in model.graph.node if port.name in node.output]
    if model is None or not nodes or nodes[0].op_type != "ZipMap" or len(nodes[0].input) != 1:
        raise ModelError(
            f"scores of {path} must be a tensor [batch, classes]; got {port} (convert it without dictionaries: "
            'skl2onnx with options={"zipmap": False})'
        )
    name = str(nodes[0].input[0])
    if name not in [output.name for output in model.graph.output]:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]))
    return (name,), model.SerializeToString()


def _freed(
    model: ModelProto | None,
    entry: Port,
    outputs: tuple[str, ...],
    rows: int,
    frozen: Any,
    opened: Callable[[bytes], Any],
) -> bytes | None:
    """The graph with a free batch, if its scores are then those of the graph as it is, row by row; else None."""
    from onnx import helper, numpy_helper

    dims = entry.shape[1:]
    if model is None or not all(isinstance(dim, int) and dim > 0 for dim in dims):
        return None
    graph = model.graph
    for value in [*(value for value in graph.input if value.name == entry.name), *graph.output]:
        shape = value.type.tensor_type.shape
        if len(shape.dim) and shape.dim[0].dim_value == rows:
            shape.dim[0].Clear()
    del graph.value_info[:]  # shapes of what lies between, with the old batch
    known = {tensor.name: tensor for tensor in graph.initializer}
    known |= {node.output[0]: node.attribute[0].t for node in graph.node
              if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"}  # fmt: skip
    for number, node in enumerate([node for node in graph.node if node.op_type == "Reshape"]):
        if len(node.input) == 2 and node.input[1] in known:
            shape = numpy_helper.to_array(known[node.input[1]]).copy()
            if shape.ndim == 1 and len(shape) and shape[0] == rows and _reopen(node, shape):
                node.input[1] = f"smoothcert_free_batch_{number}"
                constant = numpy_helper.from_array(shape, node.input[1])
                graph.node.insert(0, helper.make_node("Constant", [], [node.input[1]], value=constant))
    try:
        content: bytes = model.SerializeToString()
        same = _same(frozen, opened(content), entry, outputs, rows)
    except Exception:
        # A graph that has its batch in other places too fails in a way of its own; it is then run as it is.
        return None
    return content if same else None


def _reopen(node: NodeProto, shape: Any) -> bool:
    """Let a constant shape of a Reshape take any batch: what is left over, or as many rows as come in."""
    if -1 not in shape[1:]:
        shape[0] = -1
        return True
    if 0 in shape[1:]:
        return False
    del node.attribute[:]  # allowzero, with which 0 would mean none
    shape[0] = 0
    return True


def _same(frozen: Any, free: Any, entry: Port, outputs: tuple[str, ...], rows: int) -> bool:
    """Whether scores on noise agree: a few batches as they are, against all at once and one row alone."""
    dice, total = np.random.default_rng(0), rows * -(-5 // rows)
    shape = (total, *(int(dim or 0) for dim in entry.shape[1:]))
    noise = dice.random(shape) + 0.25 * dice.standard_normal(shape)
    steps = np.clip(np.rint(255 * noise), 0, 255) if entry.kind == "tensor(uint8)" else noise
    values = steps.astype(KINDS[entry.kind])

    def scores(session: Any, size: int) -> Any:
        parts = [session.run(list(outputs), {entry.name: values[at : at + size]}) for at in range(0, total, size)]
        return np.stack([np.concatenate(column).astype(np.float64) for column in zip(*parts, strict=True)])

    expected = scores(frozen, rows)
    spread = float(np.ptp(expected, axis=1).max())
    return spread > 0 and all(
        found.shape == expected.shape and bool(np.abs(found - expected).max() <= AGREE * spread)
        for found in (scores(free, total), scores(free, 1))
    )
