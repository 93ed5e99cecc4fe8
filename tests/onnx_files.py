"""Small ONNX files as other people's tools leave them: a linear layer, with whatever they put around it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

CLASSES = 3
KINDS = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int64": TensorProto.INT64}  # fmt: skip
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def weights(shape: tuple[int, ...], classes: int = CLASSES) -> torch.Tensor:
    """Of the layer, for flat inputs."""
    dice = np.random.default_rng(0)
    return torch.from_numpy(dice.standard_normal((math.prod(shape), classes)).astype(np.float32))


def write(
    path: Path,
    shape: tuple[int | str, ...] = (1, 4, 4),
    rows: int | str = "batch",
    kind: str = "float",
    *,
    size: tuple[int, ...] | None = None,
    extra: tuple[tuple[str, list[str], str, int, list[int | str] | None], ...] = (),
    outputs: tuple[str, ...] = ("scores",),
    reshape: tuple[int, ...] | None = None,
    stuck: bool = False,
    classes: int = CLASSES,
    metadata: dict[str, str] | None = None,
) -> Path:
    """scores = flat(x)·weights, of x in [0,1] or whole steps of 1/255.

    `extra` nodes: operator, inputs, output, its type and shape. `reshape` instead of Flatten: to this constant shape.
    `stuck`: a constant that has the batch in its shape, so that no other batch can be given.
    """
    size = size or tuple(dim for dim in shape if isinstance(dim, int))
    values = [numpy_helper.from_array(weights(size, classes).numpy(), "w")]
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=FLOAT)]
    if kind == "uint8":
        values.append(numpy_helper.from_array(np.float32(255), "steps"))
        nodes.append(helper.make_node("Div", ["f", "steps"], ["g"]))
    if reshape:
        values.append(numpy_helper.from_array(np.array(reshape), "shape"))
        nodes.append(helper.make_node("Reshape", [nodes[-1].output[0], "shape"], ["flat"]))
    else:
        nodes.append(helper.make_node("Flatten", [nodes[-1].output[0]], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "w"], ["raw" if stuck else "scores"]))
    if stuck:
        values.append(numpy_helper.from_array(np.zeros((rows, classes), np.float32), "zero"))
        nodes.append(helper.make_node("Add", ["raw", "zero"], ["scores"]))
    options = {"ArgMax": {"axis": 1, "keepdims": 0}}
    nodes += [helper.make_node(kind_, given, [name], **options.get(kind_, {})) for kind_, given, name, _, _ in extra]
    ports = {"scores": (FLOAT, [rows, classes]), **{name: (kind_, dims) for _, _, name, kind_, dims in extra}}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", KINDS[kind], [rows, *shape])],
        [helper.make_tensor_value_info(name, *ports[name]) for name in outputs], values,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def stuck(network: nn.Module, *batch: int) -> nn.Module:
    """The network with a constant in it that has the batch in its shape: exported, it takes no other batch."""

    class Stuck(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.register_buffer("next_to_nothing", torch.full(batch, 1e-9))

        def forward(self, x):
            return self.network(x + self.next_to_nothing)

    return Stuck().eval()
