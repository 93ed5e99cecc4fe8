"""Features on scales of their own: where the scale of each begins (offset) and how wide one unit is (width).

    minmax      0 and 1 are the least and the largest value in the training data
    standard    0 is their mean, and one unit their standard deviation
    none        values as they are: one unit is the feature's own

A scaled value is (value − offset)/width. Noise is added to scaled values, so σ and radii are in these units; the model
is given value = scaled·width + offset, its own units. A scale is fitted on training data, never on what is certified. A
feature that is constant there has no width: one unit is then its own, as in scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert import foreign
from smoothcert.errors import DataError, OptionError

if TYPE_CHECKING:
    from smoothcert.data._npz import NpzArchive
    from smoothcert.data._sets import Array

FITTED = ("minmax", "standard")
NONE = "none"
MOST = 10_000  # features: a recipe holds the scale
_ROWS = 4096  # turned into doubles at a time


@dataclass(frozen=True)
class Scale:
    """Of every feature of an input, channels first, the offset and the width of its scale; none have kind `none`."""

    kind: str
    offset: tuple[float, ...] = ()
    width: tuple[float, ...] = ()
    names: tuple[str, ...] = ()  # of the features, where they are known

    def __post_init__(self) -> None:
        features = len(self.width)
        if len(self.offset) != features or (self.names and len(self.names) != features):
            raise OptionError(
                f"a scale must have an offset, a width and, where it has names, a name for every feature; got "
                f"{len(self.offset)}, {features} and {len(self.names)}"
            )
        if (features == 0) != (self.kind == NONE) or features > MOST:
            raise OptionError(f"a scale must have 1 to {MOST} features (none has no scale); got {features}")
        if not all(map(math.isfinite, (*self.offset, *self.width))) or min(self.width, default=1.0) <= 0:
            raise OptionError("a scale must have finite offsets, and widths above 0; got others")

    @property
    def words(self) -> str:
        """In what radii are told."""
        return "in the inputs' own units" if self.kind == NONE else "in units of the scale"

    def named(self, feature: int) -> str:
        return self.names[feature] if self.names else f"feature {feature}"

    def check(self, shape: tuple[int, ...], whose: str) -> None:
        """Refuse inputs with another number of features."""
        if self.width and math.prod(shape) != len(self.width):
            raise DataError(f"inputs of {whose} must have the {len(self.width)} features of the scale; got {shape}")

    def scaled(self, values: Array) -> Array:
        """Values [N, ...] in their own units → in those of the scale, float32, rounded once."""
        import numpy as np

        if not self.width:
            return np.ascontiguousarray(values, dtype=np.float32)
        offset, width = (np.array(numbers).reshape(values.shape[1:]) for numbers in (self.offset, self.width))
        with np.errstate(over="ignore"):
            return ((values.astype(np.float64) - offset) / width).astype(np.float32)

    def table(self) -> dict[str, Any]:
        """As a scale file holds it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items() if value}


@dataclass(frozen=True)
class ScaledStore:
    """An array [N, *shape] in its own units, given out in those of a scale."""

    values: Array
    scale: Scale

    def take(self, positions: Array) -> Array:
        return self.scale.scaled(self.values[positions])


class FittedScale(NamedTuple):
    """A scale, and the features that are constant in the training data."""

    scale: Scale
    constant: tuple[str, ...] = ()


def fit(kind: str, values: Array, names: tuple[str, ...], whose: str) -> FittedScale:
    """The scale of training inputs [N, ...]."""
    import numpy as np

    if not np.isfinite(values).all():
        raise DataError(f"training inputs of {whose} must be finite to fit a scale; got NaN or infinity")
    flat = values.reshape(len(values), -1)
    low, high = (end.astype(np.float64) for end in (flat.min(axis=0), flat.max(axis=0)))
    offset, width = low, high - low
    if kind == "standard":
        zero = np.zeros(flat.shape[1])
        offset = sum((piece.sum(axis=0) for piece in _pieces(flat)), zero) / len(flat)
        width = np.sqrt(sum((((piece - offset) ** 2).sum(axis=0) for piece in _pieces(flat)), zero) / len(flat))
    still = (high <= low) | (width <= 0)
    scale = Scale(kind, tuple(offset.tolist()), tuple(np.where(still, 1.0, width).tolist()), names)
    return FittedScale(scale, tuple(scale.named(int(feature)) for feature in np.flatnonzero(still)))


def _pieces(rows: Array) -> Iterator[Array]:
    """Rows in double precision, some at a time: bounds memory."""
    return (rows[at : at + _ROWS].astype("float64") for at in range(0, len(rows), _ROWS))


def read_scale(path: Path) -> Scale:
    """A scale from its file: lists offset and width, with names or without, or {feature: {offset, width}, …}."""
    table = foreign.parse_json(foreign.content(path, "scale", DataError), f"scale '{path}'", DataError)
    try:
        if isinstance(table, dict) and "width" not in table and "offset" not in table:
            parts = [foreign.typed(_Feature, part, name) for name, part in table.items()]
            table = {
                "names": list(table),
                "offset": [part.offset for part in parts],
                "width": [part.width for part in parts],
            }
        table = {"kind": "file", **foreign.typed(dict[str, Any], table)}
        found: Scale = foreign.typed(Scale, table)
        return found
    except (TypeError, ValueError, OptionError) as error:
        raise DataError(
            f"scale '{path}' must be JSON of lists offset and width, or of both for every feature by name; it cannot "
            f"be read ({error})"
        ) from error


class _Feature(NamedTuple):
    offset: float
    width: float


def feature_names(archive: NpzArchive, features: int) -> tuple[str, ...]:
    """What an `.npz` file calls its features, in its array `names`; nothing where it has none."""
    if "names" not in archive.names:
        return ()
    header = archive.headers(("names",))[0]
    if header.dtype.kind != "U" or header.shape != (features,):
        raise DataError(f"names of '{archive.path}' must be {features} texts, one a feature; got {header.words}")
    return tuple(foreign.one_line(str(name)) for name in archive.read(header))
