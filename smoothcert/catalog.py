"""From an option's name to the part that bears it: name → file → class.

A folder of the package is a catalogue. The file `noise/gaussian.py` holds the class `Gaussian`, so `--noise gaussian`
finds it, and a new noise is one new file: nothing is registered anywhere. A trailing number belongs to the part:
`resnet20` is `Resnet(depth=20)`. Where two folders have a file of one name, a class may add its folder's:
`training/objectives/gaussian.py` holds `GaussianObjective`. A file may hold variants of its part, named after it:
`aces_predict` is `AcesPredict` in `aces.py`. Files that begin with an underscore are not parts but what parts share.
An option with another name in stored settings and on the command line than in Python says so in its field's metadata.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Mapping
from typing import Any

from smoothcert.errors import OptionError, unknown


def names(folder: str) -> list[str]:
    """The parts of a folder, by file name; nothing is imported but the folder itself."""
    package = importlib.import_module(f"smoothcert.{folder}")
    files = (module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)
    return sorted(name for name in files if not name.startswith("_"))


def find(folder: str, name: str) -> tuple[type[Any], dict[str, Any]]:
    """The class that bears a name, and the options the name itself carries (`resnet20` → depth=20)."""
    known = names(folder)
    stem, number = _split(name)
    file = name if name in known else stem if stem in known else name.rpartition("_")[0]
    bearer = file if file == stem else name
    module = importlib.import_module(f"smoothcert.{folder}.{file}") if file in known else None
    title, kind = "".join(word.capitalize() for word in bearer.split("_")), _kind(folder).capitalize()
    part: type[Any] | None = getattr(module, title, None) or getattr(module, f"{title}{kind}", None)
    if part is None and name in known:
        raise AttributeError(f"{folder}/{file}.py holds no class {title}")
    if part is None:
        raise unknown(_kind(folder), name, known)
    if bearer == name:
        return part, {}
    first = next(field.name for field in dataclasses.fields(part) if not field.kw_only)
    return part, {first: number}


def fields(folder: str, name: str) -> set[str]:
    """The options of the part that bears a name."""
    return {stored_name(field) for field in dataclasses.fields(find(folder, name)[0])}


def build(folder: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """The part of that name with these options, each checked against the part's fields."""
    part, carried = find(folder, name)
    known = {stored_name(field): field.name for field in dataclasses.fields(part) if field.init}
    for option in options or {}:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    given = {**carried, **{known[option]: value for option, value in (options or {}).items()}}
    missing = [
        field.name
        for field in dataclasses.fields(part)
        if field.init
        and field.name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise OptionError(f"{name} needs a value for {', '.join(missing)}; got none")
    return part(**given)


def stored_name(field: dataclasses.Field[Any]) -> str:
    """The name of an option in settings and on the command line."""
    return str(field.metadata.get("stored", field.name))


def _kind(folder: str) -> str:
    """What a part of the folder is called: an objective, an architecture."""
    return folder.rsplit(".", 1)[-1].rstrip("s")


def describe(part: Any) -> dict[str, Any]:
    """A part as settings: its name, and its fields that are values."""
    options = {
        stored_name(item): value
        for item in dataclasses.fields(part)
        if not dataclasses.is_dataclass(value := getattr(part, item.name)) and value is not None
    }
    return {"name": name_of(part), **options}


def name_of(part: Any) -> str:
    """The name that finds the class of a part: that of its file, or of a variant in it."""
    folder, file = type(part).__module__.split(".")[-2:]
    title, bearer = "".join(word.capitalize() for word in file.split("_")), type(part).__name__
    if bearer in (title, f"{title}{_kind(folder).capitalize()}"):
        return file
    return re.sub(r"(?<!^)([A-Z])", r"_\1", bearer).lower()


def rebuild(folder: str, settings: Mapping[str, Any]) -> Any:
    """The part that such settings describe."""
    if not isinstance(settings.get("name"), str):
        raise OptionError(f"a part of {folder} must have a name; got {dict(settings)}")
    return build(folder, settings["name"], {key: value for key, value in settings.items() if key != "name"})


def _split(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)(\d+)", name)
    return (match[1], int(match[2])) if match else (name, 0)
