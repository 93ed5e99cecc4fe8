"""Tensors as the protocol writes them: JSON lists, nested or flat, or raw little-endian bytes.

An image in JSON is some hundred thousand numbers, so nothing here looks at them one by one in Python.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from smoothcert.contracts import Tensor
from smoothcert.foreign import shown
from smoothcert.server.values import RequestError

InputKind: TypeAlias = Literal["FP32", "UINT8"]
RAW = {"FP32": "<f4", "UINT8": "u1", "INT64": "<i8", "FP64": "<f8", "BOOL": "?"}


def from_json(data: Any, shape: Sequence[int], datatype: InputKind) -> Tensor:
    """The inputs that JSON lists hold: flat, in row-major order, or nested as the shape says."""
    if not isinstance(data, list):
        raise RequestError(400, f"data of the input must be a list of numbers; got {shown(data)}")
    flat = _flattened(data, shape)
    kinds = set(map(type, flat))
    wanted = {int} if datatype == "UINT8" else {int, float}
    if not kinds <= wanted:
        said = "whole numbers" if datatype == "UINT8" else "numbers"
        odd = next(value for value in flat if type(value) not in wanted)
        raise RequestError(400, f"data of the input must be {said} for {datatype}; got {shown(odd)}")
    if len(flat) != math.prod(shape):
        raise RequestError(
            400, f"data of the input must hold {math.prod(shape)} values for shape {list(shape)}; got {len(flat)}"
        )
    return _inputs(np.array(flat, np.float64), shape, datatype)


def from_bytes(raw: bytes, shape: Sequence[int], datatype: InputKind) -> Tensor:
    """The inputs that raw bytes hold, little-endian and in row-major order."""
    needed = math.prod(shape) * np.dtype(RAW[datatype]).itemsize
    if len(raw) != needed:
        raise RequestError(
            400, f"binary_data_size of the input must be {needed} for {datatype} {list(shape)}; got {len(raw)}"
        )
    return _inputs(np.frombuffer(raw, RAW[datatype]), shape, datatype)


def _flattened(data: list[Any], shape: Sequence[int]) -> list[Any]:
    """One flat list of a nested one, each level as long as the shape says."""
    if not any(isinstance(item, list) for item in data[:1]):
        return data
    level, count = data, 1
    for axis, size in enumerate(shape):
        count *= size
        if len(level) != count:
            raise RequestError(
                400, f"data of the input must be nested as its shape {list(shape)}; got another length on axis {axis}"
            )
        if axis == len(shape) - 1:
            break
        if set(map(type, level)) != {list} or set(map(len, level)) != {shape[axis + 1]}:
            raise RequestError(
                400,
                f"data of the input must be nested as its shape {list(shape)}; got another length on axis {axis + 1}",
            )
        level = list(itertools.chain.from_iterable(level))
    return level


def _inputs(values: npt.NDArray[Any], shape: Sequence[int], datatype: InputKind) -> Tensor:
    """As float32 in [0,1]. Not a number is neither below nor above anything, hence the way this is asked."""
    import torch

    most = 255 if datatype == "UINT8" else 1
    inside = (values >= 0) & (values <= most)
    if not inside.all():
        odd = values[~inside][0]
        raise RequestError(400, f"data of the input must be in [0, {most}] for {datatype}; got {odd:g}")
    found = values.astype(np.float32).reshape(tuple(shape))
    return torch.from_numpy(found / np.float32(255) if datatype == "UINT8" else found)


def to_bytes(values: Sequence[Any], datatype: str) -> bytes:
    """Values of an output, raw; each text is preceded by its length in four bytes."""
    if datatype == "BYTES":
        texts = [str(value).encode("utf-8") for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return np.array(values, RAW[datatype]).tobytes()
