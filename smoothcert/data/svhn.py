"""SVHN (Netzer et al. 2011), cropped digits: 99 289 colour images of 32×32 pixels cut out of house numbers.

The cache keeps the official MATLAB files as they are: X, uint8 [32, 32, 3, N], and y [N, 1] with 10 for the digit 0.
No checksum of theirs could be verified when this was written, so they are checked by what they hold: names, types,
shapes, labels and the number of images. MATLAB's compression has checksums of its own, so that rot does not pass.
"""

import io
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothcert.data._sets import LARGEST, Array, Downloaded, Progress, Source, download
from smoothcert.errors import DataError, reason

_COMPRESSED = 15  # the type of an element that is packed
_PIECE = 2**20  # bytes
_ADDRESS = "http://ufldl.stanford.edu/housenumbers/"


@dataclass(frozen=True)
class Svhn(Downloaded):
    """There is one source, the official one; files from elsewhere can be put into the cache by hand."""

    shape = (3, 32, 32)
    sizes = {"train": 73_257, "test": 26_032}
    normalisation = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)  # those that the field uses

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(_file(split) for split in self.sizes)

    def sources(self) -> tuple[Source, ...]:
        return (self._official,)

    def load(self, split: str) -> tuple[Array, Array]:
        """Pixels, uint8 [N, 3, 32, 32], and labels, int64 [N]."""
        content = self.content(_file(split))
        try:
            return parse(content, self.sizes[split])
        except DataError as error:
            raise DataError(
                f"'{self.folder() / _file(split)}' of svhn is not the official file: {error}; "
                "run: smoothcert data get svhn"
            ) from error

    def mismatch(self, files: Mapping[str, bytes]) -> str | None:
        for split, size in self.sizes.items():
            try:
                parse(files[_file(split)], size)
            except DataError as error:
                return f"{_file(split)}: {error}"
        return None

    def _official(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        return {file: download(f"{_ADDRESS}{file}", progress) for file in self.files}


def _file(split: str) -> str:
    return f"{split}_32x32.mat"


def parse(content: bytes, size: int) -> tuple[Array, Array]:
    """Pixels, uint8 [size, 3, 32, 32], and labels 0…9, int64 [size], of a MATLAB file."""
    from scipy.io import loadmat

    try:
        _refuse_bombs(content, most=min(LARGEST, 9 * 3072 * size + 2**16))  # even as float64
        held = loadmat(io.BytesIO(content), variable_names=["X", "y"])  # type: ignore[arg-type]  # stubs lag behind
        pixels, labels = held["X"], held["y"].ravel()
    except Exception as error:  # a foreign or damaged file can provoke anything in its reader
        raise DataError(f"it must be a MATLAB file of X and y; got: {reason(error)}") from error
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, size):
        raise DataError(f"X must be uint8 [32, 32, 3, {size}]; got {pixels.dtype} {list(pixels.shape)}")
    if labels.dtype.kind not in "iu" or labels.shape != (size,):
        raise DataError(f"y must be {size} whole numbers; got {labels.dtype} {list(labels.shape)}")
    if labels.min() < 1 or labels.max() > 10:
        raise DataError(f"y must be 1 to 10; got {labels.min()} to {labels.max()}")
    return pixels.transpose(3, 2, 0, 1), labels.astype(np.int64) % 10


def _refuse_bombs(content: bytes, most: int) -> None:
    """ValueError where what a MATLAB file has packed unpacks to more than that; found out piece by piece."""
    if content[126:128] != b"IM":
        raise ValueError("it is not a MATLAB 5 file, its low bytes first")
    at, unpacked = 128, 0
    while at + 8 <= len(content):
        kind, length = struct.unpack("<II", content[at : at + 8])
        if kind == _COMPRESSED:
            stream, packed = zlib.decompressobj(), content[at + 8 : at + 8 + length]
            while packed and not stream.eof and unpacked <= most:
                unpacked += len(stream.decompress(packed, _PIECE))
                packed = stream.unconsumed_tail
        if unpacked > most:
            raise ValueError(f"it unpacks to more than {most} bytes")
        at += 8 + length
