"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 70 000 articles of clothing of 28×28 pixels, in MNIST's format."""

from dataclasses import dataclass
from pathlib import Path

from smoothcert.data._sets import Progress, SourceError, debian_package
from smoothcert.data.mnist import Mnist, unpack


@dataclass(frozen=True)
class FashionMnist(Mnist):
    """The official four files; the Debian package carries the same."""

    class_names = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
    normalisation = (0.2860,), (0.3530,)
    address = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    checksums = {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    }

    def _package(self, scratch: Path, progress: Progress) -> dict[str, bytes]:
        folder = debian_package("dataset-fashion-mnist", scratch, progress) / "usr/share/datasets/fashion-mnist"
        try:
            return {file: unpack((folder / f"{file}.gz").read_bytes()) for file in self.checksums}
        except OSError as error:
            raise SourceError(f"dataset-fashion-mnist is not as expected: {error}") from error
