"""Objects of other packages' classes, where it is known only when one is made which of those packages there are.

`lightning` and `pytorch_lightning` hold the same code and no common class: a Trainer of one refuses a callback of the
other. A class made here has as bases the classes of those that are in use.
"""

from __future__ import annotations

import importlib
import importlib.util
import types
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar, Self

from smoothcert.errors import OptionError


class Grown:
    """An object of a class that has other packages' classes as bases only once there is an object."""

    grown_from: ClassVar[type | None] = None  # the class as it is written, of one that `_grown` made

    def __new__(cls, *_: Any, **__: Any) -> Self:
        written: type = cls
        missing = tuple(base for base in cls.bases() if not issubclass(cls, base))
        made: Self = object.__new__(_grown(written, missing) if missing else written)
        return made

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # of those bases

    @classmethod
    @abstractmethod
    def bases(cls) -> tuple[type, ...]:
        """Classes of other packages, imported now."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what can be imported; another process may use other packages."""
        written = type(self).grown_from or type(self)
        return Grown.__new__, (written,), self.__getstate__()


@cache
def _grown(written: type, bases: tuple[type, ...]) -> type:
    same = {name: getattr(written, name) for name in ("__module__", "__qualname__", "__doc__")}
    return types.new_class(
        written.__name__, (written, *bases), exec_body=lambda names: names.update(same, grown_from=written)
    )


def installed(whom: str, *modules: str) -> Any:
    """The first of these modules whose package is installed."""
    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            return importlib.import_module(module)
    name = modules[0].partition(".")[0]
    raise OptionError(f"{whom} must find the package {name}; got none: pip install {name}")
