"""A memory of certified regions that never disagree.

    Memory.create("m.sqlite", classifier, "l2", (3, 32, 32))    # or "postgresql://user@host/database?memory=NAME"
    with Memory.open("m.sqlite") as memory:
        memory.admit(x, label, radius)      # → Admission: what may be answered for x, and how far it holds
        memory.query(x)                     # → Region | None, without a draw

A classifier that chooses σ for each input is not a fixed function, so a smoothing certificate says nothing about its
neighbours. What is certified is the classifier *with its memory*: every later query inside a region gets the region's
label from this memory. That depends on the order of admissions, and says nothing of the classifier without the memory.
Opened `frozen`, a memory stays what it was at that moment: inside its regions it is a fixed function.
"""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from smoothcert.contracts import ABSTAIN, Certificate, Floats, Integers, Norm, Tensor
from smoothcert.errors import DataError, OptionError, OutputError, RunError
from smoothcert.memory import places
from smoothcert.memory.address import MemoryPlace as MemoryPlace
from smoothcert.memory.address import shown as shown
from smoothcert.memory.cells import Contents
from smoothcert.memory.places import named as named
from smoothcert.memory.regions import LARGEST, MemoryStore, Owner, Regions, StoreLostError, Vector, check
from smoothcert.memory.regions import NORMS as NORMS
from smoothcert.memory.rule import Conflict, Near, find_home, margin, settle

TRIES = 10  # where a store is lost again and again; each time it is waited for
T = TypeVar("T")


class Admission(NamedTuple):
    """What the memory answers for an input that was offered to it."""

    label: int
    radius: float  # every later query closer than this gets the label; 0 promises nothing
    conflict: Conflict | None  # "switched": took the label of a region; "shrunk": made room for one
    by: int | None  # the region that answered, or that room was made for
    stored: bool  # as a region of its own, number seen + 1
    seen: int  # regions that it was held against: numbers 1 to this


class Region(NamedTuple):
    """A stored region, seen from a point inside it."""

    label: int
    number: int  # of the region
    radius: float  # around the point, not around the centre


class Labelled(NamedTuple):
    """The regions of one label, counted."""

    label: int
    regions: int
    shrunk: int  # that had to make room
    smallest: float  # radius
    largest: float


@dataclass(frozen=True)
class Stats:
    """A memory in figures."""

    owner: Owner
    labels: tuple[Labelled, ...]
    size: int  # bytes on disk

    @property
    def regions(self) -> int:
        return sum(label.regions for label in self.labels)


class Memory:
    """An open memory. Not to be shared between threads, nor carried through a fork: each process opens its own."""

    def __init__(self, store: MemoryStore, frozen: bool = False) -> None:
        self._store = store
        self._margin = margin(store.owner.dim)
        self._regions = Regions(store)
        self.frozen = frozen
        try:
            self._again(self._catch_up)
        except (ValueError, IndexError) as error:  # arrays that do not fit each other
            raise RunError(f"{store.place} must be a whole memory; its regions are damaged ({error})") from error

    @classmethod
    def create(cls, place: MemoryPlace, classifier_digest: str, norm: Norm, shape: Iterable[int]) -> Self:
        """Make an empty memory for one classifier, norm and input shape, and open it."""
        if not cls.make(place, classifier_digest, norm, shape):
            raise OutputError(f"{named(place)} must not exist yet; got a database that is in use")
        return cls.open(place)

    @classmethod
    def make(cls, place: MemoryPlace, classifier_digest: str, norm: Norm, shape: Iterable[int]) -> bool:
        """Make an empty memory if there is none: whether there was none. Several processes may ask at once."""
        return places.make(place, Contents.empty(Owner(classifier_digest, norm, tuple(shape))))

    @classmethod
    def discard(cls, place: MemoryPlace) -> None:
        """Remove a memory that nothing was admitted to, unless another process has it open."""
        places.discard(place)

    @staticmethod
    def copy(source: MemoryPlace, target: MemoryPlace) -> int:
        """Copy a memory, all of it or nothing, to where there is none yet; how many regions. Its identity stays."""
        return places.copy(source, target)

    @classmethod
    def open(cls, place: MemoryPlace, frozen: bool = False) -> Self:
        """Open a memory; frozen: read-only, and blind to whatever is admitted later."""
        store = places.open_store(place, frozen)
        try:
            return cls(store, frozen)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Regions known here."""
        return len(self._regions)

    @property
    def owner(self) -> Owner:
        return self._store.owner

    @property
    def identity(self) -> str:
        """A name given at its creation, which no other memory has; a copy keeps it."""
        return self._store.identity

    def close(self) -> None:
        self._store.close()

    def require(self, classifier_digest: str, norm: Norm, shape: Iterable[int]) -> None:
        """Refuse to serve another classifier, norm or shape than the memory was made for."""
        asked = Owner(classifier_digest, norm, tuple(shape))
        for what in ("classifier", "norm", "shape"):
            own, other = getattr(self.owner, what), getattr(asked, what)
            if own != other:
                raise RunError(f"{what} must be {own}, as memory {self._store.place} was made for it; got {other}")

    def admit(self, x: Tensor | np.ndarray[Any, Any], label: int, radius: float, known: int | None = None) -> Admission:
        """Offer what certification found for x; if it is stored, it is on the disk when this returns, and once.

        Whoever may have been stopped between an offer and its answer makes it again and says how many regions it has
        `known` before: if it was stored as a later one, the answer is that of the first time.
        """
        return self._admit_all([(x, label, radius)], known)[0]

    def settle(self, x: Tensor | np.ndarray[Any, Any], certificate: Certificate) -> Certificate:
        """The certificate of x as this memory leaves it; what it still promises is the memory's promise."""
        if certificate.norm != self.owner.norm:
            raise OptionError(
                f"norm of a certificate must be {self.owner.norm}, as its memory's; got {certificate.norm}"
            )
        found = self.admit(x, certificate.label, certificate.radius)
        guarantee: Literal["memory", "none"] = "memory" if found.radius > 0 else "none"
        return replace(certificate, label=found.label, radius=found.radius, guarantee=guarantee)

    def query(self, x: Tensor | np.ndarray[Any, Any]) -> Region | None:
        """The region that x lies deepest in, of all that any process has stored; None where x is in none."""
        vector = self._vector(x)

        def look() -> Region | None:
            if not self.frozen and self._regions.behind:
                self._catch_up()
            numbers, near = self._regions.near(vector, 0.0, ABSTAIN)
            home = find_home(near, self._margin)
            return None if home is None else Region(home.label, numbers[home.position], home.radius)

        return self._again(look)

    def check(self) -> list[str]:
        """Read all of it anew and look at every region, every pair of different labels; what is wrong, a line each."""

        def look() -> list[str]:
            with self._store.reading():
                return check(self._store)

        return self._again(look)

    def stats(self) -> Stats:
        """Regions as they are stored now, by label, and their size."""

        def look() -> list[tuple[Integers, Floats, Floats]]:
            with self._store.reading():
                return [(balls.labels, balls.radii, certified) for balls, certified in self._store.regions(0)]

        parts = self._again(look)
        labels = _labelled(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else []
        return Stats(self.owner, tuple(labels), self._again(self._store.size))

    def _admit_all(self, offers: Iterable[tuple[Any, int, float]], known: int | None = None) -> list[Admission]:
        """Admissions in one transaction: all of them, or none."""
        if self.frozen:
            raise OptionError(
                f"memory {self._store.place} must not be frozen if regions are to be admitted; got frozen"
            )
        checked = [(self._vector(x), *_checked(label, radius)) for x, label, radius in offers]

        def offer_all() -> list[Admission]:
            try:
                with self._store.writing():
                    self._regions.catch_up()
                    return [self._settle(*offer, known) for offer in checked]
            except BaseException:
                self._regions.forget()
                raise

        return self._again(offer_all)

    def _catch_up(self) -> None:
        with self._store.reading():
            self._regions.catch_up()

    def _again(self, act: Callable[[], T]) -> T:
        """Begin again where the store was lost on the way: nothing was done then. The last attempt's error stands."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(StoreLostError):
                return act()
        return act()

    def _settle(self, x: Vector, label: int, radius: float, known: int | None) -> Admission:
        seen = len(self._regions)
        numbers, near = self._regions.near(x, radius, label)
        own = None if known is None else self._stored_before(numbers, near, label, radius, known)
        if own is not None:  # as it was then: later regions were not there, nor was this one
            seen, earlier = own - 1, bisect.bisect_left(numbers, own)
            near = Near(near.distances[:earlier], near.radii[:earlier], near.labels[:earlier])
        verdict = settle(label, radius, near, self._margin)
        if verdict.keep > 0 and own is None:
            self._regions.keep(x, label, verdict.keep, radius)
        by = None if verdict.by is None else numbers[verdict.by]
        return Admission(verdict.label, verdict.radius, verdict.conflict, by, verdict.keep > 0, seen)

    def _stored_before(self, numbers: list[int], near: Near, label: int, radius: float, known: int) -> int | None:
        """The region after those known that is this very offer: its centre, its label, its certified radius."""
        same = np.flatnonzero((near.distances == 0) & (near.labels == label)).tolist()
        late = [number for number in (numbers[place] for place in same) if number > known]
        return next((number for number in late if self._regions.certified(number) == radius), None)

    def _vector(self, x: Tensor | np.ndarray[Any, Any]) -> Vector:
        """An input, flat; only values that float32 holds exactly, for the memory would know another point otherwise."""
        given = np.asarray(x)
        if given.shape != self.owner.shape:
            raise DataError(
                f"input of memory {self._store.place} must have shape {self.owner.shape}; got {given.shape}"
            )
        with np.errstate(over="ignore"):
            flat = np.ascontiguousarray(given.reshape(-1), dtype=np.float32)
        if not (np.isfinite(flat).all() and (flat == given.reshape(-1)).all()):
            raise DataError("values of an input of a memory must be finite float32 numbers; got others")
        return flat


def _labelled(labels: Integers, radii: Floats, certified: Floats) -> list[Labelled]:
    """The regions [n] by label."""
    own = [(int(label), radii[labels == label], certified[labels == label]) for label in np.unique(labels)]
    return [
        Labelled(label, len(kept), int((kept < offered).sum()), float(kept.min()), float(kept.max()))
        for label, kept, offered in own
    ]


def _checked(label: int, radius: float) -> tuple[int, float]:
    label, radius = int(label), float(radius)
    if label < 0 and label != ABSTAIN:
        raise OptionError(f"label of a region must be a class, or {ABSTAIN} for an abstention; got {label}")
    if not (math.isfinite(radius) and 0 <= radius <= LARGEST):
        raise OptionError(f"radius of a region must be a number from 0 to {LARGEST:g}; got {radius}")
    return label, 0.0 if label == ABSTAIN else radius
