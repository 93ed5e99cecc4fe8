"""Training of base classifiers: one loop, many objectives. Here is everything that decides which network it ends with.

Settings ─▶ setup (inputs, network, objective) ─▶ loop ─▶ checkpoint
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from smoothcert import catalog
from smoothcert.errors import LARGEST, OptionError, RunError, require_count, require_number, unknown

SCHEDULES = ("step", "one_cycle", "triangular")
PRECISIONS = ("float32", "bfloat16")  # in which the network computes while it learns; weights are float32
AUGMENTATIONS = ("none", "crop_flip", "resized_crop")
IMAGENET = "imagenet"  # a data set that is known, and comes as a folder
SIGMA = 0.25  # unless a level is given
RATES = {"sgd": 0.1, "adamw": 0.001}  # the optimisers, and the rate of each unless one is given


def data_set_of(data: str, said: str | None) -> str | None:
    """Which data set data are: one of a name is itself; of a file or folder somebody must say it."""
    named = catalog.names("data")
    if said is not None and said not in (*named, IMAGENET):
        raise unknown("data_set of training", said, (*named, IMAGENET))
    if data in named and said not in (None, data):
        raise OptionError(f"data_set of training must be left out or {data}, which the data are; got {said}")
    return data if data in named else said


@dataclass(frozen=True)
class Settings:
    """Defaults are those of Horváth et al. (ICLR 2022), without augmentation; what others published is in recipes/."""

    data: str
    arch: str
    objective: str = "gaussian"
    sigma: float | None = None  # 0.25 unless a level is given; none for a noise that has no such level
    epochs: int = 150
    batch: int = 256
    lr: float | None = None  # the optimiser's own in RATES unless one is given
    schedule: str = "step"
    drops: tuple[int, ...] | None = None  # epochs after which `step` divides by 10; None: after each third
    warmup: int = 0  # epochs of a rate that rises in a line, before the schedule's own
    clip: float = 0.0  # the most that the length of the gradient may be; 0: any
    ema: float = 0.0  # decay of a running average of the weights, which is then the result; 0: none
    momentum: float = 0.9
    weight_decay: float = 1e-4
    augment: str = "none"
    seed: int = 0
    start: str | None = None  # a checkpoint whose weights to begin with
    labels: str | None = None  # a file of other labels for the training inputs
    sigma_per_example: bool = False
    sigma_warmup: int = 50  # epochs at the common σ
    sigma_step: float = 1e-4
    sigma_draws: int = 1
    value_range: tuple[float, float] | None = None
    image_size: int | None = None
    arch_options: Mapping[str, Any] = field(default_factory=dict)
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    noise: str = "gaussian"
    noise_options: Mapping[str, Any] = field(default_factory=dict)
    optimiser: str = "sgd"  # or adamw, whose first beta is the momentum
    nesterov: bool = True  # momentum of sgd
    data_set: str | None = None  # which one the data are, where their name does not say: for normalisation and recipe
    recipe: str | None = None  # whose published settings these are, as far as none were given instead
    precision: str = "float32"  # or bfloat16: layers compute in half precision while training
    hold_out: str | None = None  # training inputs that are kept back: a share, a number, or a file of indices

    def __post_init__(self) -> None:
        if self.sigma is not None:
            self._require("sigma", "a finite number above 0", lambda sigma: 0 < sigma < math.inf)
        object.__setattr__(self, "sigma", getattr(self.build_noise(), "sigma", None))
        data_set_of(self.data, self.data_set)
        if self.optimiser not in RATES:
            raise unknown("optimiser of training", self.optimiser, RATES)
        if self.lr is None:
            object.__setattr__(self, "lr", RATES[self.optimiser])
        for name in ("lr", "sigma_step"):
            self._require(name, f"a finite number above 0 and at most {LARGEST:g}", lambda rate: 0 < rate <= LARGEST)
        self._require("momentum", "in (0, 1)", lambda momentum: 0 < momentum < 1)
        self._require("ema", "in [0, 1)", lambda ema: 0 <= ema < 1)
        require_number("training", weight_decay=self.weight_decay, clip=self.clip)
        require_count("training", epochs=self.epochs, batch=self.batch, sigma_draws=self.sigma_draws)
        require_count("training", least=0, most=2**63 - 1, seed=self.seed)
        require_count("training", least=0, warmup=self.warmup, sigma_warmup=self.sigma_warmup)
        if self.drops is not None and not all(isinstance(drop, int) and drop >= 1 for drop in self.drops):
            raise OptionError(f"drops of training must be epochs, whole numbers of at least 1; got {list(self.drops)}")
        if self.drops is not None and self.schedule != "step":
            raise OptionError(f"drops of training need the step schedule; got {self.schedule}")
        if not isinstance(self.nesterov, bool):
            raise OptionError(f"nesterov of training must be true or false; got {self.nesterov}")
        if self.schedule not in SCHEDULES:
            raise unknown("schedule of training", self.schedule, SCHEDULES)
        if self.augment not in AUGMENTATIONS:
            raise unknown("augment of training", self.augment, AUGMENTATIONS)
        if self.precision not in PRECISIONS:
            raise unknown("precision of training", self.precision, PRECISIONS)

    def _require(self, name: str, what: str, holds: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not holds(value):
            raise OptionError(f"{name} of training must be {what}; got {value}")

    @property
    def known_as(self) -> str | None:
        """The data set that the data are, as far as anybody said."""
        return data_set_of(self.data, self.data_set)

    def build_noise(self) -> Any:
        """The noise that is trained under."""
        takes = {item.name for item in fields(catalog.find("noise", self.noise)[0])}
        if self.sigma is not None and "sigma" not in takes:
            raise OptionError(f"sigma of training must be left out with {self.noise} noise; got {self.sigma}")
        if self.sigma is not None and (own := self.noise_options.get("sigma", self.sigma)) != self.sigma:
            raise OptionError(
                f"sigma of training must be given once; got {self.sigma} and, as an option of noise, {own}"
            )
        free = "sigma" in takes and self.sigma is None and "lam" not in self.noise_options
        level = {"sigma": SIGMA if free else self.sigma} if free or self.sigma is not None else {}
        return catalog.build("noise", self.noise, {**level, **self.noise_options})

    @property
    def level(self) -> float:
        """The common σ; 1 for a noise that has none."""
        return 1.0 if self.sigma is None else self.sigma

    def rate(self, epoch: float) -> float:
        """The learning rate when so many epochs are done: a function of the settings alone, so nothing to resume."""
        warm = min(1.0, (epoch + 0.01) / self.warmup if self.warmup else 1.0)
        return warm * (cast(float, self.lr) * self._scheduled(epoch))

    def _scheduled(self, epoch: float) -> float:
        """Which part of the highest rate it is by the schedule."""
        done = epoch / self.epochs
        if self.drops is not None:
            return 0.1 ** sum(epoch >= drop for drop in self.drops)
        if self.schedule == "step":
            return 0.1 ** int(3 * int(epoch) / self.epochs)
        if self.schedule == "triangular":  # up in a line for a fifth of the time, then down to 0 in another
            return 0.1 + 4.5 * done if done < 0.2 else (1 - done) / 0.8
        if done < 0.3:  # one cycle (Smith 2018): up in a line, down along a cosine
            return 0.04 + 0.96 * done / 0.3
        return 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))

    def refuse_others(self, out: Path, began: Mapping[str, Any] | None = None) -> None:
        """Refuse to go on, in the folder `out`, with a training that began with other settings; say the way on."""
        if began is None:
            try:
                began = json.loads((out / "config.json").read_bytes())["settings"]
            except (OSError, ValueError, KeyError, TypeError):
                return  # no checkpoint, or a damaged one: `setup.resumable` says more
        defaults = Settings("", "").table()
        for name, value in self.table().items():
            if (before := cast(Mapping[str, Any], began).get(name, defaults[name])) != value:
                weights = "" if name.startswith("arch") else f"; begin there with these weights by --from '{out}'"
                words = f"must stay {before}; got {value}, which needs another --out{weights}"
                raise RunError(f"{name} of the training in '{out}' {words}")

    def table(self) -> dict[str, Any]:
        """As the plain values that JSON keeps, for config.json and for comparison with one."""
        table: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return table
