"""How a real file is damaged: its bytes, or one value of what it says."""

from __future__ import annotations

import datetime
import io
import json
import random
import sqlite3
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

NUMBERS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80", b"\xff" * 8)
WORDS = ("", "x" * 5000, "\0", "../../../etc/passwd", "/dev/zero", "-1", "nan", "\u202e\x1b[31m", "1e999", "٣", "a\nb")
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 0.5, -0.0, 1e308, -1e308, 5e-324,
    float("inf"), float("-inf"), float("nan"), *WORDS, [], {}, [[]], [None], [1, "a"], {"name": []}, {"name": "x"},
    {"": {}}, [0] * 1000, ["x"] * 1000,
)  # fmt: skip
DATES = (datetime.date(2000, 1, 1), datetime.datetime(2000, 1, 1), datetime.time(1, 2))
DEEP = (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900)


def damaged(content: bytes, dice: random.Random) -> bytes:
    """The bytes with one to four changes: flipped, cut, doubled, inserted, exchanged, or a number made extreme."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(content) + 1)
        upto = min(len(content), at + dice.choice((1, 2, 4, 16, 200)))
        change = dice.randrange(7)
        if change == 0 and at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << dice.randrange(8))]) + content[at + 1 :]
        elif change == 1:
            content = content[:at] if dice.random() < 0.3 else content[:at] + content[upto:]
        elif change == 2:
            content = content[:upto] + content[at:]
        elif change == 3:
            content = content[:at] + dice.randbytes(upto - at or 1) + content[at:]
        elif change == 4:
            content = content[:at] + dice.randbytes(upto - at) + content[upto:]
        elif change == 5:
            number = dice.choice(NUMBERS)
            content = content[:at] + number + content[at + len(number) :]
        else:
            content = content[:at] + dice.choice(WORDS).encode() + content[upto:]
    return content


def _replaced(table: Any, dice: random.Random, values: tuple[Any, ...]) -> Any:
    """The same lists and tables with one value somewhere in them replaced, removed or added."""
    if not isinstance(table, dict | list) or not table or dice.random() < 0.15:
        return dice.choice(values)
    keys = list(table) if isinstance(table, dict) else list(range(len(table)))
    key = dice.choice(keys)
    changed = dict(table) if isinstance(table, dict) else list(table)
    if dice.random() < 0.1:
        del changed[key]
    elif isinstance(changed, dict) and dice.random() < 0.1:
        changed[dice.choice(WORDS) or "extra"] = dice.choice(values)
    else:
        changed[key] = _replaced(changed[key], dice, values)
    return changed


def _json(content: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.05:
        return dice.choice(DEEP)
    return json.dumps(_replaced(json.loads(content), dice, VALUES)).encode()


def _toml(content: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.05:
        return b"a = " + dice.choice(DEEP)
    values = tuple(value for value in VALUES if value not in (None, [None])) + DATES
    changed = _replaced(tomllib.loads(content.decode()), dice, values)
    return tomli_w.dumps(changed if isinstance(changed, dict) else {"format": changed}).encode()


def _table(content: bytes, dice: random.Random) -> bytes:
    """A table of text with one cell, or a whole column, replaced."""
    rows = [line.split("\t") for line in content.decode().splitlines()]
    column, cell = dice.randrange(len(rows[0])), str(dice.choice(VALUES))
    for number in dice.choice((range(len(rows)), [dice.randrange(len(rows))])):
        rows[number][column] = cell
    if dice.random() < 0.1:
        rows.append(dice.choice(rows))
    return "\n".join("\t".join(row) for row in rows).encode() + b"\n"


def _npz(content: bytes, dice: random.Random) -> bytes:
    """An archive with one header that claims something else, or one array of another kind."""
    shapes = ((10**6, 10**6), (2**62, 4), (0, 5), (), (6,), (-1, 5), (6, 5, 0), (6, 2**40), (1,) * 40, (True, 5))
    kinds = ("<f4", "|u1", "<c8", "<M8[s]", "|O", "<U9", "|S3", "|b1", ">f8", "<f2", "<u8", "|V0", [("a", "<f4")])
    found, out = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    chosen = dice.choice(found.namelist())
    with zipfile.ZipFile(out, "w", dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))) as made:
        for name in found.namelist():
            held = found.read(name)
            if name == chosen:
                header = {
                    "descr": dice.choice(kinds),
                    "fortran_order": dice.random() < 0.3,
                    "shape": dice.choice(shapes),
                }
                begun = io.BytesIO()
                np.lib.format.write_array_header_2_0(begun, header)
                held = begun.getvalue() + held[128 : dice.choice((None, 140, 200))]
            made.writestr(dice.choice((name, name, name, f"../{name}", f"{name}/x")), held)
    return out.getvalue()


def _database(content: bytes, dice: random.Random) -> bytes:
    """A database with one column overwritten, or one table in another shape."""
    path = Path(f"/tmp/smoothcert-mutation-{id(dice)}-{dice.random()}.sqlite")
    path.write_bytes(content)
    try:
        connection = sqlite3.connect(path)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = dice.choice(tables)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT " + ", ".join(
            f"x AS {column}" for column in columns) + " FROM c"  # fmt: skip
        statements = [
            f"DROP TABLE {table}",
            f"DROP TABLE {table}; CREATE VIEW {table} AS {endless}",
            f"ALTER TABLE {table} ADD COLUMN more TEXT",
            f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
            f"INSERT INTO {table} SELECT * FROM {table}",
            f"DELETE FROM {table}",
        ]
        try:
            if dice.random() < 0.3:
                connection.executescript(dice.choice(statements))
            else:
                value = dice.choice([v for v in VALUES if not isinstance(v, list | dict)] + [b"\0" * 40, '[["a"]]'])
                connection.execute(f"UPDATE {table} SET {dice.choice(columns)} = ?", (value,))
                connection.commit()
        except (sqlite3.Error, OverflowError):
            connection.rollback()
        connection.close()
        return path.read_bytes()
    finally:
        path.unlink()


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _json, ".toml": _toml, ".tsv": _table, ".npz": _npz, ".sqlite": _database,
}  # fmt: skip


def restated(file: str, content: bytes, dice: random.Random) -> bytes:
    """The file with one of its values replaced, as a careful forger would; its bytes damaged where it has none."""
    kind = ".tsv" if Path(file).name.startswith("p_") else Path(file).suffix
    return KINDS.get(kind, damaged)(content, dice)
