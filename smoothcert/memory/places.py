"""The store that a place asks for: PostgreSQL where it is such a URL, SQLite where it is a file; and copies between."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from smoothcert.errors import OutputError, RunError
from smoothcert.memory.address import Address, MemoryPlace, is_url
from smoothcert.memory.cells import Contents, pack, pack_vector
from smoothcert.memory.postgres import PostgresStore
from smoothcert.memory.regions import Accept, MemoryStore, NewRegion, check
from smoothcert.memory.sqlite import SqliteStore


def open_store(place: MemoryPlace, frozen: bool) -> MemoryStore:
    if is_url(place):
        return PostgresStore.open(Address.parse(str(place)), frozen)
    return SqliteStore.open(Path(place), frozen)


def make(place: MemoryPlace, contents: Contents, accept: Accept = lambda store: None) -> bool:
    """Make a memory if there is none, all of it or nothing: whether there was none. `accept` may still refuse it."""
    if is_url(place):
        return PostgresStore.make(Address.parse(str(place)), contents, accept)
    return SqliteStore.make(Path(place), contents, accept)


def discard(place: MemoryPlace) -> None:
    """Remove a memory without regions, unless somebody else has it open."""
    if is_url(place):
        PostgresStore.discard(Address.parse(str(place)))
    else:
        SqliteStore.discard(Path(place))


def named(place: MemoryPlace) -> str:
    """A place as messages name it."""
    return Address.parse(str(place)).shown if is_url(place) else str(place)


def copy(source: MemoryPlace, target: MemoryPlace) -> int:
    """Copy a memory as it is now, looked at before it counts; how many regions. All of it, or nothing.

    The copy keeps the identity, and every region its number: what the one has promised the other keeps. Whoever goes on
    with both has two memories of one name, each blind to what the other admits.
    """
    before = is_url(target) or Path(target).exists()
    store = open_store(source, frozen=True)
    try:
        with store.reading():
            count, digest = fingerprint(store)
            (_, basis) = store.directions(-1) or (0, None)
            contents = Contents(store.identity, store.owner, basis, _regions(store))
            if not make(target, contents, lambda made: _refuse_unlike(made, (count, digest))):
                raise OutputError(f"{named(target)} must not exist yet; got a database that is in use")
    except BaseException:
        if not before:
            discard(target)  # what SQLite leaves where nothing came about
        raise
    finally:
        store.close()
    return count


def fingerprint(store: MemoryStore) -> tuple[int, str]:
    """How many regions there are, and a digest of them; of one moment inside a transaction."""
    digest, count = hashlib.sha256(), 0
    for region in _regions(store):
        count += 1
        exact = pack(np.array([region.radius, region.certified, *region.coordinates]))
        digest.update(b"%d " % region.label + exact + pack_vector(region.x))
    return count, digest.hexdigest()


def _regions(store: MemoryStore) -> Iterator[NewRegion]:
    done = 0
    for balls, certified in store.regions(0):
        coordinates = np.hstack([balls.leading, balls.rest])
        vectors = store.vectors(range(done + 1, done + 1 + len(certified)))
        columns = (balls.labels.tolist(), balls.radii.tolist(), certified.tolist(), coordinates, vectors)
        yield from map(NewRegion._make, zip(*columns, strict=True))
        done += len(certified)


def _refuse_unlike(made: MemoryStore, expected: tuple[int, str]) -> None:
    if wrong := check(made):
        raise RunError(
            f"a memory must be sound to be copied; got {len(wrong)} things that are wrong, first: {wrong[0]}"
        )
    if fingerprint(made) != expected:
        raise RunError(f"{made.place} must hold what was copied to it; got something else")
