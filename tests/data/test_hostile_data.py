"""Data files of a stranger: bombs, headers that claim too much, formats in disguise. One line, before they are read."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from smoothcert import data, foreign
from smoothcert.data import mnist, svhn
from smoothcert.data._sets import SourceError
from smoothcert.errors import DataError, OptionError


def entry(shape, dtype="<f4", fortran=False, body=b""):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return header.getvalue() + body


def saved(array):
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


def archive(path, kind=zipfile.ZIP_STORED, **entries):
    with zipfile.ZipFile(path, "w", kind) as made:
        for name, content in entries.items():
            made.writestr(f"{name}.npy", content)
    return str(path)


LABELS = saved(np.arange(4))
HOSTILE = {
    "10^12 values": ({"x": entry((10**6, 10**6)), "y": LABELS}, "header of x claims 4000000000000 bytes, its entry"),
    "more than 2^63": ({"x": entry((2**40, 2**40)), "y": LABELS}, "the header of x claims"),
    "fewer than there are": ({"x": entry((1, 2), body=bytes(400)), "y": LABELS}, "claims 8 bytes, its entry holds 400"),
    "negative": ({"x": entry((-1, 2)), "y": LABELS}, "sound .npz file"),
    "objects": ({"x": entry((4, 1), "|O", body=bytes(32)), "y": LABELS}, "objects, which would run code"),
    "objects as labels": ({"x": saved(np.zeros((4, 2))), "y": entry((4,), "|O", body=bytes(32))}, "objects"),
    "dates": ({"x": saved(np.zeros((4, 2), "M8[s]")), "y": LABELS}, "must be uint8 or float"),
    "complex": ({"x": saved(np.zeros((4, 2), "c8")), "y": LABELS}, "must be uint8 or float"),
    "records": ({"x": saved(np.zeros((4, 2), [("a", "f4")])), "y": LABELS}, "must be uint8 or float"),
    "text": ({"x": saved(np.full((4, 2), "a")), "y": LABELS}, "must be uint8 or float"),
    "no rows": ({"x": saved(np.float32(0.5)), "y": LABELS}, r"array \[N, ...\]"),
    "labels ≥ 2^63": ({"x": saved(np.zeros((4, 2))), "y": saved(np.full(4, 2**63, "u8"))}, "labels from 0 upwards"),
    "no header": ({"x": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(9), "y": LABELS}, "sound .npz file"),
    "another version": ({"x": b"\x93NUMPY\x09\x00" + bytes(99), "y": LABELS}, "sound .npz file"),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "words"), HOSTILE.values(), ids=HOSTILE)
def test_headers_are_held_against_what_is_there(tmp_path, entries, words):
    with pytest.raises(DataError, match=words) as error:
        data.load(archive(tmp_path / "d.npz", **entries))
    assert "\n" not in str(error.value)


def bomb(path, rows=400):
    """Rows of a megabyte of zeros each, a thousandth of it on the disk."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        with made.open("x.npy", "w", force_zip64=True) as file:
            file.write(entry((rows, 2**20), "|u1"))
            for _ in range(rows):
                file.write(bytes(2**20))
        made.writestr("y.npy", saved(np.zeros(rows, dtype=int)))
    return str(path)


def test_a_bomb_is_refused_and_a_row_of_it_is_read_alone(tmp_path, monkeypatch):
    path = bomb(tmp_path / "d.npz")
    with pytest.raises(DataError, match=r"not unpack to more than 200 times its size; got 0.419 GB from 1\.\d+ MB"):
        data.load(path)
    with pytest.raises(DataError, match="200 times"):
        data.load(path, skip=399)  # the last row lies behind all others
    unpacked = []
    reading = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda *given: unpacked.append(reading(*given)) or unpacked[-1])
    assert len(data.load(path, max=1)) == 1
    assert sum(map(len, unpacked)) < 2**26  # of 2^28.6


def test_what_no_memory_holds_is_refused_and_fewer_inputs_are_the_way_out(tmp_path, monkeypatch):
    path = archive(tmp_path / "d.npz", x=saved(np.zeros((100, 1000), "f4")), y=saved(np.arange(100)))
    monkeypatch.setattr(foreign, "memory_share", lambda: 100_000)
    with pytest.raises(DataError, match=r"must fit half of this machine's memory, .*fewer inputs by --max or --skip"):
        data.load(path)
    assert len(data.load(path, skip=10)) == 10


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_numpy_packs_is_unpacked(tmp_path, kind):
    with pytest.raises(DataError, match="packed in another way than numpy's"):
        data.load(archive(tmp_path / "d.npz", kind, x=saved(np.zeros((4, 2))), y=LABELS))


def test_an_encrypted_entry_and_one_that_is_there_twice(tmp_path):
    path = tmp_path / "d.npz"
    archive(path, x=saved(np.zeros((4, 2))), y=LABELS)
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + at] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="encrypted"):
        data.load(str(path))
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as made, pytest.warns(UserWarning):
        for name in ("x.npy", "x.npy", "y.npy"):
            made.writestr(name, LABELS)
    with pytest.raises(DataError, match="got two called x"):
        data.load(str(tmp_path / "two.npz"))


def test_fortran_order_and_rows_in_pieces_are_read_as_they_were_written(tmp_path, monkeypatch):
    from smoothcert.data import _npz

    x = np.random.default_rng(0).random((50, 3, 7))
    np.savez_compressed(tmp_path / "d.npz", x=np.asfortranarray(x), y=np.arange(50))
    np.savez_compressed(tmp_path / "c.npz", x=x, y=np.arange(50))
    monkeypatch.setattr(_npz, "_PIECE", 1000)  # six rows
    for options in ({}, {"skip": 3}, {"start": 7, "skip": 11, "max": 41}, {"max": 1}):
        first, second = (data.load(str(tmp_path / f"{name}.npz"), **options) for name in "dc")
        assert first.digest == second.digest
        assert np.array_equal(second.tensors().numpy(), x[second.indices].astype(np.float32))


def test_rot_behind_the_selected_rows_does_not_pass(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x=np.random.default_rng(0).random((40, 40)), y=np.zeros(40, dtype=int))
    content = bytearray(path.read_bytes())
    content[9000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="Bad CRC-32"):
        data.load(str(path), max=3)


@pytest.mark.parametrize("label", [2**63, 2**62, 2**20])
def test_labels_to_learn_are_classes(tmp_path, label):
    from smoothcert.training.selection import relabelled

    np.savez(tmp_path / "l.npz", index=np.arange(3), label=np.array([0, 1, label], dtype=np.uint64))
    with pytest.raises(DataError, match=f"must be below 1048576; got {label}"):
        relabelled(data.load("digits", "train"), tmp_path / "l.npz")


# --- folders of images


def folder(tmp_path, content, name="x.png"):
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / name).write_bytes(content)
    return str(tmp_path / "images")


def png(width, height):
    """A header that claims a size, and no pixels."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(9000, 9000), (100_000, 100_000), (2**31 - 1, 2**31 - 1), (1, 2**27)])
def test_a_picture_of_absurd_size_is_refused_by_its_header(tmp_path, size):
    place = folder(tmp_path, png(*size))
    for options in ({}, {"image_size": 32}):
        with pytest.raises(DataError, match=r"must have at most 67108864 pixels; got|decompression bomb"):
            data.load(place, **options).tensors()


def test_a_long_thin_picture_is_not_blown_up(tmp_path):
    held = io.BytesIO()
    Image.new("L", (1, 60_000)).save(held, "PNG")
    with pytest.raises(DataError, match=r"at most 67108864 pixels; got 256×15360000"):
        data.load(folder(tmp_path, held.getvalue()), image_size=224).tensors()
    with pytest.raises(OptionError, match="image_size of the data must be from 1 to 8192"):
        data.load(str(tmp_path / "images"), image_size=10**6)


def test_other_formats_stay_shut_whatever_they_are_called(tmp_path):
    """Pillow would hand PostScript to Ghostscript."""
    for number, kind in enumerate(("EPS", "TIFF", "GIF")):
        held = io.BytesIO()
        Image.new("RGB", (4, 4)).save(held, kind)
        with pytest.raises(DataError, match="must be a readable png or jpeg"):
            data.load(folder(tmp_path / str(number), held.getvalue()))


def test_text_in_a_picture_is_no_bomb(tmp_path):
    held, text = io.BytesIO(), PngImagePlugin.PngInfo()
    text.add_text("a", "x" * 2**27, zip=True)
    Image.new("RGB", (4, 4)).save(held, "PNG", pnginfo=text)
    with pytest.raises(DataError, match="must be a readable png or jpeg"):
        data.load(folder(tmp_path, held.getvalue())).tensors()


def test_fifos_among_pictures_are_refused_unopened(tmp_path):
    place = folder(tmp_path, png(4, 4))
    os.mkfifo(tmp_path / "images" / "a" / "b.png")
    with pytest.raises(DataError, match=r"b\.png' must be a regular file; got a FIFO"):
        data.load(place)


@pytest.mark.parametrize("spec", ["x" * 5000, "a/" + "x" * 5000, "a\0b", "~nobody-of-that-name/x", "x" * 300 + ".npz"])
def test_names_that_no_file_has_get_one_line(spec):
    with pytest.raises((DataError, OptionError)) as error:
        data.load(spec)
    assert "\n" not in str(error.value)


def test_numbers_beyond_64_bits_are_refused():
    for options in ({"skip": 2**63}, {"start": 10**30}, {"max": 2**64}):
        with pytest.raises(OptionError, match="must fit 64 bits"):
            data.Subset("digits", **options)
    with pytest.raises(OptionError, match="lo < hi"):
        data.Subset("a.npz", value_range=(-1e308, 1e308))


# --- official files


def test_sizes_of_an_idx_file_cannot_wrap_around():
    sizes = struct.pack(">4I", 2**16, 2**16, 2**16, 2**16)  # 2^64 values: none, in 64 bits
    with pytest.raises(DataError, match="must be as long as it says; got 20 bytes"):
        mnist.parse(b"\0\0\x08\x04" + sizes)
    with pytest.raises(DataError, match="1 to 4 sizes; got 200"):
        mnist.parse(b"\0\0\x08\xc8" + bytes(4 * 200))


def test_packed_official_files_are_unpacked_within_bounds(monkeypatch):
    import gzip

    monkeypatch.setattr(mnist, "LARGEST", 2**16)
    assert mnist.unpack(gzip.compress(bytes(2**16))) == bytes(2**16)
    with pytest.raises(SourceError, match="unpacks to more than 65536 bytes"):
        mnist.unpack(gzip.compress(bytes(2**16 + 1)))


def test_a_matlab_bomb_is_found_out_piece_by_piece():
    packed = zlib.compress(struct.pack("<II", 14, 2**28) + bytes(2**25), 1)
    content = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    with pytest.raises(DataError, match="unpacks to more than 369664 bytes"):
        svhn.parse(content, 11)
