"""A run as TensorBoard shows it: its figures as scalars, and its curve with a thousandth of radius as a step."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

from smoothcert.errors import OptionError
from smoothcert.files import writing
from smoothcert.report.metrics import certified_accuracy, figures
from smoothcert.report.question import asked
from smoothcert.runs.run import Run

POINTS = 200  # of a curve, at most


def write_scalars(record: Run, folder: Path) -> Path:
    """One event file in a folder, which may hold others; its path."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise OptionError(
            "--to tensorboard must find the package tensorboard; got none: pip install tensorboard"
        ) from error
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as place:
            with SummaryWriter(place) as log:
                for name, step, value in scalars(record):
                    log.add_scalar(name, value, step)
                log.add_text(
                    "smoothcert/settings", f"```json\n{json.dumps(record.settings, indent=2, default=str)}\n```"
                )
            (made,) = Path(place).iterdir()
            return made.replace(folder / made.name)


def scalars(record: Run) -> list[tuple[str, int, float]]:
    """Tag, step and value of everything that is known."""
    found = figures(record, [0.0])
    values = {
        "accuracy": found.accuracy.value,
        "abstained": found.abstained.value,
        "clean_accuracy": found.clean_accuracy.value if found.clean_accuracy else None,
        "acr": found.acr,
        "draws_an_input": found.mean_draws,
        "seconds": found.seconds,
    }
    made = [(f"smoothcert/{name}", 0, value) for name, value in values.items() if value is not None]
    if record.kind == "certify":
        made += [
            ("smoothcert/certified_accuracy", step, certified_accuracy(record, step / 1000).value)
            for step in _steps(record)
        ]
    return made


def _steps(record: Run) -> list[int]:
    """Radii in thousandths: those that were asked for, else evenly up to the largest, and one beyond it."""
    radii = asked(record).radii
    if radii is not None:
        return [math.floor(1000 * radius) for radius in radii]
    largest = max((row.radius for row in record.rows if row.correct), default=0.0)
    width = max(1, math.ceil(1000 * largest / POINTS))
    return list(range(0, math.floor(1000 * largest) + width + 1, width))
