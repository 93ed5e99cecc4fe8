"""A run's figures for other tools, each with what it claims: a certified accuracy without that means little.

The `model-index` block of a model card on the Hugging Face hub is YAML between two lines of dashes; shares are
fractions. TensorBoard shows figures as scalars, and the curve with a thousandth of radius as a step.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothcert.catalog import describe
from smoothcert.errors import OptionError, RunError
from smoothcert.files import writing
from smoothcert.foreign import harmless
from smoothcert.report.metrics import Figures, Share, certified_accuracy, figures, radius_name
from smoothcert.report.tables import unfinished
from smoothcert.runs.exchange import settings
from smoothcert.runs.run import Run
from smoothcert.spec import Spec

POINTS = 200  # of a curve, at most


def model_index(run: Run, radii: list[float] | None = None) -> str:
    """The block, to be put at the head of README.md. Radii that promise nothing are refused."""
    if run.spec is None:
        raise RunError(f"run {run.name} must say which model and data it is of; got a log, which does not")
    if run.kind == "certify" and run.claim.guarantee == "none":
        raise RunError(
            f"run {run.name} must hold certificates for a model card; got radii at each input's own noise level "
            "without a memory, which promise nothing"
        )
    spec, name = run.spec, Path(run.spec.data.spec).name
    result = {
        "task": {"type": "image-classification" if _pictures(spec) else "tabular-classification"},
        "dataset": {"name": name, "type": name, "split": spec.data.split},
        "metrics": _metrics(run, spec, figures(run, radii)),
    }
    index = [{"name": Path(spec.model).name, "results": [result]}]
    return f"---\nmodel-index:\n{_yaml(index)}---\n"


def _pictures(spec: Spec) -> bool:
    return len(spec.shape) == 3 and spec.shape[0] in (1, 3) and min(spec.shape[1:]) > 1


def _metrics(run: Run, spec: Spec, found: Figures) -> list[dict[str, Any]]:
    claim, made = _claim(run, spec), []
    labels = " of the true label" if run.claim.test_class == "labels" else ""
    labels += f" ({len(run.rows):,} of {run.inputs or 0:,} inputs, unfinished)" if run.unfinished else ""
    promise = ", promised by a memory" if run.claim.guarantee == "memory" else ""
    for radius, share in found.certified_accuracy.items():
        if share is not None:
            name = f"certified accuracy{labels} at {run.claim.norm} radius {radius_name(radius)}{promise}"
            made.append(_share("certified_accuracy", name, share, {"radius": radius, **claim}))
    if found.acr is not None:
        ends = {"interval": list(found.acr_interval)} if found.acr_interval else {}
        name = f"average certified {run.claim.norm} radius{labels}{promise}"
        made.append({"type": "acr", "name": name, "value": found.acr, "args": {**ends, **claim}})
    if found.clean_accuracy is not None:
        made.append(_share("accuracy", "accuracy of the network without noise", found.clean_accuracy, {}))
    if run.kind == "predict":
        made.append(_share("accuracy", "accuracy of the smoothed classifier", found.accuracy, claim))
    return made


def _share(kind: str, name: str, share: Share, claim: Mapping[str, Any]) -> dict[str, Any]:
    around = {"interval": list(share.interval), "inputs": share.of}
    return {"type": kind, "name": name, "value": share.value, "args": {**claim, **around}}


def _claim(run: Run, spec: Spec) -> dict[str, Any]:
    """What a figure stands under: norm, guarantee, tested class, noise, budget, alpha, and what is missing."""
    said: dict[str, Any] = {"norm": run.claim.norm, "alpha": run.claim.alpha}
    if run.kind == "certify":
        said |= {"guarantee": run.claim.guarantee, "tested": run.claim.test_class}
    parts = {"noise": spec.noise, "procedure": spec.procedure, "sampling": spec.sampling,
             "preparation": spec.preparation}  # fmt: skip
    known = {name: describe(part) for name, part in parts.items() if part is not None}
    words = [*run.claim.words, *filter(None, [unfinished(run)])]
    return {**said, **known, **({"says": words} if words else {})}


def _yaml(value: Any, depth: int = 0) -> str:
    """Block style; a scalar or an empty value as JSON, which YAML reads."""
    pad = "  " * depth
    if isinstance(value, Mapping) and value:
        pairs = ((name, _yaml(item, depth + 1)) for name, item in value.items())
        # After a name: a scalar on its line, a block below it.
        return "".join(f"{pad}{name}:" + (f"\n{text}" if text.startswith(" ") else f" {text}") for name, text in pairs)
    if isinstance(value, list | tuple) and value:
        items = (_yaml(item, depth + 1) for item in value)
        return "".join(f"{pad}- {text.lstrip()}" for text in items)
    return _scalar(value) + "\n"


def _scalar(value: Any) -> str:
    """A scalar as YAML 1.1 and JSON both read it; 1e-05 is text to the first."""
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(harmless(value) if isinstance(value, str) else value, ensure_ascii=False)


def write_scalars(run: Run, folder: Path) -> Path:
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
                for name, step, value in scalars(run):
                    log.add_scalar(name, value, step)
                log.add_text("smoothcert/claim", "\n\n".join(_claim_lines(run)))
                log.add_text("smoothcert/settings", f"```json\n{json.dumps(settings(run), indent=2, default=str)}\n```")
            (made,) = Path(place).iterdir()
            return made.replace(folder / made.name)


def _claim_lines(run: Run) -> list[str]:
    claim = run.claim
    said = f"norm {claim.ruler}, guarantee {claim.guarantee}, tested class: {claim.test_class}"
    alpha = "alpha: not stated" if claim.alpha is None else f"alpha {claim.alpha:g} an input"
    missing = filter(None, [unfinished(run)])
    return [f"{said if run.kind == 'certify' else 'predictions, no radii'}, {alpha}", *claim.words, *missing]


def scalars(run: Run) -> list[tuple[str, int, float]]:
    """Tag, step and value of everything that is known; tags of radii say norm, promise and tested class."""
    found = figures(run, [0.0])
    bare = run.claim.guarantee == "none"
    promise = {"none": "NOT_CERTIFIED", "memory": "memory"}.get(run.claim.guarantee, "")
    labels = "true_label" if run.claim.test_class == "labels" else ""
    top = "smoothcert/unfinished" if run.unfinished else "smoothcert"
    radii = "/".join(filter(None, (top, run.claim.norm, run.claim.measure.replace(" ", ""), promise, labels)))
    answers = "/".join(filter(None, (top, labels)))
    values = {
        f"{answers}/accuracy": found.accuracy.value,
        f"{answers}/abstained": found.abstained.value,
        f"{top}/clean_accuracy": found.clean_accuracy.value if found.clean_accuracy else None,
        f"{radii}/{'mean_radius' if bare else 'acr'}": found.acr,
        "smoothcert/draws_an_input": found.mean_draws,
        "smoothcert/seconds": found.seconds,
    }
    made = [(name, 0, value) for name, value in values.items() if value is not None]
    if run.kind == "certify":
        tag = f"{radii}/{'accuracy_at_radius' if bare else 'certified_accuracy'}"
        made += [(tag, step, certified_accuracy(run, step / 1000).value) for step in _steps(run)]
    return made


def _steps(run: Run) -> list[int]:
    """Radii in thousandths: those that were asked for, else evenly up to the largest, and one beyond it."""
    if run.claim.radii is not None:
        return [math.floor(1000 * radius) for radius in run.claim.radii]
    largest = max((row.radius for row in run.rows if row.correct), default=0.0)
    width = max(1, math.ceil(1000 * largest / POINTS))
    return list(range(0, math.floor(1000 * largest) + width + 1, width))
