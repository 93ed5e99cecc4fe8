"""SVHN: MATLAB files as the official ones are made, checked by what they hold, fetched or put in place by hand."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from scipy.io import savemat

from smoothcert import data
from smoothcert.cli.main import run
from smoothcert.data import svhn
from smoothcert.data._sets import SourceError
from smoothcert.data.svhn import Svhn, parse
from smoothcert.errors import DataError

SIZES = {"train": 20, "test": 11}


def matlab(**arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays, do_compression=True)  # the official files are compressed too
    return buffer.getvalue()


def arrays(size, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3, size), dtype=np.uint8)
    return {"X": pixels, "y": (np.arange(size, dtype=np.uint8) % 10 + 1)[:, None]}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Small files in place of the official ones, served at the official address."""
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(Svhn, "sizes", SIZES)
    made = {f"{split}_32x32.mat": matlab(**arrays(size)) for split, size in SIZES.items()}
    served = {f"http://ufldl.stanford.edu/housenumbers/{file}": content for file, content in made.items()}
    monkeypatch.setattr(svhn, "download", lambda url, progress: served[url])
    return made


def offline(monkeypatch):
    def refused(url, progress):
        raise SourceError(f"{url}: no route")

    monkeypatch.setattr(svhn, "download", refused)


def test_the_splits_are_the_official_ones():
    assert Svhn.sizes == {"train": 73_257, "test": 26_032} and Svhn.shape == (3, 32, 32) and Svhn.classes == 10
    assert Svhn().files == ("train_32x32.mat", "test_32x32.mat")


def test_get_then_load(files):
    part = Svhn()
    assert not part.cached()
    part.get()
    assert part.cached() and {path.name: path.read_bytes() for path in part.folder().iterdir()} == files
    inputs = data.load("svhn", skip=2)
    given = arrays(11)
    assert (len(inputs), inputs.shape, inputs.classes) == (6, (3, 32, 32), 10)
    assert inputs.labels.tolist() == [1, 3, 5, 7, 9, 1]
    assert torch.equal(inputs.tensor(2) * 255, torch.from_numpy(given["X"][:, :, :, 4]).permute(2, 0, 1).float())
    assert data.load("svhn", "train").labels[9] == 0  # 10 means the digit 0


def test_files_put_into_the_folder_by_hand_will_do(files, monkeypatch):
    offline(monkeypatch)
    folder = Svhn().folder()
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    Svhn().get()
    assert len(data.load("svhn")) == 11


def test_without_a_source_one_line_says_what_to_put_where(files, monkeypatch, capsys):
    offline(monkeypatch)
    assert run(["data", "get", "svhn"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0 and "housenumbers/train_32x32.mat: no route" in said
    assert f"put train_32x32.mat, test_32x32.mat into '{Svhn().folder()}'" in said
    assert not Svhn().folder().exists()
    with pytest.raises(DataError, match=r"svhn is not cached in .*; run: smoothcert data get svhn"):
        data.load("svhn")


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


good = arrays(11)
BAD = {
    "one image short": (matlab(**arrays(10)), r"X must be uint8 \[32, 32, 3, 11\]; got uint8 \[32, 32, 3, 10\]"),
    "floats": (matlab(X=good["X"] / 255, y=good["y"]), r"X must be uint8 .*; got float64"),
    "images first": (matlab(X=good["X"].transpose(3, 0, 1, 2), y=good["y"]), r"got uint8 \[11, 32, 32, 3\]"),
    "labels short": (matlab(X=good["X"], y=good["y"][:10]), r"y must be 11 whole numbers; got uint8 \[10\]"),
    "labels real": (matlab(X=good["X"], y=good["y"] + 0.5), "y must be 11 whole numbers; got float64"),
    "label 0": (matlab(X=good["X"], y=good["y"] - 1), "y must be 1 to 10; got 0 to 9"),
    "label 11": (matlab(X=good["X"], y=good["y"] + 1), "y must be 1 to 10; got 2 to 11"),
    "no y": (matlab(X=good["X"]), "must be a MATLAB file of X and y; got: 'y'"),
    "empty": (b"", "must be a MATLAB file"),
    "a page": (b"<html>not found</html>" * 20, "must be a MATLAB file"),
    "MATLAB 7.3": (b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n", "must be a MATLAB file"),
    "cut off": (matlab(**good)[:20_000], "must be a MATLAB file"),
    "rotten": (flipped(matlab(**good), 20_000), "must be a MATLAB file"),
}


@pytest.mark.parametrize(("content", "words"), BAD.values(), ids=BAD)
def test_what_is_not_the_official_file_is_refused_and_never_cached(files, monkeypatch, content, words):
    with pytest.raises(DataError, match=words) as error:
        parse(content, 11)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(svhn, "download", lambda url, progress: content if "test" in url else files["train_32x32.mat"])
    with pytest.raises(DataError, match=r"svhn could not be fetched \(test_32x32.mat: .*must be"):
        Svhn().get()
    assert not Svhn().folder().exists()


def test_a_damaged_cache_gets_one_line_and_get_repairs_it(files):
    Svhn().get()
    path = Svhn().folder() / "test_32x32.mat"
    path.write_bytes(flipped(path.read_bytes(), 20_000))
    with pytest.raises(
        DataError, match=r"test_32x32.mat' of svhn is not the official file: .*run: smoothcert data get svhn"
    ):
        data.load("svhn")
    assert len(data.load("svhn", "train")) == 20  # the other split is sound
    Svhn().get()
    assert len(data.load("svhn")) == 11
