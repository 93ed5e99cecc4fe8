"""Images in folders: root/<split>/<class>/*.png|jpg|jpeg, the ImageFolder layout.

ImageNet is read by its usual protocol (Cohen et al. 2019): shorter side to 256, centre crop 224, by image_size=224; for
training a random part instead (Szegedy et al. 2015): 8 to 100 % of the area, sides 3:4 to 4:3, mirrored or not.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from smoothcert import foreign
from smoothcert.data import Inputs, Subset
from smoothcert.data._sets import Array
from smoothcert.errors import DataError, OptionError, reason

_ENDINGS = (".png", ".jpg", ".jpeg")
_SPLITS = ("train", "test", "val")
_PIXELS = 2**26  # of one image: 8192 × 8192
_AREA = (0.08, 1.0)  # of a random part
_RATIO = (3 / 4, 4 / 3)  # of its width to its height, drawn evenly on a logarithmic scale
_TRIES = 10
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class FolderStore:
    """Images on disk, each decoded when it is taken."""

    paths: tuple[Path, ...]
    image_size: int | None

    root: Path

    def take(self, positions: Array) -> Array:
        return np.stack([self._one(self.paths[int(position)]) for position in positions])

    def take_parts(self, positions: Array, keys: Sequence[int]) -> Array:
        """A random part of each image, resized, mirrored or not; which, its key decides alone."""
        if self.image_size is None:
            raise OptionError("augment resized_crop needs --image-size, the size of the crops; got none")
        size = self.image_size
        paths = (self.paths[int(position)] for position in positions)
        return np.stack([_values(random_part(_read(path), size, key)) for path, key in zip(paths, keys, strict=True)])

    def files(self, positions: Array) -> Iterator[tuple[str, int]]:
        """Of each image its name, from the folder that was read, and its size in bytes."""
        for path in (self.paths[int(position)] for position in positions):
            yield path.relative_to(self.root).as_posix(), foreign.size_of(path, "image", DataError)

    def _one(self, path: Path) -> Array:
        image = _read(path)
        return _values(image if self.image_size is None else _centre(path, image, self.image_size))


def load_folder(root: Path, subset: Subset) -> Inputs:
    """The selected images of a split; a class's number is its place among the sorted folder names."""
    folder, image_size = split_folder(root, subset.split), subset.image_size
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
    store, names = FolderStore(paths, image_size, folder), tuple(path.name for path in classes)
    return Inputs(str(root), subset.split, indices, labels, shape, len(classes), store, names)


def random_part(image: Image.Image, size: int, key: int) -> Image.Image:
    """A random part of an image, resized to a square and mirrored or not; the same key gives the same one."""
    random = np.random.default_rng(key)
    left, top, width, height = _box(*image.size, random)
    part = image.crop((left, top, left + width, top + height)).resize((size, size), Image.Resampling.BILINEAR)
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part


def _box(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, top, width and height of a random part; the middle where an image is too long to have one."""
    for _ in range(_TRIES):
        area = width * height * random.uniform(*_AREA)
        ratio = math.exp(random.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            return int(random.integers(width - wide + 1)), int(random.integers(height - high + 1)), wide, high
    wide, high = min(width, max(1, round(height * _RATIO[1]))), min(height, max(1, round(width / _RATIO[0])))
    return (width - wide) // 2, (height - high) // 2, wide, high


def _read(path: Path) -> Image.Image:
    return _opened(path, lambda opened: opened.convert("RGB"))


def _values(image: Image.Image) -> Array:
    """Pixels in [0,1], channels first."""
    pixels = np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)
    return (pixels / 255.0).astype(np.float32)


def split_folder(root: Path, split: str) -> Path:
    """Where the images of a split lie."""
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
