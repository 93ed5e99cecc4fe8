"""Data from files of the user's: an `.npz` of arrays x [N, ...] and y [N]; `_folder` reads folders of images."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothcert.data import Inputs, Layout, Subset
from smoothcert.data._npz import ArrayHeader, NpzArchive
from smoothcert.data._scale import FITTED, NONE, FittedScale, Scale, ScaledStore, feature_names, fit
from smoothcert.data._sets import Array
from smoothcert.errors import DataError, OptionError


@dataclass(frozen=True)
class ArrayStore:
    """An array [N, *shape] whose values low…high stand for 0…1; kept as it is and turned into floats when taken."""

    values: Array
    low: float = 0.0
    high: float = 1.0

    def take(self, positions: Array) -> Array:
        taken = self.values[positions]
        if (self.low, self.high) == (0.0, 1.0):
            return np.ascontiguousarray(taken, dtype=np.float32)
        if taken.dtype == np.uint8:
            # A table of 256 floats is much faster than dividing: a training set is looked up in each epoch.
            table: Array = self._mapped(np.arange(256))
            return np.take(table, np.ascontiguousarray(taken))
        return self._mapped(taken)

    def _mapped(self, values: Array) -> Array:
        """In double precision, rounded once: k/255 is then the float32 nearest to it, as in the field's loaders."""
        mapped = (values.astype(np.float64) - self.low) / (self.high - self.low)
        return np.clip(mapped, 0.0, 1.0).astype(np.float32)


def load_npz(path: Path, subset: Subset) -> Inputs:
    """The selected inputs of the file. It holds one split, so `split` only names it."""
    with NpzArchive("data", path) as archive:
        x, y = archive.headers(("x", "y"))
        _check_inputs(path, x, subset)
        _check_labels(path, x, y)
        indices = subset.indices(x.shape[0])
        values, labels = _channels_first(archive.read(x, indices), subset.layout), archive.read(y, indices)
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most > np.iinfo(np.int64).max:
        raise DataError(f"y of '{path}' must be labels from 0 upwards; got {least if least < 0 else most}")
    store = _scaled(path, values, subset)
    return Inputs(str(path), subset.split, indices, labels.astype(np.int64), values.shape[1:], None, store)


def fit_scale(path: Path, kind: str, layout: Layout | None = None) -> FittedScale:
    """The scale of the training inputs x in an `.npz` file, with its `names` where it has them."""
    if kind not in FITTED:
        raise OptionError(f"kind of a scale that is fitted must be {' or '.join(FITTED)}; got '{kind}'")
    with NpzArchive("training data", path) as archive:
        (x,) = archive.headers(("x",))
        _check_inputs(path, x, Subset(str(path), layout=layout, scale=Scale(NONE)))
        values = _channels_first(archive.read(x), layout)
        names = feature_names(archive, math.prod(values.shape[1:]))
    return fit(kind, values, names, f"'{path}'")


def _check_inputs(path: Path, x: ArrayHeader, subset: Subset) -> None:
    """Type and shape, before anything is unpacked."""
    if len(x.shape) < 2:
        raise DataError(f"x of '{path}' must be an array [N, ...] of inputs; got shape {list(x.shape)}")
    if 0 in x.shape:
        raise DataError(f"x of '{path}' must hold at least one input; got shape {list(x.shape)}")
    if subset.layout is not None and len(x.shape) != 4:
        raise DataError(f"x of '{path}' with --layout must be images [N, …, …, …]; got shape {list(x.shape)}")
    measured = subset.value_range is not None or subset.scale is not None
    if x.dtype.kind in "iu" and x.dtype != np.uint8 and not measured:
        raise DataError(
            f"x of '{path}' must be uint8 or floats; got {x.dtype}: if they are names of things, as token ids are, no "
            "noise can be added to them (certify embeddings, which are floats, or columns of categories by --noise "
            "discrete); if they are quantities, say so by --scale or --range lo,hi"
        )
    if x.dtype.kind not in "iuf":
        raise DataError(f"x of '{path}' must be uint8 or floats; got {x.dtype}")


def _check_labels(path: Path, x: ArrayHeader, y: ArrayHeader) -> None:
    if len(y.shape) != 1 or y.dtype.kind not in "iu":
        raise DataError(f"y of '{path}' must be whole numbers [N]; got {y.words}")
    if x.shape[0] != y.shape[0]:
        raise DataError(f"x and y of '{path}' must be equally long; got {x.shape[0]} and {y.shape[0]}")


def _channels_first(values: Array, layout: str | None) -> Array:
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if layout == "nhwc" else values


def _scaled(path: Path, values: Array, subset: Subset) -> ArrayStore | ScaledStore:
    """The values as they are given out, after checking that all of them lie where they must."""
    if subset.scale is None and subset.value_range is None and values.dtype == np.uint8:
        return ArrayStore(values, 0.0, 255.0)
    least, most = float(values.min()), float(values.max())  # NaN where one is, without a copy of the whole
    if not (math.isfinite(least) and math.isfinite(most)):
        position = next(number for number, one in enumerate(values) if not np.isfinite(one).all())
        raise DataError(f"x of '{path}' must be finite; got NaN or infinity in selected input number {position}")
    if subset.scale is not None:
        subset.scale.check(values.shape[1:], f"'{path}'")
        if not np.isfinite(subset.scale.scaled(np.stack([values.min(axis=0), values.max(axis=0)]))).all():
            raise DataError(f"x of '{path}' must be of a size that its scale allows; got {least:g} to {most:g}")
        return ScaledStore(values, subset.scale)
    low, high = subset.value_range or (0.0, 1.0)
    if least < low or most > high:
        advice = (
            "; --range lo,hi maps them onto [0,1], --scale measures every feature on its own scale, --scale none takes "
            "them as they are"
        )
        raise DataError(
            f"x of '{path}' must lie in [{low:g}, {high:g}]; got {least:g} to {most:g}"
            f"{advice if subset.value_range is None else ''}"
        )
    return ArrayStore(values, low, high)
