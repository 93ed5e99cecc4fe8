"""Everything that decides which network a training ends with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from certus.errors import OptionError, unknown

SCHEDULES = ("step", "one_cycle")
AUGMENTATIONS = ("none", "crop_flip")


@dataclass(frozen=True)
class Settings:
    """Defaults are those of Cohen et al. (2019): SGD with Nesterov momentum, ÷10 after each third of 150 epochs."""

    data: str
    arch: str
    objective: str = "gaussian"
    sigma: float = 0.25
    epochs: int = 150
    batch: int = 256
    lr: float = 0.1
    schedule: str = "step"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    augment: str = "none"
    seed: int = 0
    value_range: tuple[float, float] | None = None
    image_size: int | None = None
    arch_options: Mapping[str, Any] = field(default_factory=dict)
    objective_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._require("sigma", "a finite number above 0", lambda sigma: 0 < sigma < math.inf)
        self._require("lr", "a finite number above 0", lambda lr: 0 < lr < math.inf)
        self._require("weight_decay", "a finite number of at least 0", lambda decay: 0 <= decay < math.inf)
        self._require("momentum", "in (0, 1)", lambda momentum: 0 < momentum < 1)
        self._require("epochs", "a whole number of at least 1", lambda epochs: isinstance(epochs, int) and epochs >= 1)
        self._require("batch", "a whole number of at least 1", lambda batch: isinstance(batch, int) and batch >= 1)
        self._require("seed", "a whole number of at least 0", lambda seed: isinstance(seed, int) and seed >= 0)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule of training", self.schedule, SCHEDULES)
        if self.augment not in AUGMENTATIONS:
            raise unknown("augment of training", self.augment, AUGMENTATIONS)

    def _require(self, name: str, what: str, holds: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not holds(value):
            raise OptionError(f"{name} of training must be {what}; got {value}")

    def rate(self, epoch: float) -> float:
        """The learning rate when so many epochs are done: a function of the settings alone, so nothing to resume."""
        done = epoch / self.epochs
        if self.schedule == "step":
            return self.lr * 0.1 ** int(3 * int(epoch) / self.epochs)
        if done < 0.3:  # one cycle (Smith 2018): up in a line, down along a cosine
            return self.lr * (0.04 + 0.96 * done / 0.3)
        return self.lr * 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))

    def table(self) -> dict[str, Any]:
        """As the plain values that JSON keeps, for config.json and for comparison with one."""
        table: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return table
