"""Data from `.npz` files and folders of images: what is welcome, and one line for everything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert import data
from smoothcert.errors import DataError, OptionError


@pytest.fixture
def npz(tmp_path):
    def make(x, y, **others):
        path = tmp_path / "mine.npz"
        np.savez(path, x=np.asarray(x), y=np.asarray(y), **others)
        return str(path)

    return make


# --- npz


def test_bytes_become_floats_as_in_the_fields_loaders(npz):
    x = np.arange(256, dtype=np.uint8).reshape(4, 1, 8, 8)
    inputs = data.load(npz(x, [0, 1, 2, 3]))
    assert torch.equal(inputs.tensors(), torch.from_numpy(x).float().div(255))  # what ToTensor computes
    assert inputs.shape == (1, 8, 8) and inputs.classes is None
    assert torch.equal(inputs.tensor(-1), inputs.tensors()[3])


@pytest.mark.parametrize("shape", [(5,), (8, 8), (3, 4, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_shape_is_welcome(npz, shape, dtype):
    x = np.random.default_rng(0).random((6, *shape)).astype(dtype)
    inputs = data.load(npz(x, np.arange(6, dtype=np.uint8)), skip=2)
    assert inputs.shape == shape and inputs.tensors().dtype == torch.float32
    assert torch.equal(inputs.tensors(), torch.from_numpy(x[::2].astype(np.float32)))
    assert inputs.labels.tolist() == inputs.indices.tolist() == [0, 2, 4]


def test_a_range_maps_onto_the_unit_interval(npz):
    inputs = data.load(npz([[-1.0, 0.0, 3.0]], [0]), value_range=(-1.0, 3.0))
    assert inputs.tensors().tolist() == [[0.0, 0.25, 1.0]]
    inputs = data.load(npz(np.array([[0, 5, 15]], dtype=np.int32), [0]), value_range=(0.0, 15.0))
    assert inputs.tensors()[0, 1] == np.float32(1 / 3)


@pytest.mark.parametrize(("x", "y", "words"), [
    ([[0.5, np.nan]], [0], "NaN or infinity in selected input number 0"),
    ([[0.5], [np.inf]], [0, 1], "NaN or infinity in selected input number 1"),
    ([[0.0, 255.0]], [0], r"must lie in \[0, 1\]; got 0 to 255; --range lo,hi maps them onto"),
    ([[-0.1, 0.5]], [0], "--range"),
    ([[0.5]], np.array([2**63], dtype=np.uint64), "labels from 0 upwards; got 9223372036854775808"),
    (np.zeros((0, 4)), np.zeros(0, dtype=int), "at least one input"),
    (np.zeros((3, 0)), [0, 1, 2], "at least one input"),
    (np.zeros(3), [0, 1, 2], r"array \[N, ...\]"),
    (np.zeros((3, 2)), [0, 1], "equally long; got 3 and 2"),
    (np.zeros((2, 2)), [0.0, 1.0], "whole numbers"),
    (np.zeros((2, 2)), [[0], [1]], "whole numbers"),
    (np.zeros((2, 2)), ["a", "b"], "whole numbers"),
    (np.zeros((2, 2)), [0, -1], "from 0 upwards; got -1"),
    (np.zeros((2, 2), dtype=np.int32), [0, 1], "uint8 or float"),
    (np.zeros((2, 2), dtype=complex), [0, 1], "uint8 or float"),
])  # fmt: skip
def test_bad_arrays_get_one_line(npz, x, y, words):
    with pytest.raises(DataError, match=words) as error:
        data.load(npz(x, y))
    assert "\n" not in str(error.value)


def test_only_what_is_selected_must_be_sound(npz):
    path = npz([[0.5], [np.nan]], [0, 1])
    assert len(data.load(path, max=1)) == 1


def test_a_range_is_still_a_promise(npz):
    with pytest.raises(DataError, match=r"must lie in \[0, 2\]; got 0 to 3$"):
        data.load(npz([[0.0, 3.0]], [0]), value_range=(0.0, 2.0))
    for bad in ((1.0, 1.0), (2.0, 1.0), (0.0, float("nan")), (0.0, float("inf"))):
        with pytest.raises(OptionError, match="lo < hi"):
            data.load(npz([[0.0]], [0]), value_range=bad)


def test_foreign_and_corrupt_files_get_one_line(tmp_path, npz):
    good = npz(np.random.default_rng(0).random((40, 40)), np.zeros(40, dtype=int))
    content = bytearray(Path(good).read_bytes())
    flipped = bytearray(content)
    flipped[2000] ^= 255
    cases = {"text": b"hello", "empty": b"", "short": bytes(content[:3000]), "flipped": bytes(flipped)}
    for name, damaged in cases.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"must be a sound \.npz") as error:
            data.load(str(path))
        assert "\n" not in str(error.value)


def test_pickles_stay_shut(tmp_path, npz):
    with pytest.raises(DataError, match="plain arrays"):
        data.load(npz(np.array([{"a": 1}, None], dtype=object), [0, 1]))


def test_other_archives_say_what_is_missing(tmp_path):
    np.savez(tmp_path / "other.npz", images=np.zeros((2, 2)), y=np.zeros(2, dtype=int))
    with pytest.raises(DataError, match="must hold arrays x and y; got images, y"):
        data.load(str(tmp_path / "other.npz"))
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match="got a single array"):
        data.load(str(tmp_path / "single.npz"))
    with pytest.raises(DataError, match="no such file"):
        data.load(str(tmp_path / "absent.npz"))
    (tmp_path / "other.txt").write_text("hello")
    with pytest.raises(DataError, match="another kind of file"):
        data.load(str(tmp_path / "other.txt"))


def test_channels_last_become_channels_first(npz):
    x = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 3), dtype=np.uint8)
    path = npz(x, [0, 1, 2])
    inputs = data.Subset(path, layout="nhwc").load()
    assert inputs.shape == (3, 5, 6)
    assert torch.equal(inputs.tensors(), torch.from_numpy(x).permute(0, 3, 1, 2).float().div(255))
    assert inputs.digest == data.load(npz(x.transpose(0, 3, 1, 2), [0, 1, 2])).digest
    assert data.Subset(path, layout="nchw").load().shape == (3, 5, 6)  # as the file is now


def test_a_layout_is_one_of_images(npz):
    with pytest.raises(DataError, match="with --layout must be images"):
        data.Subset(npz([[0.5]], [0]), layout="nhwc").load()
    with pytest.raises(OptionError, match="must be one of nchw, nhwc; got 'hwc'"):
        data.Subset("a.npz", layout="hwc")
    with pytest.raises(OptionError, match="layout of digits must not be given"):
        data.Subset("digits", layout="nhwc").load()


# --- folders


def picture(path, size=(6, 4), value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = np.full((size[1], size[0], 3), value, dtype=np.uint8)
    rows[0, 0] = (255, 0, 51)
    Image.fromarray(rows).save(path)


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "val"):
        for number, name in enumerate(("n02", "n01", "n03")):
            picture(tmp_path / split / name / "b.png", value=number)
            picture(tmp_path / split / name / "a.JPEG", value=number)
    (tmp_path / "val" / "n01" / "notes.txt").write_text("not an image")
    return tmp_path


def test_a_folder_is_read_as_imagefolder(folder):
    inputs = data.load(str(folder), "test")
    assert inputs.shape == (3, 4, 6) and inputs.classes == 3
    assert inputs.labels.tolist() == [0, 0, 1, 1, 2, 2]
    png = inputs.tensor(1)  # n01/b.png, channels first
    assert png[:, 0, 0].tolist() == [1.0, 0.0, np.float32(0.2)] and png[0, 1, 1] == np.float32(1 / 255)
    assert data.load(str(folder), skip=3).labels.tolist() == [0, 1]
    assert data.load(str(folder / "train")).classes == 3  # class folders directly


def test_grey_and_transparent_images_become_rgb(tmp_path):
    (tmp_path / "a").mkdir()
    Image.new("L", (3, 3), 255).save(tmp_path / "a" / "grey.png")
    Image.new("RGBA", (3, 3), (255, 255, 255, 255)).save(tmp_path / "a" / "clear.png")
    assert torch.equal(data.load(str(tmp_path)).tensors(), torch.ones(2, 3, 3, 3))


def test_image_size_resizes_the_shorter_side_and_crops_the_centre(tmp_path):
    # 256·14/224 = 16: a 32×16 picture keeps its size, and the centre 14×14 begins at (9, 1).
    (tmp_path / "a").mkdir()
    rows = np.random.default_rng(0).integers(0, 256, (16, 32, 3), dtype=np.uint8)
    Image.fromarray(rows).save(tmp_path / "a" / "x.png")
    picture(tmp_path / "a" / "y.png", size=(50, 90))
    inputs = data.load(str(tmp_path), image_size=14)
    assert inputs.shape == (3, 14, 14) and inputs.tensors().shape == (2, 3, 14, 14)
    expected = rows[1:15, 9:23].transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    assert np.array_equal(inputs.tensor(0).numpy(), expected)


def test_bad_folders_get_one_line(folder, tmp_path):
    with pytest.raises(DataError, match="must hold the split extra; got train, val"):
        data.load(str(folder), "extra")
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="one folder for each class"):
        data.load(str(tmp_path / "bare"))
    (tmp_path / "bare" / "a").mkdir()
    with pytest.raises(DataError, match="png or jpeg images; got none"):
        data.load(str(tmp_path / "bare"))
    picture(folder / "val" / "n03" / "c.png", size=(5, 4))
    with pytest.raises(DataError, match=r"--image-size must say which; got 6×4 in .* and 5×4 in"):
        data.load(str(folder))
    with pytest.raises(OptionError, match="range"):
        data.load(str(folder), value_range=(0.0, 1.0))


def test_unreadable_images_get_one_line(folder):
    broken = folder / "val" / "n01" / "a.JPEG"
    broken.write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"a\.JPEG' must be a readable"):
        data.load(str(folder))
    rows = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(rows).save(broken)
    broken.write_bytes(broken.read_bytes()[:-40])
    inputs = data.load(str(folder))  # the header is sound; the pixels are found out when they are read
    with pytest.raises(DataError, match=r"a\.JPEG' must be a readable"):
        inputs.tensor(0)
