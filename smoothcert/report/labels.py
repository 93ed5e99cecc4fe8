"""Names for the classes of well-known data sets; elsewhere a class is its number."""

from __future__ import annotations

from smoothcert.contracts import ABSTAIN
from smoothcert.runs.run import Run

NAMES = {
    "cifar10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "fashion_mnist": (
        "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
}  # fmt: skip


def class_names(record: Run) -> tuple[str, ...]:
    """The names of a run's classes by their number; none where they are not known, as for a log."""
    question = record.settings.get("question") or {}
    return NAMES.get(str(question.get("data")), ())


def class_name(record: Run, label: int) -> str:
    """One class as it is shown: its name or its number; an abstention names none."""
    names = class_names(record)
    if label == ABSTAIN:
        return "none"
    return names[label] if 0 <= label < len(names) else str(label)
