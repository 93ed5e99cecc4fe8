"""Data from an `.npz` file: arrays x [N, ...] and y [N]."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data import Inputs, Subset
from smoothcert.data._arrays import ArrayStore
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from smoothcert.data import Array


def load(path: Path, subset: Subset) -> Inputs:
    """The selected inputs of the file. It holds one split, so `split` only names it."""
    values, labels = _read(path)
    _check_shapes(path, values, labels)
    indices = subset.indices(len(values))
    values, labels = values[indices], labels[indices]
    if int(labels.min()) < 0:
        raise DataError(f"y of '{path}' must be labels from 0 upwards; got {int(labels.min())}")
    low, high = _scale(path, values, subset.value_range)
    shape = tuple(int(size) for size in values.shape[1:])
    return Inputs(str(path), subset.split, indices, labels.astype(np.int64), shape, None, ArrayStore(values, low, high))


def _read(path: Path) -> tuple[Array, Array]:
    if not path.is_file():
        raise DataError(f"data '{path}' must be an .npz file; got {'a folder' if path.is_dir() else 'no such file'}")
    try:
        # Pickles stay shut: a data file must not be able to run code.
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"data '{path}' must be an .npz archive with arrays x and y; got a single array")
        with archive:
            missing = [name for name in ("x", "y") if name not in archive.files]
            if missing:
                held = ", ".join(archive.files) or "nothing"
                raise DataError(f"data '{path}' must hold arrays x and y; got {held}")
            return archive["x"], archive["y"]
    except (ValueError, EOFError, KeyError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"data '{path}' must be a sound .npz file of plain arrays; got: {reason}") from error


def _check_shapes(path: Path, values: Array, labels: Array) -> None:
    if values.ndim < 2:
        raise DataError(f"x of '{path}' must be an array [N, ...] of inputs; got shape {list(values.shape)}")
    if len(values) == 0 or values.size == 0:
        raise DataError(f"x of '{path}' must hold at least one input; got shape {list(values.shape)}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"y of '{path}' must be whole numbers [N]; got {labels.dtype} {list(labels.shape)}")
    if len(values) != len(labels):
        raise DataError(f"x and y of '{path}' must be equally long; got {len(values)} and {len(labels)}")


def _scale(path: Path, values: Array, value_range: tuple[float, float] | None) -> tuple[float, float]:
    """The values that stand for 0 and 1, after checking that no value lies outside of them."""
    kind = values.dtype.kind
    if value_range is None and values.dtype == np.uint8:
        return 0.0, 255.0
    if kind != "f" and not (value_range is not None and kind in "iu"):
        raise DataError(f"x of '{path}' must be uint8 or float (other integers need --range lo,hi); got {values.dtype}")
    if kind == "f" and not np.isfinite(values).all():
        position = int(np.argwhere(~np.isfinite(values))[0][0])
        raise DataError(f"x of '{path}' must be finite; got NaN or infinity in selected input number {position}")
    low, high = value_range or (0.0, 1.0)
    least, most = float(values.min()), float(values.max())
    if least < low or most > high:
        advice = "; say what it is by --range lo,hi" if value_range is None else ""
        raise DataError(f"x of '{path}' must lie in [{low:g}, {high:g}]; got {least:g} to {most:g}{advice}")
    return low, high
