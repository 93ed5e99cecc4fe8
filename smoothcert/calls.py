"""`smoothcert.certify` and `smoothcert.predict`: a whole data set from Python, with the command's engine and evidence.

>>> run = smoothcert.certify(network, (x, y), sigma=0.25, out="runs/mine")
>>> run.figures([0.0, 0.25, 0.5])
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from smoothcert import foreign
from smoothcert.arguments import checked
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.composite import NETWORK
from smoothcert.classifiers.objects import digest_called, exported, place_of, stands_for
from smoothcert.contracts import Classifier, Noise, Procedure, Sampling, TestClass
from smoothcert.data import Inputs, Scale, Subset, class_lines, fitted_scale, given, scale_of
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.files import write_whole, writing
from smoothcert.held import HeldRun, open_run
from smoothcert.noise import as_noise
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.progress import remark, run_bar
from smoothcert.runs import look
from smoothcert.runs.remember import MemoryUse
from smoothcert.runs.run import INPUTS
from smoothcert.runs.start import ModelObject, Networks, Resources, RunRequest, adapted_model, settled, start
from smoothcert.runs.store import MODEL
from smoothcert.smoothed import Arithmetic, Smoothed, as_classifier, sampling_for

if TYPE_CHECKING:
    from smoothcert.data import Array
    from smoothcert.preparation.per_input_sigma import PerInputSigma

SUBSET = {"split", "skip", "start", "max", "image_size", "value_range", "layout", "classes"}
OF_OBJECTS = {"max", "layout", "classes"}  # of these, what inputs given as objects can have
SCALE, CALLED = ("scale", "scale_data"), ("output", "model_layout", "binary", "precision")


@checked
def certify(
    model: Any,
    data: Any,
    sigma: float | None = None,
    radius: float | Sequence[float] | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    labels: Any = None,
    noise: Noise | None = None,
    n: int = 100_000,
    n0: int = 100,
    alpha: float = 0.001,
    sampling: Sampling | None = None,
    against: TestClass = "guess",
    seed: int | None = 0,
    arithmetic: Arithmetic = None,
    preparation: PerInputSigma | None = None,
    memory: str | Path | None = None,
    batch: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    **more: Any,
) -> HeldRun:
    """Certify every input: its label cannot change within the radius found, except with probability alpha.

    model: a torch module in eval mode, a callable, or what `smoothcert.load` takes or gives.
    data: arrays (x, y), uint8 or floats in [0,1]; a torch Dataset or DataLoader; a data set's name, an .npz file, or a
        folder of class folders with images.
    sigma: standard deviation of Gaussian noise. noise: another one, as `smoothcert.Uniform(sigma=0.5)`.
    radius: test this radius only, or several rising ones, with as few draws as possible.
    out: folder of the run; an unfinished one is continued. Without it the run is gone with the object, unless saved.
    progress: show a bar where it takes more than a moment.
    labels: of data that is an array of inputs alone.
    n, n0: draws that test the class, and draws that choose it. alpha: the probability that one certificate is wrong.
        Of a noise with few cases, as `smoothcert.Band(width=4)`, each is counted instead: nothing is left to chance.
    sampling: how to draw, in the place of radius, n and alpha. against: class to test: guess, leader or labels.
    seed: keys all noise; None: secret, and committed to, until the run is complete.
    arithmetic: exact or float; None: exact for 8-bit data.
    preparation: a search for each input's own noise level, as `PerInputSigma()`. memory: a memory of regions to answer
        from and add to.
    batch, engine, threads: rows of a forward pass; auto, onnxruntime, torch or torch:DEVICE; threads of a pass.
    more: split, skip, start, max, image_size, value_range, layout and classes (names of the model's classes by number,
        or a file of them) as options of the command; of data given as objects only max, layout and classes. scale:
        features on scales of their own, minmax or standard, fitted on scale_data (training inputs), a file.json, or
        none; σ and radii are then in its units. output, model_layout, binary: how a model in a file is called.
        precision: float32, tf32, bfloat16 or float16, of a torch network; it is part of what is certified.
    """
    under = _noise(sigma, noise)
    scheme = sampling_for(radius, n, alpha, sampling, under)
    question = Question(under, Certify(n0, scheme, against), seed, arithmetic, preparation, memory)
    return _carried_out(question, model, Given(data, labels, more), out, progress, Resources(batch, engine, threads))


@checked
def predict(
    model: Any,
    data: Any,
    sigma: float | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    labels: Any = None,
    noise: Noise | None = None,
    n: int = 1000,
    alpha: float = 0.001,
    seed: int | None = 0,
    arithmetic: Arithmetic = None,
    batch: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    **more: Any,
) -> HeldRun:
    """Predict every input with the smoothed classifier, which abstains where n draws cannot tell two classes apart.

    Arguments are those of `certify`; there are no radii.
    """
    question = Question(_noise(sigma, noise), Predict(n, alpha), seed, arithmetic)
    return _carried_out(question, model, Given(data, labels, more), out, progress, Resources(batch, engine, threads))


class Given(NamedTuple):
    """Data as they were given: an object with its labels, or a name, and what else was said of it."""

    data: Any
    labels: Any
    more: dict[str, Any]

    @property
    def named(self) -> bool:
        """Whether it is the name of a data set, or a path."""
        return isinstance(self.data, str | Path)


@dataclass(frozen=True)
class Question:
    """What is asked of every input."""

    noise: Noise
    procedure: Procedure
    seed: int | None
    arithmetic: Arithmetic
    preparation: PerInputSigma | None = None
    memory: str | Path | None = None


def _noise(sigma: float | None, noise: Noise | None) -> Noise:
    if (sigma is None) == (noise is None):
        got = "neither" if sigma is None else "both"
        raise OptionError(f"one of sigma, as in sigma=0.25, and noise must be given; got {got}")
    return as_noise(noise if sigma is None else sigma)


def _carried_out(
    question: Question, model: Any, data: Given, out: str | Path | None, progress: bool, resources: Resources
) -> HeldRun:
    """The run of this question, in a folder, which is a temporary one without `out`."""
    if isinstance(model, Smoothed):
        raise OptionError(
            f"model must be a network; got {type(model).__name__}, which is smoothed: call its certify_all, or give "
            "what it is made of (of one network its .classifier)"
        )
    if out is not None and not str(out).strip(". "):
        raise OptionError(f"out must be a folder for the run; got '{out}'")
    if question.preparation is not None and not hasattr(question.preparation, "check"):
        got = type(question.preparation).__name__
        raise OptionError(f"preparation must be a search such as PerInputSigma(); got {got}")
    temporary = tempfile.TemporaryDirectory(prefix="smoothcert-") if out is None else None
    folder = Path(temporary.name) / "run" if temporary else Path(out or "").expanduser()
    classifier = None if isinstance(model, str | Path) else as_classifier(model)
    with _unless_begun(folder):
        subset, say = _subset(data, folder, question), remark if progress else lambda line: None
        inputs, called = subset.load(), _adaptation(subset, data.more)
        asked: str | Networks | ModelObject = adapted_model(str(model), called) if called.options else str(model)
        if classifier is not None:
            climbs = getattr(question.preparation, "search", "") == "ascent"  # which needs the network's own gradients
            place = None if climbs else folder
            asked = _kept(classifier, called, inputs, place, resources)
        memory = None if question.memory is None else MemoryUse(question.memory, "index")
        ask = RunRequest(asked, subset, question.noise, question.procedure, question.seed, question.preparation, memory)
        ask, _ = settled(ask, inputs, folder, question.arithmetic)
        watch = run_bar(f"{question.procedure.kind} {inputs.name}") if progress else None
        start(ask, inputs, folder, resources, watch, say)
    held = classifier if isinstance(asked, ModelObject) else None
    return HeldRun.of(open_run(folder), model=held, temporary=temporary)


@contextlib.contextmanager
def _unless_begun(folder: Path) -> Iterator[None]:
    """A question that is refused leaves nothing behind in a folder that it made."""
    made = not folder.exists()
    try:
        yield
    except BaseException:
        if made and not (folder / "recipe.toml").exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _subset(data: Given, folder: Path, question: Question) -> Subset:
    """The inputs as a run can name them: by name or path, or kept in its own folder."""
    if extra := set(data.more) - {*SUBSET, *SCALE, *CALLED}:
        raise OptionError(f"certify and predict must be given arguments that they have; got {min(extra)}")
    if data.named and data.labels is not None:
        raise OptionError("labels must come with an array of inputs; got them with the name of data")
    own = {name: value for name, value in data.more.items() if name in SUBSET}
    if not data.named and (extra := set(own) - OF_OBJECTS):
        raise OptionError(f"{min(extra)} is for named data; got an object: slice its arrays instead")
    if isinstance(names := own.get("classes"), str | Path):
        own["classes"] = class_lines(Path(names))
    subset = _typed(str(data.data) if data.named else str(folder / INPUTS), own)
    scale = _scale(data, subset)
    if scale is not None:
        look.refuse_on_scale(question.noise, question.memory is not None)
    subset = replace(subset, scale=scale)
    if not data.named:
        most = None if subset.max == -1 else subset.max
        x, y = given(data.data, data.labels, most, ranged=scale is None)
        _keep_inputs(folder, x, y)
        subset = replace(subset, max=-1)
    return subset


def _scale(data: Given, subset: Subset) -> Scale | None:
    kind, training = (data.more.get(name) for name in SCALE)
    if kind is None:
        if training is not None:
            raise OptionError("scale_data needs a scale, such as scale='standard'; got none")
        return None
    if isinstance(kind, Scale):
        return kind
    if not isinstance(kind, str | Path):
        raise OptionError(f"scale must be minmax, standard, none, a file.json or a Scale; got {type(kind).__name__}")
    if training is None or isinstance(training, str | Path):
        return scale_of(str(kind), None if training is None else str(training), subset).scale
    return fitted_scale(str(kind), training)


def _adaptation(subset: Subset, more: dict[str, Any]) -> Adaptation:
    """How the model is called: in its own units, and as was asked."""
    scale, said = subset.scale or Scale("none"), [more.get(name) or "" for name in CALLED]
    if not all(isinstance(one, str) for one in said):
        raise OptionError(f"{', '.join(CALLED)} must be text; got something else")
    output, layout, binary, precision = (cast("Any", "" if one == "float32" else one) for one in said)
    return Adaptation(output, layout, scale.offset, scale.width, binary, precision)


def _keep_inputs(folder: Path, x: Array, y: Array) -> None:
    """Inputs in the folder of their run; refused where others are there."""
    import numpy as np

    path = folder / INPUTS
    if path.exists():
        with np.load(path) as stored:
            same = np.array_equal(stored["x"], x) and np.array_equal(stored["y"], y)
        if not same:
            raise RunError(f"{folder} is a run of other inputs; choose another out")
        return
    _refuse_others(folder)
    packed = io.BytesIO()
    np.savez(packed, x=x, y=y)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, packed.getvalue())


def _typed(spec: str, options: dict[str, Any]) -> Subset:
    try:
        found: Subset = foreign.typed(Subset, {"spec": spec, **options})
    except (TypeError, ValueError) as error:
        raise OptionError(f"data of certify and predict must be a subset; got another: {error}") from error
    return found


def _refuse_others(folder: Path) -> None:
    """Nothing is written into a folder that is no run, nor into a run of named data."""
    from smoothcert.runs.store import refuse_strangers

    refuse_strangers(folder)
    if (folder / "recipe.toml").exists():
        raise RunError(f"{folder} is a run of other inputs; choose another out")


def _kept(
    classifier: Classifier, called: Adaptation, inputs: Inputs, folder: Path | None, resources: Resources
) -> Networks | ModelObject:
    """A torch network is kept in the run's folder as ONNX; another object, or without one, is known by its hash."""
    import torch

    from smoothcert.classifiers.module import Module

    on_torch = bool(called.precision) or (resources.engine == "auto" and torch.cuda.is_available())
    if folder and isinstance(classifier, Module) and resources.engine in ("auto", "onnxruntime") and not on_torch:
        path = folder / MODEL / NETWORK
        try:
            if path.exists() and not stands_for(path, classifier):
                raise RunError(f"{folder} is a run of another model, or of other weights; choose another out")
            if not path.exists() and not (folder / "recipe.toml").exists():
                content = exported(classifier, inputs.tensor(0))
                with writing(folder):
                    path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
            if path.exists():
                return adapted_model(str(path), called)
        except ModelError:
            if resources.engine == "onnxruntime":
                raise
    whole = adapted(classifier, called)
    return ModelObject(whole, place_of(classifier), digest_called(classifier, called), called.options)
