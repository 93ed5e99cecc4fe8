"""Data from files of the user's: an `.npz` of arrays x [N, ...] and y [N], or a folder of images by class.

Folders have the ImageFolder layout, root/<split>/<class>/*.png|jpg|jpeg. ImageNet is read by its usual protocol
(Cohen et al. 2019): shorter side to 256, centre crop 224, by image_size=224.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from smoothcert import foreign
from smoothcert.data import Inputs, Layout, Subset
from smoothcert.data._npz import ArrayHeader, NpzArchive
from smoothcert.data._scale import FITTED, NONE, FittedScale, Scale, ScaledStore, feature_names, fit
from smoothcert.data._sets import Array
from smoothcert.errors import DataError, OptionError, reason

_ENDINGS = (".png", ".jpg", ".jpeg")
_SPLITS = ("train", "test", "val")
_PIXELS = 2**26  # of one image: 8192 × 8192
_Read = TypeVar("_Read")


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


@dataclass(frozen=True)
class FolderStore:
    """Images on disk, each decoded when it is taken."""

    paths: tuple[Path, ...]
    image_size: int | None

    def take(self, positions: Array) -> Array:
        return np.stack([self._one(self.paths[int(position)]) for position in positions])

    def _one(self, path: Path) -> Array:
        image = _opened(path, lambda opened: opened.convert("RGB"))
        if self.image_size is not None:
            image = _centre(path, image, self.image_size)
        pixels = np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)
        return (pixels / 255.0).astype(np.float32)


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


def load_folder(root: Path, subset: Subset) -> Inputs:
    """The selected images of a split; a class's number is its place among the sorted folder names."""
    folder, image_size = _split_folder(root, subset.split), subset.image_size
    classes = [path for path in _listed(folder) if foreign.is_folder(path) and not path.name.startswith(".")]
    if not classes:
        raise DataError(f"folder '{folder}' must hold one folder for each class; got none")
    found = [
        (path, label) for label, name in enumerate(classes) for path in _listed(name) if path.suffix.lower() in _ENDINGS
    ]
    if not found:
        raise DataError(f"class folders of '{folder}' must hold png or jpeg images; got none")
    indices = subset.indices(len(found))
    paths = tuple(found[index][0] for index in indices)
    labels = np.array([found[index][1] for index in indices], dtype=np.int64)
    shape = (3, image_size, image_size) if image_size is not None else _common_shape(paths)
    store, names = FolderStore(paths, image_size), tuple(path.name for path in classes)
    return Inputs(str(root), subset.split, indices, labels, shape, len(classes), store, names)


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


def _split_folder(root: Path, split: str) -> Path:
    candidates = [split, "val"] if split == "test" else [split]
    for name in candidates:
        if (root / name).is_dir():
            return root / name
    others = [name for name in _SPLITS if (root / name).is_dir()]
    if others:
        raise DataError(f"folder '{root}' must hold the split {' or '.join(candidates)}; got {', '.join(others)}")
    return root


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"folder '{folder}' must be readable; got: {error.strerror or error}") from error


def _opened(path: Path, read: Callable[[Image.Image], _Read]) -> _Read:
    """What is read from an image file, or the line that says why it cannot be.

    Other formats than those promised stay shut, whatever a file is called: some of them are read by other programs.
    """
    foreign.size_of(path, "image", DataError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours comes sooner
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                _refuse_size(path, *image.size)
                return read(image)
    except DataError:
        raise
    except Exception as error:  # a damaged file can provoke anything in its reader
        raise DataError(f"image '{path}' must be a readable png or jpeg; got: {reason(error)}") from error


def _refuse_size(path: Path, width: int, height: int) -> None:
    if width * height > _PIXELS:
        raise DataError(f"image '{path}' must have at most {_PIXELS} pixels; got {width}×{height}")


def _common_shape(paths: Sequence[Path]) -> tuple[int, int, int]:
    """The size that all images share, from their headers alone."""
    sizes: dict[tuple[int, int], Path] = {}
    for path in paths:
        sizes.setdefault(_opened(path, lambda image: image.size), path)
        if len(sizes) > 1:
            (one, first), (two, second) = sizes.items()
            raise DataError(
                f"images must all have one size, or --image-size must say which; got {one[0]}×{one[1]} in "
                f"'{first}' and {two[0]}×{two[1]} in '{second}'"
            )
    width, height = next(iter(sizes))
    return 3, height, width


def _centre(path: Path, image: Image.Image, size: int) -> Image.Image:
    """Shorter side to size·256/224, then the centre: 256 and 224 for ImageNet."""
    width, height = image.size
    target = size * 256 // 224
    short = min(width, height)
    width, height = int(target * width / short), int(target * height / short)
    _refuse_size(path, width, height)  # of a picture that is long and thin
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))
