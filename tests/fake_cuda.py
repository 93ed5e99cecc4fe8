"""A CUDA device that nobody has: fake tensors know shapes, types and devices, and no values.

Where devices are mixed, a tensor on the device is read by the host (`.item()`, `.tolist()`, `.numpy()`), or a shape
depends on values, it raises. A build of torch without CUDA refuses some calls on such tensors only because it looks for
the device's guard in their Python bindings; those are sent on to the same operators without it.
"""

from __future__ import annotations

import contextlib

import torch
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode

OPERATORS = torch.ops.aten


def at(tensor, places):
    """What `tensor[places]` is."""
    dim, places = 0, list(places) if isinstance(places, tuple) else [places]
    if any(place is Ellipsis for place in places):
        between = next(number for number, place in enumerate(places) if place is Ellipsis)
        others = tensor.ndim - sum(place is not None for place in places) + 1
        places[between : between + 1] = [slice(None)] * others
    for place in places:
        if place is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(place, int):
            tensor = tensor.select(dim, place)
            continue
        elif isinstance(place, slice):
            tensor = OPERATORS.slice(tensor, dim, place.start, place.stop, place.step or 1)
        else:
            tensor = OPERATORS.index(tensor, [None] * dim + [place])
        dim += 1
    return tensor


def moved(tensor, *where, non_blocking=False, **options):
    """What `tensor.to(...)` is, of devices and types."""
    for given in where:
        options["dtype" if isinstance(given, torch.dtype) else "device"] = given
    if torch.device(options.get("device", tensor.device)).type == "cpu" != tensor.device.type:
        raise RuntimeError("the host waits for a tensor of the device")
    return OPERATORS._to_copy(tensor, **{name: value for name, value in options.items() if name != "copy"})


class Unguarded(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.copy_:
            return OPERATORS.copy_(*args, **(kwargs or {}))
        if func is torch.Tensor.__getitem__:
            return at(*args)
        if func is torch.Tensor.__setitem__:
            return OPERATORS.copy_(at(*args[:2]), torch.as_tensor(args[2]))
        if func is torch.Tensor.cpu:
            return moved(*args, device="cpu")
        if func is torch.Tensor.to:
            return moved(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def fake_cuda():
    with FakeTensorMode(), Unguarded():
        yield torch.device("cuda")
