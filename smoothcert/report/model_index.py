"""A run's figures as the `model-index` block of a model card on the Hugging Face hub: YAML between two lines of dashes.

Shares are fractions. Every metric says under which noise, budget and alpha it holds: a certified accuracy without them
means little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothcert.errors import RunError
from smoothcert.report.metrics import Figures, Share, figures, radius_name
from smoothcert.report.question import part
from smoothcert.runs.run import Run


def block(record: Run, radii: list[float] | None = None) -> str:
    """The block, to be put at the head of README.md."""
    if not record.settings:
        raise RunError(f"run {record.name} must say which model and data it is of; got a log, which does not")
    question = record.settings["question"]
    found = figures(record, radii)
    data = {"name": Path(question["data"]).name, "type": Path(question["data"]).name, "split": question["split"]}
    result = {"task": {"type": "image-classification"}, "dataset": data, "metrics": _metrics(record, found)}
    index = [{"name": Path(question["model"]).name, "results": [result]}]
    return f"---\nmodel-index:\n{_yaml(index)}---\n"


def _metrics(record: Run, found: Figures) -> list[dict[str, Any]]:
    settings = _settings(record, found)
    made = []
    for radius, share in found.certified_accuracy.items():
        if share is not None:
            name = f"certified accuracy at {record.norm} radius {radius_name(radius)}"
            made.append(_share("certified_accuracy", name, share, {"radius": radius, **settings}))
    if found.acr is not None:
        ends = {"interval": list(found.acr_interval)} if found.acr_interval else {}
        name = f"average certified {record.norm} radius"
        made.append({"type": "acr", "name": name, "value": found.acr, "args": {**ends, **settings}})
    if found.clean_accuracy is not None:
        made.append(_share("accuracy", "accuracy of the network without noise", found.clean_accuracy, {}))
    if record.kind == "predict":
        made.append(_share("accuracy", "accuracy of the smoothed classifier", found.accuracy, settings))
    return made


def _share(kind: str, name: str, share: Share, settings: Mapping[str, Any]) -> dict[str, Any]:
    around = {"interval": list(share.interval), "inputs": share.of}
    return {"type": kind, "name": name, "value": share.value, "args": {**settings, **around}}


def _settings(record: Run, found: Figures) -> dict[str, Any]:
    parts = {name: dict(part(record, name)) for name in ("noise", "procedure", "sampling", "preparation")}
    known = {name: settings for name, settings in parts.items() if settings}
    return {"norm": record.norm, **known, **({"says": list(found.question.words)} if found.question.words else {})}


def _yaml(value: Any, depth: int = 0) -> str:
    """Block style; a scalar or an empty value as JSON, which YAML reads."""
    pad = "  " * depth
    if isinstance(value, Mapping) and value:
        pairs = ((name, _yaml(item, depth + 1)) for name, item in value.items())
        return "".join(f"{pad}{name}:{_after(text)}" for name, text in pairs)
    if isinstance(value, list | tuple) and value:
        items = (_yaml(item, depth + 1) for item in value)
        return "".join(f"{pad}- {text.lstrip()}" for text in items)
    return json.dumps(value, ensure_ascii=False) + "\n"


def _after(text: str) -> str:
    """What follows a name: a scalar on its line, a block below it."""
    return f"\n{text}" if text.startswith(" ") else f" {text}"
