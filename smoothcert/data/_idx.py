"""Data sets in the four IDX files of MNIST: a big-endian header (two zeros, type 8, rank, sizes), then the bytes."""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothcert.data._downloaded import Downloaded
from smoothcert.data._sources import Progress, SourceError, download
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from smoothcert.data import Array

_PREFIX = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class IdxData(Downloaded):
    """28×28 grey images of ten classes."""

    shape: ClassVar[tuple[int, ...]] = (1, 28, 28)
    classes: ClassVar[int] = 10
    sizes: ClassVar[dict[str, int]] = {"train": 60_000, "test": 10_000}

    def load(self, split: str) -> tuple[Array, Array]:
        """Pixels, uint8 [N, 1, 28, 28], and labels, int64 [N]."""
        prefix = _PREFIX[split]
        pixels = parse(self.read(f"{prefix}-images-idx3-ubyte"))
        labels = parse(self.read(f"{prefix}-labels-idx1-ubyte"))
        return pixels.reshape(-1, *self.shape), labels.astype(np.int64)

    def official(self, address: str, progress: Progress) -> dict[str, bytes]:
        """The four files, unpacked, from a server that keeps them as .gz."""
        return {file: unpack(download(f"{address}{file}.gz", progress)) for file in self.checksums}


def unpack(content: bytes) -> bytes:
    """The content of a .gz file."""
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"a file is not a sound .gz: {error}") from error


def parse(content: bytes) -> Array:
    """The array of an IDX file of bytes."""
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError("an IDX file must begin with 0, 0, 8; got another kind of file")
    rank = content[3]
    header = 4 + 4 * rank
    if len(content) < header:
        raise DataError(f"an IDX file of rank {rank} must have a header of {header} bytes; got {len(content)} bytes")
    sizes = struct.unpack(f">{rank}I", content[4:header])
    if len(content) - header != int(np.prod(sizes, dtype=np.int64)):
        raise DataError(f"an IDX file of sizes {list(sizes)} must be as long as it says; got {len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(sizes)
