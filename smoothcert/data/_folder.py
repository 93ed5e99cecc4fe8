"""Data from a folder of images in ImageFolder layout: root/<split>/<class>/*.png|jpg|jpeg.

ImageNet is read by its usual protocol (Cohen et al. 2019): shorter side to 256, centre crop 224, by image_size=224.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data import Inputs, Subset
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

    from smoothcert.data import Array

_ENDINGS = (".png", ".jpg", ".jpeg")
_SPLITS = ("train", "test", "val")


@dataclass(frozen=True)
class FolderStore:
    """Images on disk, each decoded when it is taken."""

    paths: tuple[Path, ...]
    image_size: int | None

    def take(self, positions: Array) -> Array:
        return np.stack([self._one(self.paths[int(position)]) for position in positions])

    def _one(self, path: Path) -> Array:
        from PIL import Image

        try:
            with Image.open(path) as opened:
                image = opened.convert("RGB")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise _unreadable(path, error) from error
        if self.image_size is not None:
            image = _centre(image, self.image_size)
        pixels = np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)
        return (pixels / 255.0).astype(np.float32)


def load(root: Path, subset: Subset) -> Inputs:
    """The selected images of a split; a class's number is its place among the sorted folder names."""
    folder, image_size = _split_folder(root, subset.split), subset.image_size
    classes = _class_folders(folder)
    found = [(path, label) for label, name in enumerate(classes) for path in _images(name)]
    if not found:
        raise DataError(f"class folders of '{folder}' must hold png or jpeg images; got none")
    indices = subset.indices(len(found))
    paths = tuple(found[index][0] for index in indices)
    labels = np.array([found[index][1] for index in indices], dtype=np.int64)
    shape = (3, image_size, image_size) if image_size is not None else _common_shape(paths)
    return Inputs(str(root), subset.split, indices, labels, shape, len(classes), FolderStore(paths, image_size))


def _split_folder(root: Path, split: str) -> Path:
    candidates = [split, "val"] if split == "test" else [split]
    for name in candidates:
        if (root / name).is_dir():
            return root / name
    others = [name for name in _SPLITS if (root / name).is_dir()]
    if others:
        raise DataError(f"folder '{root}' must hold the split {' or '.join(candidates)}; got {', '.join(others)}")
    return root


def _class_folders(folder: Path) -> list[Path]:
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise DataError(f"folder '{folder}' must hold one folder for each class; got none")
    return classes


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS)


def _common_shape(paths: Sequence[Path]) -> tuple[int, int, int]:
    """The size that all images share, from their headers alone."""
    from PIL import Image

    sizes: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            with Image.open(path) as image:
                sizes.setdefault(image.size, path)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise _unreadable(path, error) from error
        if len(sizes) > 1:
            (one, first), (two, second) = sizes.items()
            raise DataError(
                f"images must all have one size, or --image-size must say which; got {one[0]}×{one[1]} in "
                f"'{first}' and {two[0]}×{two[1]} in '{second}'"
            )
    width, height = next(iter(sizes))
    return 3, height, width


def _centre(image: Image, size: int) -> Image:
    """Shorter side to size·256/224, then the centre: 256 and 224 for ImageNet."""
    from PIL import Image as Pillow

    width, height = image.size
    target = size * 256 // 224
    short = min(width, height)
    width, height = int(target * width / short), int(target * height / short)
    image = image.resize((width, height), Pillow.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(f"image '{path}' must be a readable png or jpeg; got: {reason}")
