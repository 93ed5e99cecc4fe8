"""A model that only the caller holds: what it is called, what its hash covers, and the file that can stand for it.

A run of a torch network keeps the network itself, as ONNX: anybody can verify it from the shell. Whatever cannot be
exported is known by its hash, and has to be given again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothcert.classifiers import digests
from smoothcert.classifiers.adapted import BINARY, LAYOUTS, PRECISIONS, Adaptation
from smoothcert.classifiers.composed import HasMembers
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.contracts import Classifier

OBJECT = "python object "  # before the name of a model that was an object, in the place of a path
INNER = ("network", "function", "model")  # where a classifier keeps what its user gave
NOTE = "smoothcert_note"  # what was said of that network
STATE = "smoothcert_state"  # in the metadata of an exported network: a hash of the network that it was made of


def place_of(classifier: Classifier) -> str:
    """What stands for an object where a model's place is told."""
    inner = next((found for name in INNER if (found := getattr(classifier, name, None)) is not None), classifier)
    kind = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{OBJECT}{kind.__module__}.{kind.__qualname__}"


def digest_called(classifier: Classifier, adaptation: Adaptation) -> ModelDigest:
    """A hash of a classifier and of how it is called."""
    return _called(digest_of(classifier), adaptation)


def _called(found: ModelDigest, adaptation: Adaptation) -> ModelDigest:
    options = adaptation.options
    return replace(found, hex=_hash(found.hex, repr(sorted(options.items())))) if options else found


def way_called(classifier: Classifier, offset: tuple[float, ...], width: tuple[float, ...], hashed: str) -> Adaptation:
    """How a classifier was called on this scale, for its hash to be this one; ModelError where it is not the same."""
    found = digest_of(classifier)
    for layout, binary, precision in itertools.product(*(("", *names) for names in (LAYOUTS, BINARY, PRECISIONS))):
        way = Adaptation("", cast("Any", layout), offset, width, cast("Any", binary), cast("Any", precision))
        if _called(found, way).hex == hashed:
            return way
    raise ModelError("model must be the one that was certified; its hash differs")


def digest_of(classifier: Classifier) -> ModelDigest:
    """A hash of a classifier as it is now: weights and source of networks, or the source of a callable."""
    from smoothcert.classifiers.estimator import Estimator
    from smoothcert.classifiers.module import Module
    from smoothcert.classifiers.onnx import Onnx

    if isinstance(classifier, Module):
        return ModelDigest(state_of(classifier), "weights")
    if isinstance(classifier, Onnx):
        said = repr(sorted(classifier.adaptation.options.items()))
        return ModelDigest(_hash(classifier.digest, said), "weights")
    if isinstance(classifier, Estimator):
        return replace(digests.of_object(classifier.model), covers="weights")
    if isinstance(classifier, HasMembers):
        inside = [digest_of(member) for member in classifier.members]
        parts = [_hash(*(found.hex for found in inside)), type(classifier).__qualname__, _settings(classifier)]
        whole = all(found.covers == "weights" for found in inside)
        return ModelDigest(_hash(*parts), "weights" if whole else "source")
    return digests.of_object(getattr(classifier, "function", classifier))


def state_of(classifier: Any) -> str:
    """A hash of a torch network: its layers, weights and buffers, and the source of its class.

    A file holds the classes of layers, too; of a network that was typed into a notebook, each is looked at.
    """
    kinds = {type(part) for part in classifier.network.modules()} - {type(classifier.network)}
    typed = sorted(digests.of_object(kind).hex for kind in kinds if digests.source_file(kind) is None)
    return _hash(classifier.state(), digests.of_object(type(classifier.network)).hex, *typed)


def exported(classifier: Any, example: Tensor) -> bytes:
    """A torch network as an ONNX file that says what it was made of; ModelError where it cannot be exported."""
    import onnx

    from smoothcert.classifiers import try_once
    from smoothcert.classifiers.onnx import from_network

    try_once(classifier, example)
    content = from_network(classifier.exportable, example).content
    if content is None:
        raise ModelError("not exportable to ONNX (nothing was written)")
    network = onnx.load_model_from_string(content)
    said = {NOTE: classifier.note} if classifier.note else {}
    if names := getattr(classifier, "class_names", ()):
        said["class_names"] = json.dumps(list(names))
    onnx.helper.set_model_props(network, {STATE: state_of(classifier), **said})
    written: bytes = network.SerializeToString()
    return written


def stands_for(path: Path, classifier: Any) -> bool:
    """Whether this file was made of this network as it is now."""
    from smoothcert.classifiers.onnx import Onnx

    return Onnx(path).metadata.get(STATE) == state_of(classifier)


def _settings(classifier: Any) -> str:
    """The fields of a classifier of several that are plain values."""
    if not dataclasses.is_dataclass(classifier):
        return ""
    fields = {field.name: getattr(classifier, field.name) for field in dataclasses.fields(classifier)}
    plain = (int, float, str, bool, tuple, type(None))
    return repr({name: value for name, value in fields.items() if isinstance(value, plain) and name != "members"})


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
