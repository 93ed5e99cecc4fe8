"""Inputs that a Python program holds: arrays, a torch data set or loader, pictures → arrays x [N, ...] and y [N].

(x, y)                arrays of uint8, or of floats in [0,1], and whole-number labels
a Dataset             items (x, y), or mappings with an input and a label
a DataLoader          batches of such items
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from smoothcert.data._sets import Array
from smoothcert.errors import DataError

INPUT_KEYS = ("pixel_values", "image", "img", "input_values", "x", "inputs", "input")
LABEL_KEYS = ("label", "labels", "y", "target", "targets")
FIX = "give (x, y), a Dataset or a DataLoader; inputs without labels go to Smoothed(…).certify"
RANGE = "normalisation belongs inside the model, so that σ and radii are on the scale [0,1]"


def as_arrays(data: Any, labels: Any = None, most: int | None = None, ranged: bool = True) -> tuple[Array, Array]:
    """The first `most` inputs, uint8 or float32, and their labels, int64; DataError naming the input that is wrong."""
    if labels is None and isinstance(data, tuple | list) and len(data) == 2 and _is_array(data[0]):
        data, labels = data
    if _is_array(data):
        if labels is None:
            raise DataError(f"labels of the inputs must be given; got an array alone: {FIX}")
        x, y = as_numbers(data, "inputs"), as_numbers(labels, "labels")
        x, y = x[:most], y[:most]
    elif labels is not None:
        raise DataError(f"labels must come with an array of inputs; got them with {type(data).__name__}")
    else:
        x, y = _collected(data, most)
    return _checked_inputs(x, ranged), _checked_labels(y, len(x))


def _is_array(value: Any) -> bool:
    typed = hasattr(value, "dtype") or hasattr(value, "dtypes")  # of a frame
    return typed and hasattr(value, "shape") and len(value.shape) > 0


def as_numbers(value: Any, what: str) -> Array:
    """Anything that holds numbers as an array of them."""
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{what} must be an array of numbers; got {type(value).__name__}") from error
    if found.dtype == object or found.dtype.kind not in "fiub":
        raise DataError(f"{what} must be an array of numbers, all of one shape; got {found.dtype}")
    return found


def _collected(data: Any, most: int | None) -> tuple[Array, Array]:
    """The items of a data set, or of the batches of a loader."""
    scalar = getattr(data, "shape", None) == ()
    if scalar or isinstance(data, Mapping) or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
        raise DataError(
            f"data must be arrays, a data set's name, a folder, a Dataset or a DataLoader; got {_kind(data)}"
        )
    pairs = list(islice(_pairs(data), most))
    if not pairs:
        raise DataError(f"data must hold at least one input; got an empty {_kind(data)}")
    first = pairs[0][0].shape
    if other := next((number for number, (value, _) in enumerate(pairs) if value.shape != first), None):
        shapes = f"{list(first)} at 0 and {list(pairs[other][0].shape)} at {other}"
        raise DataError(f"inputs must all have one shape; got {shapes}")
    return np.stack([value for value, _ in pairs]), np.stack([label for _, label in pairs])


def _pairs(data: Any) -> Iterator[tuple[Array, Array]]:
    batched = hasattr(data, "batch_size") and hasattr(data, "dataset")  # a torch DataLoader
    for number, item in enumerate(_items(data)):
        x, y = _pair(item, number)
        if batched:
            labels = np.atleast_1d(as_numbers(y, f"labels {number}"))
            yield from zip(as_numbers(x, f"batch {number}"), labels, strict=True)
        else:
            yield _picture(x, number), as_numbers(y, f"label {number}")


def _items(data: Any) -> Iterator[Any]:
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not hasattr(data, "batch_size"):
        return (data[number] for number in range(len(data)))  # a Dataset need not end by itself when it is iterated
    return iter(data)


def _pair(item: Any, number: int) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        x, y = (next((key for key in keys if key in item), None) for keys in (INPUT_KEYS, LABEL_KEYS))
        if x is None or y is None:
            names = ", ".join(map(str, item))[:80]
            raise DataError(f"item {number} must have an input (as pixel_values) and a label (as label); got {names}")
        return item[x], item[y]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(f"item {number} must be a pair (input, label); got {_kind(item)}: {FIX}")
    return item[0], item[1]


def _picture(x: Any, number: int) -> Array:
    """A PIL picture as uint8, channels first; anything else as an array."""
    if hasattr(x, "getbands"):
        pixels = np.asarray(x.convert("RGB") if x.mode not in ("L", "RGB") else x)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return as_numbers(x, f"input {number}")


def _checked_inputs(x: Array, ranged: bool) -> Array:
    if x.ndim < 2 or 0 in x.shape:
        raise DataError(f"inputs must be an array [N, ...] that holds values; got shape {list(x.shape)}")
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind != "f":
        raise DataError(
            f"inputs must be uint8 or floats in [0,1]; got {x.dtype} (token ids are names, not quantities: noise "
            "cannot be added to them)"
        )
    x = x.astype(np.float32) if ranged else x
    for number, one in enumerate(x):
        low, high = float(one.min()), float(one.max())  # NaN where one is
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError(f"input {number} must be finite; got NaN or infinity")
        if ranged and (low < 0.0 or high > 1.0):
            raise DataError(f"input {number} must be in [0,1]; got values from {low:g} to {high:g} ({RANGE})")
    return x


def _checked_labels(y: Array, inputs: int) -> Array:
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise DataError(f"labels must be whole numbers [N]; got {y.dtype} of shape {list(y.shape)}")
    if len(y) != inputs:
        raise DataError(f"labels must be as many as inputs, {inputs}; got {len(y)}")
    if int(y.min()) < 0:
        raise DataError(f"labels must be 0 or more; got {int(y.min())} for input {int(y.argmin())}")
    return y.astype(np.int64)


def _kind(value: Any) -> str:
    return type(value).__name__
