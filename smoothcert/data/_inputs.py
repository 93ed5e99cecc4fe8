"""Inputs with labels, wherever their values lie: taken, chosen, and hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from smoothcert.errors import DataError, OptionError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.data._sets import Array

_CHUNK = 512  # inputs turned into floats at a time while hashing: bounds memory, not results


class InputStore(Protocol):
    """Where the values of the selected inputs lie."""

    def take(self, positions: Array) -> Array:
        """Values of the inputs at these positions, in [0,1] unless scaled, float32 [len(positions), *shape]."""


@dataclass(frozen=True)
class Inputs:
    """A labelled subset of a data set, in the order of its indices."""

    name: str
    split: str
    indices: Array  # int64 [N], index in the full split, as logs print them
    labels: Array  # int64 [N]
    shape: tuple[int, ...]  # of one input, channels first
    classes: int | None  # None where the data do not say
    store: InputStore
    class_names: tuple[str, ...] = ()  # by label; none where the data do not say

    def __post_init__(self) -> None:
        if len(self.indices) == 0:
            raise DataError(f"subset of {self.name} ({self.split}) must hold at least one input; got none")
        if self.classes is not None and int(self.labels.max()) >= self.classes:
            raise DataError(f"labels of {self.name} must be below {self.classes}; got {int(self.labels.max())}")

    def __len__(self) -> int:
        return len(self.indices)

    def tensor(self, position: int) -> Tensor:
        """The input at a position of this subset: float32 [*shape]."""
        import numpy as np

        return self.tensors(np.array([range(len(self))[position]]))[0]

    def tensors(self, positions: Array | None = None) -> Tensor:
        """The inputs at these positions, or all of them: float32 [len(positions), *shape]."""
        import numpy as np
        import torch

        return torch.from_numpy(self.store.take(np.arange(len(self)) if positions is None else positions))

    def parts(self, positions: Array, keys: Sequence[int]) -> Tensor:
        """A random part of each image at these positions, in the inputs' shape; which, its key decides alone."""
        import torch

        return torch.from_numpy(_parts(self.store)(positions, keys))

    @property
    def decoded(self) -> bool:
        """Whether inputs are files that are decoded each time they are taken."""
        return hasattr(self.store, "files")

    def chosen(self, positions: Array, labels: Array | None = None) -> Inputs:
        """The inputs at these positions, in this order, with other labels where they are given."""
        taken, store = self.indices[positions], (_ChosenFiles if self.decoded else _Chosen)(self.store, positions)
        if labels is None:
            return replace(self, indices=taken, labels=self.labels[positions], store=store)
        return replace(self, indices=taken, labels=labels, classes=None, store=store, class_names=())

    @cached_property
    def digest(self) -> str:
        """The sha256 of the selected values, labels and indices: the same numbers from any file give the same one."""
        import numpy as np

        digest = self._columns()
        for start in range(0, len(self), _CHUNK):
            values = self.store.take(np.arange(start, min(start + _CHUNK, len(self))))
            digest.update(np.ascontiguousarray(values, dtype="<f4").data)
        return str(digest.hexdigest())

    @cached_property
    def listing_digest(self) -> str:
        """Of files, the sha256 of their names, sizes in bytes, labels and indices: none is opened. Else `digest`."""
        import numpy as np

        files = getattr(self.store, "files", None)
        if files is None:
            return self.digest
        digest = self._columns()
        for name, size in files(np.arange(len(self))):
            digest.update(f"{size} {name}\n".encode())
        return str(digest.hexdigest())

    def _columns(self) -> Any:
        """A sha256 of shape, indices and labels, to go on with."""
        import hashlib

        import numpy as np

        digest = hashlib.sha256(repr(self.shape).encode())
        for column in (self.indices, self.labels):
            digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        return digest


@dataclass(frozen=True)
class _Chosen:
    """Some positions of another store."""

    store: InputStore
    positions: Array

    def take(self, positions: Array) -> Array:
        return self.store.take(self.positions[positions])


@dataclass(frozen=True)
class _ChosenFiles(_Chosen):
    """Some positions of a store of files."""

    def take_parts(self, positions: Array, keys: Sequence[int]) -> Array:
        return _parts(self.store)(self.positions[positions], keys)

    def files(self, positions: Array) -> Iterator[tuple[str, int]]:
        listed: Iterator[tuple[str, int]] = self.store.files(self.positions[positions])  # type: ignore[attr-defined]
        return listed


def _parts(store: InputStore) -> Callable[[Array, Sequence[int]], Array]:
    found: Callable[[Array, Sequence[int]], Array] | None = getattr(store, "take_parts", None)
    if found is None:
        raise OptionError("augment resized_crop needs a folder of images; got other data")
    return found
