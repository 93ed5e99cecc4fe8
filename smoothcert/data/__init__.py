"""Data sets: name or path → inputs with labels, in [0,1] or on scales of their own.

    load("digits")  load("cifar10", split="train")  load("mine.npz")  load("imagenet/", image_size=224)
    Subset("table.npz", scale=scale_of("standard", "train.npz", Subset("table.npz")).scale).load()

The subset rule is that of the scripts of Cohen et al. (2019): every `skip`-th input, stopping before index `max`; from
index `start`, which is 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothcert import foreign
from smoothcert.data._inputs import Inputs as Inputs
from smoothcert.data._inputs import InputStore as InputStore
from smoothcert.data._scale import FITTED as FITTED
from smoothcert.data._scale import NONE
from smoothcert.data._scale import FittedScale as FittedScale
from smoothcert.data._scale import Scale as Scale
from smoothcert.errors import DataError, OptionError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.data._sets import Array as Array
    from smoothcert.data._sets import DataSet

_LARGEST_SIDE = 8192  # that images are resized to
LAYOUTS = ("nchw", "nhwc")
Layout = Literal["nchw", "nhwc"]


@dataclass(frozen=True)
class Subset:
    """Which inputs: a data set, its split, and the subset rule. `load` reads them."""

    spec: str  # a data set's name, an `.npz` file, or a folder of images
    split: str = "test"
    skip: int = 1  # take every skip-th input
    max: int = -1  # stop before this index; −1: never
    start: int = 0  # the first index
    value_range: tuple[float, float] | None = None  # of the values in an `.npz` file, when not 0…1
    image_size: int | None = None  # of images in a folder: resize and crop
    layout: Layout | None = None  # of images in an `.npz` file; nhwc: channels last
    classes: tuple[str, ...] | None = None  # the model's, by number: labels of named classes become these numbers
    scale: Scale | None = None  # of the features in an `.npz` file, which inputs are then measured by

    def __post_init__(self) -> None:
        import math

        if self.skip < 1:
            raise OptionError(f"skip of the data must be at least 1; got {self.skip}")
        if self.start < 0:
            raise OptionError(f"start of the data must be 0 or more; got {self.start}")
        if max(self.skip, self.start, self.max) >= foreign.WHOLE:
            raise OptionError("skip, start and max of the data must fit 64 bits; got a larger one")
        if self.max != -1 and self.max < 1:
            raise OptionError(f"max of the data must be -1 (all) or at least 1; got {self.max}")
        if self.image_size is not None and not 1 <= self.image_size <= _LARGEST_SIDE:
            raise OptionError(f"image_size of the data must be from 1 to {_LARGEST_SIDE}; got {self.image_size}")
        if self.layout is not None and self.layout not in LAYOUTS:
            raise unknown("layout of the data", self.layout, LAYOUTS)
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))
            if not self.classes or not all(isinstance(line, str) and line.strip() for line in self.classes):
                raise OptionError("classes of the data must be names, none of them empty; got others")
        if self.scale is not None and self.value_range is not None:
            raise OptionError("give a range or a scale of the data, not both")
        if self.value_range is not None:
            low, high = self.value_range
            object.__setattr__(self, "value_range", (low, high))  # a list where it was read from a file
            if not (low < high and math.isfinite(high - low)):  # nor is the width of NaN or infinity
                raise OptionError(
                    f"range of the data must be two finite numbers lo,hi with lo < hi; got {low:g},{high:g}"
                )

    @property
    def name(self) -> str:
        """As people call it: a data set's name, or the last part of a path."""
        return Path(self.spec).name or self.spec

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the model's classes are called, as people say it: without ids and second names."""
        from smoothcert.data._classes import short

        return tuple(map(short, self.classes)) if self.classes else class_names(self.spec)

    @property
    def units(self) -> str:
        """In what noise and radii are measured."""
        return "inputs in [0,1]" if self.scale is None else self.scale.words

    def load(self) -> Inputs:
        """The inputs that a data set's name, an `.npz` file or a folder of images stands for."""
        found = self._loaded()
        return found if self.classes is None else renamed(found, self.classes)

    def _loaded(self) -> Inputs:
        from smoothcert import catalog
        from smoothcert.data import _files, _folder

        path = _expanded(self.spec)
        if self.spec in catalog.names("data"):
            self._refuse(range=self.value_range, image_size=self.image_size, layout=self.layout)
            return self._named()
        if path.suffix == ".npz":
            self._refuse(image_size=self.image_size)
            return _files.load_npz(path, self)
        if foreign.is_folder(path):
            self._refuse(range=self.value_range, layout=self.layout, scale=self.scale and self.scale.kind)
            return _folder.load_folder(path, self)
        if foreign.is_there(path) or len(path.parts) > 1:
            got = "another kind of file" if foreign.is_there(path) else "no such file"
            raise DataError(
                f"data '{self.spec}' must be a data set's name, an .npz file or a folder of images; got {got}"
            )
        raise unknown("data", self.spec, [*catalog.names("data"), "file.npz", "folder/"])

    def indices(self, length: int) -> Array:
        """The indices that Cohen's scripts visit among `length` inputs, int64."""
        import numpy as np

        end = length if self.max == -1 else min(self.max, length)
        if self.start >= end > 0:
            raise OptionError(f"start of the data must be below {end}, where the inputs end; got {self.start}")
        return np.arange(self.start, end, self.skip, dtype=np.int64)

    def _named(self) -> Inputs:
        import numpy as np

        from smoothcert import catalog
        from smoothcert.data._files import ArrayStore
        from smoothcert.data._scale import ScaledStore

        part: DataSet = catalog.build("data", self.spec)
        if self.split not in part.sizes:
            raise unknown(f"split of {self.spec}", self.split, part.sizes)
        values, labels = part.load(self.split)
        indices = self.indices(len(labels))
        store: InputStore = ArrayStore(values[indices], *part.scale)
        if self.scale is not None:
            self.scale.check(part.shape, self.spec)
            store = ScaledStore(store.take(np.arange(len(indices))), self.scale)
        shape, names = part.shape, part.class_names
        return Inputs(self.spec, self.split, indices, labels[indices], shape, part.classes, store, names)

    def _refuse(self, **options: object) -> None:
        """An option that this kind of data cannot use is an error, not something to ignore."""
        for option, value in options.items():
            if value is not None:
                raise OptionError(
                    f"{option} of {self.spec} must not be given, its values and sizes are known; got {value}"
                )


def same_list(one: Subset, other: Subset) -> bool | None:
    """Whether two subsets are of one list of inputs, so that equal indices are equal inputs; None: not to be known."""
    from smoothcert import catalog
    from smoothcert.data import _folder

    named = catalog.names("data")
    if one.spec in named and other.spec in named:
        return (one.spec, one.split) == (other.spec, other.split)
    paths = [_expanded(subset.spec).resolve() for subset in (one, other)]
    if one.spec in named or other.spec in named or paths[0] != paths[1]:
        return None
    if not foreign.is_folder(paths[0]):
        return True  # a file holds one split, whatever it is called
    return _folder.split_folder(paths[0], one.split) == _folder.split_folder(paths[0], other.split)


def one_input(x: Tensor, name: str = "request") -> Inputs:
    """A single input that somebody sent, as data: index 0, and a label −1, for nobody has said which one is right."""
    import numpy as np

    from smoothcert.data._files import ArrayStore

    store = ArrayStore(x.numpy()[None])
    return Inputs(name, "sent", np.zeros(1, dtype=np.int64), np.full(1, -1), tuple(x.shape), None, store)


def _expanded(spec: str) -> Path:
    """A path that may begin with ~, of this user or of one who exists."""
    try:
        return Path(spec).expanduser()
    except RuntimeError:
        return Path(spec)


def load(
    spec: str,
    split: str = "test",
    skip: int = 1,
    max: int = -1,
    value_range: tuple[float, float] | None = None,
    image_size: int | None = None,
    start: int = 0,
) -> Inputs:
    """The inputs of `Subset(spec, …)`, in one call."""
    return Subset(spec, split, skip, max, start, value_range, image_size).load()


def class_lines(path: Path) -> tuple[str, ...]:
    """The classes of a model by number, from a file: one a line, or JSON."""
    from smoothcert.data._classes import read_classes

    return read_classes(path)


def renamed(inputs: Inputs, classes: tuple[str, ...]) -> Inputs:
    """The inputs with the numbers of these classes for labels, found by name; DataError where one is not found once."""
    from smoothcert.data._classes import renumbered

    return renumbered(inputs, classes)


def unnamed(classes: tuple[str, ...]) -> bool:
    """Whether these are no names but numbers, such as LABEL_0."""
    from smoothcert.data._classes import generic

    return generic(classes)


def scale_of(kind: str, training: str | None, subset: Subset) -> FittedScale:
    """The scale for these inputs: minmax or standard, fitted on training data; none; or that of a JSON file.

    `training`: an `.npz` file; None: the training split of a named data set.
    """
    from smoothcert import catalog
    from smoothcert.data import _files
    from smoothcert.data._scale import fit, read_scale

    if kind not in FITTED and training is not None:
        raise OptionError(f"training data of a scale must be given with {' or '.join(FITTED)}; got {kind}")
    if kind == NONE:
        return FittedScale(Scale(NONE))
    if kind not in FITTED:
        if not kind.endswith(".json"):
            raise unknown("scale of the data", kind, [*FITTED, NONE, "file.json"])
        return FittedScale(read_scale(_expanded(kind)))
    if training is not None:
        path = _expanded(training)
        if path.resolve() == _expanded(subset.spec).resolve():
            raise OptionError(f"training data of a scale must not be what is certified; got {training} for both")
        return _files.fit_scale(path, kind, subset.layout)
    if subset.spec not in catalog.names("data") or subset.split == "train":
        raise OptionError(
            f"scale {kind} must be fitted on training data, never on what is certified; name it: --scale-data "
            f"train.npz, or --scale file.json; got none for {subset.name} ({subset.split})"
        )
    inputs = Subset(subset.spec, "train").load()
    return fit(kind, inputs.tensors().numpy(), (), subset.spec)


def given(data: Any, labels: Any = None, most: int | None = None, ranged: bool = True) -> tuple[Array, Array]:
    """Inputs that a Python program holds (arrays, a torch Dataset or DataLoader) as arrays x [N, ...] and y [N].

    `ranged`: floats must lie in [0,1], as they must without a scale.
    """
    from smoothcert.data._given import as_arrays

    return as_arrays(data, labels, most, ranged)


def fitted_scale(kind: str, training: Any) -> Scale:
    """The scale of training inputs that a Python program holds; minmax or standard."""
    from smoothcert.data._given import as_numbers
    from smoothcert.data._scale import fit

    if kind not in FITTED:
        raise unknown("scale of training inputs", kind, FITTED)
    names = tuple(map(str, training.columns)) if hasattr(training, "columns") else ()
    return fit(kind, as_numbers(training, "training inputs of the scale"), names, "the scale").scale


@lru_cache(maxsize=16)
def class_names(spec: str) -> tuple[str, ...]:
    """What the classes of a named data set are called, by number; nothing where they are numbers, or not known."""
    from smoothcert import catalog

    names: tuple[str, ...] = catalog.find("data", spec)[0].class_names if spec in catalog.names("data") else ()
    return names


def read_arrays(what: str, path: Path, *names: str) -> list[Array]:
    """The arrays of these names in an `.npz` file, which is what."""
    from smoothcert.data._npz import NpzArchive

    with NpzArchive(what, path) as archive:
        return [archive.read(header) for header in archive.headers(names)]
