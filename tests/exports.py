"""Exports to ONNX for tests: the graph of an architecture is traced once, and filled with each network's weights.

Tracing takes seconds, and most tests export the same few architectures. What is traced, filled and then optimised is
what the exporter makes; where its scores are not the network's, the exporter itself does the work.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

GRAPHS: dict[object, bytes | None] = {}  # by structure: traced, not optimised; None where that cannot be had
real = torch.onnx.export


def export(network, arguments, path, **options):
    """In the place of torch.onnx.export; a test that calls it in its own way gets the real one."""
    plain = options.get("dynamic_shapes") and options.get("external_data") is False
    if not plain or not arguments[0].is_floating_point():
        return real(network, arguments, path, **options)
    key = structure(network, arguments[0])
    if key not in GRAPHS:
        GRAPHS[key] = traced(network, arguments, options)
    if GRAPHS[key] is not None:
        content = filled(GRAPHS[key], network)
        if agrees(content, network, arguments[0]):
            Path(path).write_bytes(content)
            return None
    return real(network, arguments, path, **options)


def traced(network, arguments, options):
    import onnxscript.ir as ir

    try:
        program = real(network, arguments, None, optimize=False, **options)
        return ir.to_proto(ir.from_proto(ir.to_proto(program.model))).SerializeToString()
    except Exception:  # the exporter itself says what is the matter, or does better after optimising
        return None


def structure(network, batch):
    """What two networks must share to have one graph; classes themselves, not their names."""
    tensors = tuple((name, value.shape, value.dtype) for name, value in network.state_dict().items())
    return tuple(type(module) for module in network.modules()), repr(network), tensors, batch.shape


def filled(content, network):
    """The graph with this network's weights, optimised as the exporter does."""
    import onnx
    import onnxscript.ir as ir
    from torch.onnx._internal._lazy_import import onnxscript_apis

    model, state = onnx.load_model_from_string(content), network.state_dict()
    for tensor in model.graph.initializer:
        if tensor.name in state:
            tensor.CopyFrom(onnx.numpy_helper.from_array(state[tensor.name].detach().cpu().numpy(), tensor.name))
    return ir.to_proto(onnxscript_apis.optimize(ir.from_proto(model))).SerializeToString()


def agrees(content, network, batch):
    import onnxruntime

    noisy = batch[:1] + 0.25 * torch.randn(8, *batch.shape[1:], generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = network(noisy).numpy()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: noisy.numpy()})[0]
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max())
