"""Are model and data those that were certified? Their hashes say."""

from __future__ import annotations

from smoothcert.audit._check import Check
from smoothcert.data import Inputs
from smoothcert.runs.verify import check_files
from smoothcert.spec import Spec


def files(spec: Spec, inputs: Inputs, model_digest: str, changed: str = "") -> Check:
    """Both hashes; `changed` is what a model says that knows that a part of it was replaced."""
    problems = check_files(spec, inputs, model_digest)
    problems += [changed] if changed else []
    return Check("files", 2, "hashes of model and data held against the record", tuple(problems))
