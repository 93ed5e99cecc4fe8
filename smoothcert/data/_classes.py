"""Classes by name: which number of the model's a class of the data has.

A line of a list of classes is a name, or an id with a digit in it and then names, the first of which counts:

    cat
    n01440764 tench, Tinca tinca

A class of the data is found by the whole line, else by the id, else by the name, whatever its case and with a space
for _ and -. It must be found once: a class that is found nowhere, or twice, is refused, never guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert import foreign
from smoothcert.data import Inputs
from smoothcert.errors import DataError

MOST = 100_000  # classes of a list
_ID = re.compile(r"\S*\d\S*")
_GENERIC = re.compile(r"(label[_ ]?|class[_ ]?)?\d+", re.IGNORECASE)
_MUST = 'must name the classes of the model by number: one a line, or JSON ["name", …] or {"0": "name", …}'


def read_classes(path: Path) -> tuple[str, ...]:
    """The lines of a list of classes: text, one a line, or JSON."""
    raw = foreign.content(path, "classes", DataError)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"classes '{path}' {_MUST}; got something that is no UTF-8 text") from error
    if text.lstrip()[:1] in ("[", "{"):
        found = _from_json(foreign.parse_json(text, f"classes '{path}'", DataError), path)
    else:
        found = tuple(line.strip() for line in text.rstrip().splitlines())
    if "" in found:  # a gap would move every class behind it
        raise DataError(f"classes '{path}' {_MUST}; got none for class {found.index('')}")
    if not 2 <= len(found) <= MOST:
        raise DataError(f"classes '{path}' must name 2 to {MOST} classes; got {len(found)}")
    return found


def _from_json(table: Any, path: Path) -> tuple[str, ...]:
    """A list of names, or a table from numbers to names; a name may be a list, as in ["n01440764", "tench"]."""
    items = table
    if isinstance(table, dict):
        wanted = [str(number) for number in range(len(table))]
        if missing := [number for number in wanted if number not in table]:
            raise DataError(f"classes '{path}' {_MUST}; got a table without {missing[0]}")
        items = [table[number] for number in wanted]
    words = [" ".join(item) if _texts(item) else item for item in items]
    if other := [word for word in words if not isinstance(word, str)]:
        raise DataError(f"classes '{path}' {_MUST}; got {foreign.shown(other[0])}")
    return tuple(" ".join(word.split()) for word in words)


def _texts(item: object) -> bool:
    return isinstance(item, list) and all(isinstance(word, str) for word in item)


def short(line: str) -> str:
    """The name that a line shows: without an id before it, and without other names after it."""
    first, _, rest = line.partition(" ")
    named = rest if rest.strip() and _ID.fullmatch(first) else line
    return named.split(",")[0].strip() or line


def generic(lines: Sequence[str]) -> bool:
    """Whether they are no names: LABEL_0, or numbers."""
    return all(_GENERIC.fullmatch(line) for line in lines)


def renumbered(inputs: Inputs, lines: Sequence[str]) -> Inputs:
    """The inputs with the model's numbers for labels, where their classes have names; else with these names."""
    if not inputs.class_names:
        if (highest := int(inputs.labels.max())) >= len(lines):
            raise DataError(f"classes of {inputs.name} must name every label, up to {highest}; got {len(lines)} names")
        return replace(inputs, classes=len(lines), class_names=tuple(lines))
    numbers = _numbers(inputs.class_names, lines, inputs.name)
    labels = np.array(numbers, dtype=np.int64)[inputs.labels]
    return replace(inputs, labels=labels, classes=len(lines), class_names=tuple(lines))


def _numbers(names: Sequence[str], lines: Sequence[str], whose: str) -> list[int]:
    """Of each class of the data its number among the lines."""
    forms = [{}, {}, {}]  # type: list[dict[str, list[int]]]
    for number, line in enumerate(lines):
        for form, key in zip(forms, _keys(line), strict=True):
            if key:
                form.setdefault(key, []).append(number)
    found: list[int] = []
    for name in names:
        keys = name, name, _folded(name)
        places = next((form[key] for form, key in zip(forms, keys, strict=True) if key in form), [])
        if len(places) != 1:
            got = ", ".join(f"'{line}'" for line in lines[:3]) + (", …" if len(lines) > 3 else "")
            if places:
                got = f"classes {' and '.join(map(str, places[:2]))}, '{lines[places[0]]}' and '{lines[places[1]]}'"
            raise DataError(
                f"every class of {whose} must be one of the model's {len(lines)} (--classes names them); '{name}' is "
                f"{'more than one' if places else 'none'}: got {got}"
            )
        if places[0] in found:
            other = names[found.index(places[0])]
            raise DataError(f"classes of {whose} must not share one of the model's; '{other}' and '{name}' do")
        found.append(places[0])
    return found


def _keys(line: str) -> tuple[str, str, str]:
    """What a line is found by: all of it, its id, its name."""
    first = line.split()[0]
    return line, first if _ID.fullmatch(first) else "", _folded(short(line))


def _folded(name: str) -> str:
    return " ".join(re.sub("[_-]", " ", name).casefold().split())
