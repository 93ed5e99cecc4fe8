"""An `.npz` archive from anywhere: headers first, then only what is asked for.

A header of a hundred bytes can claim 10¹² values, and a few megabytes of zip can unpack to gigabytes. So what a header
claims is held against the size of its entry and against what this machine can hold before anything is unpacked, and
rows are unpacked in pieces of which only the selected ones are kept. Pickles stay shut: a data file runs no code.
"""

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import numpy as np

from smoothcert import foreign
from smoothcert.data._sets import Array
from smoothcert.errors import DataError, reason

_HEADER = 2**14  # bytes in which the header of a plain array ends
_PIECE = 2**24  # bytes unpacked at a time
_SUSPECT = 2**28  # bytes from which on what unpacks to this many times its size is taken for a bomb
_RATIO = 200
_PACKED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # what numpy writes; others can unpack without end


class ArrayHeader(NamedTuple):
    """What an entry says of its array, held against the entry's own size."""

    name: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int  # where the values begin
    entry: zipfile.ZipInfo

    @property
    def row(self) -> int:
        """Bytes of one row; of an array without rows, of all of it."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def words(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class NpzArchive:
    """An archive opened to read. Whatever a foreign or damaged one provokes is said in one line."""

    def __init__(self, what: str, path: Path) -> None:
        self.what, self.path = what, path

    def __enter__(self) -> Self:
        if not foreign.is_there(self.path):
            raise DataError(f"{self.what} '{self.path}' must be an .npz file; got no such file")
        foreign.size_of(self.path, self.what, DataError)
        try:
            with self.path.open("rb") as file:
                single = file.read(6) == b"\x93NUMPY"
            self._zip = None if single else zipfile.ZipFile(self.path)
        except Exception as error:
            raise self._unsound(error) from error
        if self._zip is None:
            raise DataError(f"{self.what} '{self.path}' must be an .npz archive; got a single array")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def _opened(self) -> zipfile.ZipFile:
        if self._zip is None:
            raise DataError(f"{self.what} '{self.path}' must be open to be read; got a closed file")
        return self._zip

    @property
    def names(self) -> list[str]:
        """What its arrays are called."""
        return [info.filename.removesuffix(".npy") for info in self._opened.infolist()]

    def headers(self, names: Sequence[str]) -> list[ArrayHeader]:
        """The headers of the arrays of these names."""
        held = self.names
        for name in names:
            if held.count(name) != 1:
                got = f"two called {name}" if name in held else ", ".join(held)[:200] or "nothing"
                raise DataError(f"{self.what} '{self.path}' must hold arrays {' and '.join(names)}; got {got}")
        entries = self._opened.infolist()
        try:
            return [self._header(name, entries[held.index(name)]) for name in names]
        except DataError:
            raise
        except Exception as error:
            raise self._unsound(error) from error

    def _header(self, name: str, entry: zipfile.ZipInfo) -> ArrayHeader:
        if entry.compress_type not in _PACKED:
            raise ValueError(f"{name} is packed in another way than numpy's")
        with self._opened.open(entry) as file:
            opening = io.BytesIO(file.read(_HEADER))
        version = np.lib.format.read_magic(opening)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name} is of format {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(opening)
        if dtype.hasobject:
            raise ValueError(f"{name} holds objects, which would run code")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"{name} has the shape {shape}"[:100])
        found = ArrayHeader(name, shape, fortran, dtype, opening.tell(), entry)
        if (claimed := dtype.itemsize * math.prod(shape)) != (held := entry.file_size - found.start):
            raise ValueError(f"the header of {name} claims {claimed} bytes, its entry holds {held}")
        return found

    def read(self, header: ArrayHeader, rows: Array | None = None) -> Array:
        """All of an array, or these rows of it, rising; refused before it is unpacked where it is too large."""
        whole = header.fortran or not header.shape or rows is None
        last = None if rows is None or whole else int(rows[-1]) + 1 if len(rows) else 0
        unpacked = header.entry.file_size if last is None else header.start + last * header.row
        self._refuse_bombs(header, unpacked, unpacked if whole or rows is None else len(rows) * header.row)
        try:
            with self._opened.open(header.entry) as file:
                file.read(header.start)
                if whole or rows is None:
                    found = _whole(file, header)
                    return found if rows is None else np.ascontiguousarray(found[rows])
                return _picked(file, header, rows)
        except Exception as error:
            raise self._unsound(error) from error

    def _refuse_bombs(self, header: ArrayHeader, unpacked: int, kept: int) -> None:
        whose = f"{header.name} of {self.what} '{self.path}'"
        if kept > (most := foreign.memory_share()):
            raise DataError(
                f"{whose} must fit half of this machine's memory, {most / 1e9:.3g} GB; got {header.words}, of which "
                f"{kept / 1e9:.3g} GB were asked for (take fewer inputs by --max or --skip)"
            )
        packed = header.entry.compress_size
        if unpacked > _SUSPECT and unpacked > _RATIO * packed:
            raise DataError(
                f"{whose} must not unpack to more than {_RATIO} times its size; got {unpacked / 1e9:.3g} GB from "
                f"{packed / 1e6:.3g} MB (take fewer inputs by --max, or save it by numpy.savez, unpacked)"
            )

    def _unsound(self, error: Exception) -> DataError:
        return DataError(f"{self.what} '{self.path}' must be a sound .npz file of plain arrays; got: {reason(error)}")


def _whole(file: IO[bytes], header: ArrayHeader) -> Array:
    found = np.empty(math.prod(header.shape), dtype=header.dtype)
    _fill(file, found)
    _drain(file)
    return found.reshape(header.shape, order="F" if header.fortran else "C")


def _picked(file: IO[bytes], header: ArrayHeader, rows: Array) -> Array:
    """Rows out of a stream of them, piece by piece."""
    found = np.empty((len(rows), *header.shape[1:]), dtype=header.dtype)
    per_piece, done = max(1, _PIECE // max(1, header.row)), 0
    for first in range(0, int(rows[-1]) + 1 if len(rows) else 0, per_piece):
        piece = np.empty((min(per_piece, header.shape[0] - first), *header.shape[1:]), dtype=header.dtype)
        _fill(file, piece)
        upto = int(np.searchsorted(rows, first + len(piece)))
        found[done:upto] = piece[rows[done:upto] - first]
        done = upto
    left = (header.shape[0] - (int(rows[-1]) + 1 if len(rows) else 0)) * header.row
    if left <= _SUSPECT:  # the checksum stands at the end: rot in an ordinary file does not pass
        _drain(file)
    return found


def _fill(file: IO[bytes], out: Array) -> None:
    if out.nbytes == 0:
        return
    flat, done = out.reshape(-1).view(np.uint8), 0
    while done < len(flat):
        piece = file.read(min(_PIECE, len(flat) - done))
        if not piece:
            raise ValueError("it ends early")
        flat[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        done += len(piece)


def _drain(file: IO[bytes]) -> None:
    while file.read(_PIECE):
        pass
