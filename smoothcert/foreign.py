"""Whatever comes from outside is read here: files, JSON, TOML, databases, and the typed values that they must hold.

A stranger's file must neither run anything, nor hang, nor fill the memory, nor end in a traceback. So only regular
files are opened, sizes are looked at before contents, nesting and numbers have bounds, a database must have exactly the
tables it should have, and each value must be of the type that its field declares. What is not so is said in one line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import sqlite3
import stat
import time
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

from smoothcert.errors import RunError, SmoothcertError

T = TypeVar("T")

LARGEST = 2**26  # bytes of a description; data and weights have bounds of their own
DEEPEST = 64  # lists and tables inside each other
WHOLE = 2**63  # what SQLite and NumPy hold
# Marks that turn reading round: what stands there is not what is seen.
TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
SECONDS = 600.0  # that one statement may take: a table of a million rows needs a few


def content(path: Path, what: str, error: type[SmoothcertError] = RunError, largest: int = LARGEST) -> bytes:
    """The bytes of a regular file. A FIFO would wait for ever, and a device would never end."""
    size = size_of(path, what, error)
    if size > largest:
        raise error(f"{what} '{path}' must have at most {largest} bytes; got {size}")
    try:
        return path.read_bytes()
    except OSError as cause:
        raise error(f"{what} '{path}' must be a readable file; got: {cause.strerror or cause}") from cause


def size_of(path: Path, what: str, error: type[SmoothcertError] = RunError) -> int:
    """Bytes of a regular file, for whoever reads it by other means; anything else is refused without being opened."""
    try:
        found = path.stat()
    except (OSError, ValueError) as cause:  # ValueError: a name with a zero byte
        said = cause.strerror or cause if isinstance(cause, OSError) else cause
        raise error(f"{what} '{path}' must be a readable file; got: {said}") from cause
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{what} '{path}' must be a regular file; got {_kind(found.st_mode)}")
    return found.st_size


def is_regular(path: Path) -> bool:
    """Whether a regular file is there; names that no file system can hold are none."""
    return _is(path, stat.S_ISREG)


def is_folder(path: Path) -> bool:
    """Whether a folder is there."""
    return _is(path, stat.S_ISDIR)


def is_there(path: Path) -> bool:
    """Whether anything is there."""
    return _is(path, lambda mode: True)


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def special(name: str) -> str | None:
    """What a name stands for that is neither a file nor a folder: a FIFO, a socket, a device; None otherwise."""
    try:
        mode = Path(name).stat().st_mode
    except (OSError, ValueError):
        return None
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else _kind(mode)


def memory_share() -> int:
    """Bytes that one foreign file may make us hold: half of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def parse_json(raw: bytes | str, what: str, error: type[SmoothcertError] = RunError) -> Any:
    """JSON without NaN, without a key twice, and not nested without end."""
    try:
        found = json.loads(raw, parse_constant=_no_number, object_pairs_hook=_once)
        _bounded(found)
        return found
    except (ValueError, RecursionError) as cause:
        raise error(f"{what} must be JSON; got something else ({_short(cause)})") from cause


def parse_toml(raw: bytes, what: str, error: type[SmoothcertError] = RunError) -> dict[str, Any]:
    """TOML that is not nested without end."""
    try:
        found = tomllib.loads(raw.decode("utf-8"))
        _bounded(found)
        return found
    except (ValueError, RecursionError) as cause:
        raise error(f"{what} must be TOML; got something else ({_short(cause)})") from cause


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands there twice")
    return table


def _bounded(value: Any, depth: int = 0) -> None:
    """Refuse what is nested too deeply, and numbers that nothing here can hold."""
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, list) and _plain_numbers(value):
        return
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _bounded(item, depth + 1)
    elif isinstance(value, int) and not -WHOLE <= value < 2 * WHOLE:  # a seed has 64 bits without a sign
        raise ValueError("a whole number has more than 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number")


def _plain_numbers(values: list[Any]) -> bool:
    """Whether a list holds nothing but numbers within bounds. Images come as lists of them: no loop in Python."""
    if not values or not set(map(type, values)) <= {int, float}:
        return not values
    # The sum finds what is no number, which is neither the least nor the largest of anything.
    return min(values) >= -WHOLE and max(values) < 2 * WHOLE and math.isfinite(sum(values))


def typed(kind: Any, value: Any, where: str = "") -> Any:
    """The value as its type says it: a dataclass or NamedTuple from a table, a tuple from a list, and so on.

    TypeError or ValueError says where something is not so. Nothing is converted but whole numbers into fractions.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool):
            raise ValueError(f"{where} must be one of {', '.join(map(str, arguments))}; got {shown(value)}")
        return value
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _from_table(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{where} must be a list; got {shown(value)}")
        inner = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(inner) != len(value):
            raise ValueError(f"{where} must hold {len(inner)} values; got {len(value)}")
        return tuple(typed(one, item, f"{where}[{i}]") for i, (one, item) in enumerate(zip(inner, value, strict=True)))
    if origin in (dict, Mapping):
        return {key: typed(arguments[1], item, f"{where} {key}".strip()) for key, item in _table(value, where).items()}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not (type(None) if kind is None else kind):
        raise TypeError(f"{where} must be {_named(kind)}; got {shown(value)}")
    return value


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    causes = []
    for kind in kinds:
        try:
            return typed(kind, value, where)
        except (TypeError, ValueError) as cause:
            causes.append(cause)
    raise causes[0]


def _from_table(kind: Any, value: Any, where: str) -> Any:
    """A dataclass or NamedTuple: every field of its type, none missing that has no default, none that it lacks."""
    table, hints = _table(value, where), typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        fields = [item for item in dataclasses.fields(kind) if item.init]
        known = [item.name for item in fields]
        blank = dataclasses.MISSING
        needed = [item.name for item in fields if item.default is blank and item.default_factory is blank]
    else:
        known, needed = list(kind._fields), [name for name in kind._fields if name not in kind._field_defaults]
    whose = f" of {where}" if where else ""
    if extra := [key for key in table if key not in known]:
        raise ValueError(f"no field{whose} is called {shown(extra[0])}")
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"{missing[0]}{whose} is missing")
    return kind(**{key: typed(hints[key], item, f"{where} {key}".strip()) for key, item in table.items()})


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{where or 'it'} must be a table; got {shown(value)}")
    return value


def _named(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", None: "nothing"}
    return words.get(kind, str(kind))


def shown(value: Any) -> str:
    """A value as a message can hold it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _short(cause: BaseException) -> str:
    said = "it is nested too deeply" if isinstance(cause, RecursionError) else str(cause) or type(cause).__name__
    return " ".join(said.split())[:120]


def guarded(connection: sqlite3.Connection, seconds: float = SECONDS) -> sqlite3.Connection:
    """A connection on which nothing stored in the file can act, and no statement goes on for ever."""
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * LARGEST)
    begun = time.monotonic()
    connection.set_progress_handler(lambda: time.monotonic() - begun > seconds, 1_000_000)
    return connection


def open_to_read(path: Path, seconds: float = SECONDS) -> sqlite3.Connection:
    """A database that is only read. Without write access a WAL database still opens, as an immutable file."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"{address}&immutable=1", uri=True)
    connection.execute("PRAGMA query_only=ON")
    return guarded(connection, seconds)


def other_tables(connection: sqlite3.Connection, schema: str) -> str:
    """In what the tables of a database are not exactly those of a schema; empty where they are.

    A view, a trigger or a generated column in a table's place would answer whatever it likes.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        model.executescript(schema)
        listing = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
        expected, found = ({row[1]: row for row in base.execute(listing)} for base in (model, connection))
    for name in dict.fromkeys([*expected, *found]):
        if expected.get(name) != found.get(name):
            got = f"a {found[name][0]}" if name in found else "missing"
            return f"{name!r} is {'another table' if name in expected and got == 'a table' else got}"
    return ""


def one_line(text: str) -> str:
    """Text on one line, and harmless."""
    return harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """Text in which nothing acts on a terminal, turns reading round or cannot be written at all; lines stay."""
    return text if text.isprintable() else UNSEEN.sub("\ufffd", TURNING.sub("\ufffd", text))
