"""Named data sets: splits that never change, the cache that is verified, sources tried in turn."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np
import pytest
import torch

from smoothcert import catalog, data
from smoothcert.data import _sets, mnist
from smoothcert.data.cifar10 import split_files
from smoothcert.errors import DataError, OptionError, OutputError

DOWNLOADED = [name for name in catalog.names("data") if not catalog.build("data", name).embedded]
DIGITS_LABELS = [1, 3, 9, 2, 1, 8, 8, 8, 0, 1]
DIGITS_DIGEST = "11a52fbe6405441c800a071165dca1ad13eca1220cd45c2ea189f93d79b79062"


def require_cached(name):
    part = catalog.build("data", name)
    if not part.cached():
        pytest.skip(f"{name} is not cached")
    return part


def test_digits_are_split_as_they_always_were():
    train, test = data.load("digits", "train"), data.load("digits", "test")
    assert (len(train), len(test), test.shape, test.classes) == (1297, 500, (1, 8, 8), 10)
    assert test.labels[:10].tolist() == DIGITS_LABELS
    assert test.digest == DIGITS_DIGEST

    # No image is in both splits, but for those that the source itself holds twice.
    def images(inputs):
        return {x.numpy().tobytes() for x in inputs.tensors()}

    assert len(images(train) | images(test)) == len({*images(train)}) + len({*images(test)})


def test_digits_values_are_sixteenths():
    x = data.load("digits").tensors()
    assert x.dtype == torch.float32 and x.min() == 0 and x.max() == 1
    assert torch.equal(x * 16, (x * 16).round())


@pytest.mark.parametrize(("skip", "max"), [(1, -1), (20, -1), (1, 7), (3, 10), (7, 10_000), (600, 1)])
def test_the_subset_is_that_of_cohens_scripts(skip, max):
    # Their loop, word for word: visit i unless i % skip != 0; stop when i == max.
    expected = []
    for i in range(500):
        if i % skip != 0:
            continue
        if i == max:
            break
        expected.append(i)
    if max != -1 and max % skip:  # the script's == would run past a max that skip steps over; ours stops before it
        expected = [i for i in expected if i < max]
    assert data.load("digits", skip=skip, max=max).indices.tolist() == expected


@pytest.mark.parametrize(("options", "words"), [
    ({"skip": 0}, "skip"), ({"max": 0}, "max"), ({"max": -2}, "max"), ({"image_size": 0}, "image_size"),
    ({"image_size": 8}, "image_size"), ({"value_range": (0.0, 1.0)}, "range"),
    ({"split": "tset"}, "did you mean 'test'"),
])  # fmt: skip
def test_bad_options_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        data.load("digits", **options)


def test_classes_have_names_where_they_are_no_numbers():
    assert data.class_names("cifar10")[3] == "cat" and data.class_names("fashion_mnist")[9] == "ankle boot"
    assert data.class_names("mnist") == data.class_names("x.npz") == data.class_names("fashion") == ()
    named = [catalog.build("data", name) for name in catalog.names("data")]
    assert all(len(part.class_names) in (0, part.classes) for part in named)


def test_a_subset_is_one_value_checked_before_anything_is_read():
    subset = data.Subset("digits", "train", 100, 1000, 50)
    assert subset.load().indices.tolist() == list(range(50, 1000, 100))
    assert subset == data.Subset(**dataclasses.asdict(subset)) and len({subset, dataclasses.replace(subset)}) == 1
    assert data.Subset("x.npz", value_range=[0, 255]) == data.Subset("x.npz", value_range=(0, 255))  # as files hold it
    for wrong in ({"skip": 0}, {"start": -1}, {"max": 0}, {"value_range": (1.0, 0.0)}, {"image_size": 0}):
        with pytest.raises(OptionError, match="of the data must"):
            data.Subset("nowhere.npz", **wrong)


def test_unknown_data_suggests_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'digits'"):
        data.load("digist")
    with pytest.raises(DataError, match="no such file"):
        data.load("nowhere/at/all")


def test_the_digest_knows_values_labels_and_indices(tmp_path):
    def digest(x, y, **options):
        np.savez(tmp_path / "some.npz", x=x, y=y)
        return data.load(str(tmp_path / "some.npz"), **options).digest

    x, y = np.arange(24, dtype=np.uint8).reshape(4, 6), np.array([0, 1, 0, 1])
    same = digest(x, y)
    assert digest((x / 255.0), y) == same  # the same numbers from another file
    changed = x.copy()
    changed[3, 5] += 1
    others = [digest(changed, y), digest(x, 1 - y), digest(x, y, max=3), digest(x.reshape(4, 2, 3), y)]
    assert len({same, *others}) == 5


# --- the cache, with a small data set in place of the real one


class Small(mnist.Mnist):
    """IDX files of three training and two test images, from sources a test gives."""

    name = "mnist"
    given = ()

    def sources(self):
        return self.given


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    files = {}
    for prefix, count in (("train", 3), ("t10k", 2)):
        files[f"{prefix}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        files[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(count, dtype=np.uint8))
    monkeypatch.setattr(Small, "checksums", {n: hashlib.sha256(c).hexdigest() for n, c in files.items()}, raising=False)
    monkeypatch.setattr(Small, "given", (lambda scratch, progress: dict(files),))
    return Small(), files


def test_get_then_load(small):
    part, files = small
    assert not part.cached()
    part.get()
    assert part.cached() and sorted(p.name for p in part.folder().iterdir()) == sorted(files)
    x, y = part.load("test")
    assert x.shape == (2, 1, 28, 28) and x.tobytes() == files["t10k-images-idx3-ubyte"][16:] and y.tolist() == [0, 1]


def test_nothing_is_fetched_twice(small, monkeypatch):
    part, _ = small
    part.get()
    monkeypatch.setattr(Small, "given", ())
    part.get()


def test_not_cached_says_what_to_do(small):
    with pytest.raises(DataError, match="run: smoothcert data get mnist"):
        small[0].load("test")


@pytest.mark.parametrize("damage", [b"", b"\0", None])
def test_a_damaged_cache_gets_one_line_and_get_repairs_it(small, damage):
    part, files = small
    part.get()
    path = part.folder() / "t10k-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(bytes(content) if damage is None else damage)
    with pytest.raises(DataError, match="cache is damaged; run: smoothcert data get mnist") as error:
        part.load("test")
    assert "\n" not in str(error.value)
    part.load("train")  # the other split is sound
    part.get()
    assert part.load("test")[1].tolist() == [0, 1]
    assert sorted(p.name for p in part.folder().iterdir()) == sorted(files)


def test_the_second_source_serves_when_the_first_fails_or_lies(small, monkeypatch):
    part, files = small

    def fails(scratch, progress):
        raise _sets.SourceError("no route")

    lies = {**files, "t10k-labels-idx1-ubyte": b"other"}
    monkeypatch.setattr(Small, "given", (fails, lambda *_: lies, lambda *_: files))
    part.get()
    assert part.load("test")[1].tolist() == [0, 1]


def test_no_source_leaves_one_line_and_no_cache(small, monkeypatch):
    part, files = small
    lies = {**files, "t10k-labels-idx1-ubyte": b"other"}
    monkeypatch.setattr(Small, "given", (lambda *_: lies, lambda *_: {}))
    with pytest.raises(DataError, match=r"t10k-labels.* has sha256 .*train-images.* is missing") as error:
        part.get()
    assert "\n" not in str(error.value) and not part.folder().exists()


def test_an_unwritable_cache_is_one_line(small, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(OutputError, match="must be writable"):
        small[0].get()


def test_a_failed_install_leaves_nothing_behind(small, monkeypatch):
    part, _ = small

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_sets, "write_whole", full)
    with pytest.raises(OutputError, match="No space left"):
        part.get()
    assert list(_sets.cache_root().iterdir()) == []


# --- sources


def test_a_download_ends_where_it_says(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 300_000)
    seen = []
    url = (tmp_path / "file").as_uri()
    assert _sets.download(url, lambda what, done, total: seen.append(done)) == b"x" * 300_000
    assert seen[0] == 0 and seen[-1] == 300_000
    with pytest.raises(_sets.SourceError, match="missing"):
        _sets.download((tmp_path / "missing").as_uri(), _sets.silent)


def test_a_client_that_is_missing_or_fails_is_a_source_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(_sets.SourceError, match="npm is not installed"):
        _sets.npm_package("some@1", tmp_path, _sets.silent)
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho first >&2\necho 'no such package' >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(_sets.SourceError, match="npm pack: no such package"):
        _sets.npm_package("some@1", tmp_path, _sets.silent)


def test_members_of_an_archive():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo("package/a")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    assert _sets.members(buffer.getvalue(), ["package/a"]) == {"package/a": b"abc"}
    for archive, name in ((buffer.getvalue(), "package/b"), (b"not a tar", "package/a")):
        with pytest.raises(_sets.SourceError, match="archive"):
            _sets.members(archive, [name])


def test_idx_files_that_lie_are_refused():
    good = idx(np.zeros((2, 3), dtype=np.uint8))
    assert mnist.parse(good).shape == (2, 3)
    for bad in (b"", b"PK\3\4", good[:6], good[:-1], good + b"\0"):
        with pytest.raises(DataError, match="IDX"):
            mnist.parse(bad)
    with pytest.raises(_sets.SourceError):
        mnist.unpack(gzip.compress(good)[:-9])


def test_cifar_records_become_pixels_and_labels():
    rows = np.arange(2 * 3073, dtype=np.int64).astype(np.uint8).reshape(2, 3073)
    files = split_files("test", rows.tobytes())
    pixels = np.frombuffer(files["test-images"], dtype=np.uint8).reshape(2, 32, 32, 3)
    assert files["test-labels"] == rows[:, 0].tobytes()
    assert pixels[1, 5, 7, 2] == rows[1, 1 + 2 * 1024 + 5 * 32 + 7]
    with pytest.raises(_sets.SourceError, match="3073"):
        split_files("test", b"12")


# --- the real ones


@pytest.mark.cached_data
@pytest.mark.parametrize("name", DOWNLOADED)
def test_cached_data_are_sound(name):
    part = require_cached(name)
    assert isinstance(part, _sets.Downloaded) and part.sound()
    inputs = data.load(name)
    assert len(inputs) == part.sizes["test"] and inputs.shape == part.shape
    assert np.bincount(inputs.labels).shape == (10,)


@pytest.mark.cached_data
def test_mnist_has_the_published_checksums():
    part = require_cached("mnist")
    prefixes = ["6bbc9ace", "a25bea73", "2646ac64", "27ae3e4e"]
    assert [hashlib.md5(part.read(file)).hexdigest()[:8] for file in part.checksums] == prefixes


@pytest.mark.cached_data
def test_cifar10_rebuilds_the_official_test_batch():
    x, y = require_cached("cifar10").load("test")
    records = np.concatenate([y.astype(np.uint8)[:, None], x.reshape(len(y), -1)], axis=1)
    assert hashlib.md5(records.tobytes()).hexdigest() == "803d5f7f4d78ea53de84dbe85f74fb6d"
