"""Jobs to be killed: each can be begun, continued by the same call, and compared with one that nothing disturbed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory_run
import small_run

from smoothcert.classifiers import composite, digest, load
from smoothcert.classifiers.module import trusting
from smoothcert.data import load as load_data
from smoothcert.procedures.certify import Certify
from smoothcert.runs.certify import carry_out
from smoothcert.runs.store import read
from smoothcert.runs.verify import verify
from smoothcert.sampling.spending import Spending


@dataclasses.dataclass(frozen=True)
class KillJob:
    """`carry` begins or continues it in a folder, beside which `prepare` has put what it needs."""

    prepare: Callable[[Path], object]
    carry: Callable[[Path], object]
    result: Callable[[Path], Any]
    pause: float  # seconds until a kill comes at the latest


def fixed(place: Path) -> None:
    small_run.make(place / "run", place.parent / "data.npz", n=4000)


def spending(place: Path) -> None:
    recipe, inputs = small_run.recipe_for(place.parent / "data.npz")
    procedure = Certify(50, Spending((0.05, 0.1, 0.25), 0.05, 0.01, 4000))
    spec = dataclasses.replace(recipe.spec, procedure=procedure)
    carry_out(dataclasses.replace(recipe, spec=spec), place / "run", inputs, load("linear:score"))


def ensemble(place: Path) -> None:
    recipe, inputs = small_run.recipe_for(place.parent / "data.npz", n=2000)
    model = str(place.parent / "ensemble")
    with trusting():  # a victim is a process of its own
        classifier = load(model)
    spec = dataclasses.replace(recipe.spec, model=model, model_digest=digest(model).hex)
    carry_out(dataclasses.replace(recipe, spec=spec), place / "run", inputs, classifier)


def memory(place: Path) -> None:
    place.mkdir(exist_ok=True)
    memory_run.make(place / "run", place.parent / "islands.npz", place / "m")


def train(place: Path) -> None:
    from smoothcert.training import Settings, loop

    loop.train(Settings(data="digits", arch="digits_cnn4", epochs=4, batch=64, schedule="one_cycle"), place / "net")


def write_lines(folder: Path) -> None:
    small_run.write_data(folder / "data.npz", 100)


def write_ensemble(folder: Path) -> None:
    write_lines(folder)
    specs = ["lines:a", "lines:b", "lines:c"]
    for spec in specs:
        load(spec)
    members = tuple(composite.described(folder / "ensemble", spec) for spec in specs)
    vote, cascade = {"name": "hard_vote"}, {"name": "k_consensus", "k": 2}
    composite.write(folder / "ensemble", composite.Composite("ensemble", members, vote, cascade))


def rows(place: Path) -> list[Any]:
    """Every row; `verify` must find nothing wrong with them."""
    run = read(place / "run")
    assert run.spec is not None
    found = verify(run, load_data(run.spec.data.spec), load(run.spec.model), redraw=2)
    assert found.problems == []
    assert len(run.rows) == run.inputs
    return [dataclasses.replace(row, seconds=None) for row in run.rows]


def rows_and_regions(place: Path) -> Any:
    """Settlements are part of the rows."""
    found = rows(place)
    assert all(row.settled is not None for row in found)
    return found, memory_run.regions(place / "m")


def trained(place: Path) -> Any:
    from smoothcert.training import checkpoints

    return (place / "net" / checkpoints.WEIGHTS).read_bytes(), checkpoints.read_config(place / "net")


JOBS = {
    "fixed": KillJob(write_lines, fixed, rows, 2.0),
    "spending": KillJob(write_lines, spending, rows, 2.0),
    "ensemble": KillJob(write_ensemble, ensemble, rows, 2.0),
    "memory": KillJob(lambda folder: memory_run.write_data(folder / "islands.npz", 120), memory, rows_and_regions, 2.0),
    "train": KillJob(lambda folder: None, train, trained, 2.0),
}


def work(name: str, place: Path, begun: Any) -> None:
    """The victim: a real process that works until it is killed or done."""
    import torch

    torch.set_num_threads(1)
    begun.set()
    JOBS[name].carry(place)
