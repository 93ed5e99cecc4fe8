"""Whole networks on the CUDA device that nobody has (`fake_cuda`), and a watch over what comes back from there."""

from __future__ import annotations

import contextlib

import torch
from fake_cuda import OPERATORS, Unguarded
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA = "cuda:0"


class Bindings(Unguarded):
    """More of them: what networks, votes and readouts call."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.contiguous:
            return OPERATORS.contiguous(*args, **(kwargs or {}))
        if func is torch.Tensor.__invert__:
            return OPERATORS.bitwise_not(*args)
        if func is torch.Tensor.nonzero:
            return OPERATORS.nonzero(*args)
        if func is torch.tensor and (kwargs or {}).get("device") is not None:
            device = kwargs.pop("device")
            here = torch.tensor(*args, **kwargs)
            return torch.empty(here.shape, dtype=here.dtype, device=device)
        return super().__torch_function__(func, types, args, kwargs)


class WaitedError(AssertionError):
    """Something was brought to the host."""


class NothingComesBack(TorchDispatchMode):
    """Refuses operators that read on the device and write on the host, and remembers where tensors were made."""

    def __init__(self):
        super().__init__()
        self.made = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        read = {part.device.type for part in tree_leaves((arguments, options or {})) if isinstance(part, torch.Tensor)}
        made = {part.device.type for part in tree_leaves(found) if isinstance(part, torch.Tensor)}
        if "cuda" in read and "cpu" in made:
            raise WaitedError(f"{function} brings a tensor of the device to the host")
        self.made |= made
        return found


@contextlib.contextmanager
def watched_cuda():
    """Inside, tensors are fake, and may be on `cuda:0`; yields what refuses that they come back."""
    with FakeTensorMode(), Bindings(), torch.inference_mode():
        yield NothingComesBack()


def moved(network: nn.Module) -> nn.Module:
    """A network of the same layers on the fake device; to be called inside."""
    for part in network.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    other = torch.empty(tensor.shape, dtype=tensor.dtype, device=CUDA)
                    table[name] = nn.Parameter(other, requires_grad=False) if table is part._parameters else other
    return network
