"""Recipes: the settings of a training as they were published, whole, each value with its source.

A recipe is a file NAME.toml of this folder, and its name finds it. Its rows say for which data sets, objectives and σ
they hold, or leave out what they do not depend on; what a training gets is all rows that hold for it, a later one
before an earlier one. A row that names all three makes that combination one of the recipe's. Any other is refused:
nobody published it, and a value of another row would be a guess.

    settings.epochs = [90, "code", "a remark"]     a field of `Settings`: value, key of [sources], and maybe a remark
    options.copies = [1, "code"]                   an option of the objective
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from smoothcert import foreign
from smoothcert.errors import OptionError, unknown

FOLDER = Path(__file__).parent
NOISES = ("gaussian", "gaussian_grid")  # in training they are one
ORDER = (  # in which settings are told
    *("arch", "epochs", "batch", "image_size", "augment", "optimiser", "lr", "schedule", "drops", "momentum"),
    *("nesterov", "weight_decay", "sigma_warmup", "sigma_step", "sigma_draws"),
)
OF = {  # whose settings are an objective's own
    "gaussian": "cohen",
    "smoothadv": "smoothadv",
    "macer": "macer",
    "consistency": "consistency",
    "smoothmix": "smoothmix",
    "advmacer": "esb",
}


class Published(NamedTuple):
    """A value, where it was published, and what is to be said of it."""

    value: Any
    source: str
    remark: str = ""

    @property
    def words(self) -> str:
        return f"{shown(self.value)} ({self.source}{f': {self.remark}' if self.remark else ''})"


class Departure(NamedTuple):
    """A setting that is not the published one."""

    name: str
    value: Any
    published: Any

    @property
    def words(self) -> str:
        return f"{self.name} {shown(self.value)} (published: {shown(self.published)})"


@dataclass(frozen=True)
class RecipeRow:
    """What a recipe says of the combinations that it names; an empty list: of all."""

    data: tuple[str, ...] = ()
    objective: tuple[str, ...] = ()
    sigma: tuple[float, ...] = ()
    settings: Mapping[str, Published] = field(default_factory=dict)
    options: Mapping[str, Published] = field(default_factory=dict)

    def holds(self, data: str, objective: str, sigma: float) -> bool:
        asked = ((self.data, data), (self.objective, objective), (self.sigma, sigma))
        return all(not listed or one in listed for listed, one in asked)

    @property
    def whole(self) -> bool:
        """Whether it names a data set, an objective and a σ."""
        return bool(self.data and self.objective and self.sigma)


@dataclass(frozen=True)
class PublishedTraining:
    """All that a recipe says of one training."""

    recipe: str
    title: str
    data: str
    objective: str
    sigma: float
    settings: Mapping[str, Published]
    options: Mapping[str, Published]

    def departures(self, settings: Mapping[str, Any], options: Mapping[str, Any]) -> list[Departure]:
        """Where a training is not as published: settings as `Settings.table` has them, options of its objective."""
        return [
            Departure(name, found[name], wanted.value)
            for own, found in ((self._ordered, settings), (self.options, options))
            for name, wanted in own.items()
            if name in found and _plain(found[name]) != _plain(wanted.value)
        ]

    @property
    def _ordered(self) -> dict[str, Published]:
        return {name: self.settings[name] for name in sorted(self.settings, key=ORDER.index)}

    def under(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Its settings, to be overruled by these; drops of a schedule that was given up are given up with it."""
        left_out = ("drops",) if given.get("schedule", "step") != "step" else ()
        return {name: value.value for name, value in self.settings.items() if name not in left_out}

    def told(self, settings: Any) -> str:
        """In a line, what `Settings` that follow it have otherwise; nothing where they have nothing."""
        table = settings.table()
        found = [departure.words for departure in self.departures(table, table["objective_options"])]
        if settings.drops and min(settings.drops) >= settings.epochs:
            found.append(f"the rate never falls: drops {shown(settings.drops)} lie behind {settings.epochs} epochs")
        return f"recipe {self.recipe} but for {', '.join(found)}" if found else ""

    def lines(self) -> list[str]:
        """The recipe in words, a line a value."""
        head = f"recipe {self.recipe}, {self.title}; {self.data}, {self.objective}, sigma {self.sigma:g}"
        named = {f"{self.objective}'s {name}": value for name, value in self.options.items()}
        return [head, *(f"  {name} {value.words}" for name, value in {**self._ordered, **named}.items())]


@dataclass(frozen=True)
class TrainingRecipe:
    """The published settings of one paper; `objective` is meant where none is asked for."""

    name: str
    title: str
    objective: str
    rows: tuple[RecipeRow, ...]

    def check_noise(self, noise: str) -> None:
        """Refuse a noise that nobody published it for."""
        if noise not in NOISES:
            raise OptionError(f"noise of recipe {self.name} must be gaussian; got {noise}")

    def training(self, data: str, objective: str | None, sigma: float) -> PublishedTraining:
        """What was published for this data set, objective and σ; refused where nothing was."""
        objective = self.objective if objective is None else objective
        whole = [row for row in self.rows if row.whole]
        self._require("objective", objective, (each for row in whole for each in row.objective))
        whole = [row for row in whole if objective in row.objective]
        self._require("data", data, (each for row in whole for each in row.data), f" for {objective}")
        whole = [row for row in whole if data in row.data]
        self._require("sigma", sigma, (each for row in whole for each in row.sigma), f" for {objective} on {data}")
        found = [row for row in self.rows if row.holds(data, objective, sigma)]
        settings = {name: value for row in found for name, value in row.settings.items()}
        options = {name: value for row in found for name, value in row.options.items()}
        return PublishedTraining(self.name, self.title, data, objective, sigma, settings, options)

    def combinations(self) -> list[tuple[str, str, float]]:
        """Every data set, objective and σ that it has."""
        found = [
            (data, objective, sigma)
            for row in self.rows
            if row.whole
            for data in row.data
            for objective in row.objective
            for sigma in row.sigma
        ]
        return list(dict.fromkeys(found))

    def _require(self, what: str, value: Any, known: Iterable[Any], where: str = "") -> None:
        listed = list(dict.fromkeys(known))
        if value not in listed:
            words = ", ".join(shown(one) for one in listed)
            raise OptionError(
                f"{what} of recipe {self.name}{where} must be one that was published, {words}; got {value}"
            )


def names() -> list[str]:
    """Every recipe there is."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> TrainingRecipe:
    """The recipe of this name."""
    if name not in names():
        raise unknown("recipe of training", name, names())
    path = FOLDER / f"{name}.toml"
    table = foreign.parse_toml(path.read_bytes(), f"recipe {path}", OptionError)
    rows = tuple(_row(row, table["sources"]) for row in table["row"])
    return TrainingRecipe(name, table["title"], table["objective"], rows)


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, list | tuple):
        return ",".join(shown(one) for one in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(table: Mapping[str, Any], sources: Mapping[str, str]) -> RecipeRow:
    data, objective, sigma = (tuple(table.get(key, ())) for key in ("data", "objective", "sigma"))
    settings, options = (_sourced(table.get(key, {}), sources) for key in ("settings", "options"))
    return RecipeRow(data, objective, sigma, settings, options)


def _sourced(values: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Published]:
    return {name: Published(value, sources[source], *remark) for name, (value, source, *remark) in values.items()}


def _plain(value: Any) -> Any:
    """As JSON keeps it, so that a tuple is what was read from a file."""
    return json.loads(json.dumps(value))
