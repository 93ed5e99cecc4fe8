"""Options that several commands share, with one wording, and the parts that their words become."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from smoothcert import catalog
from smoothcert.cli import panels
from smoothcert.data import Subset, class_lines, scale_of
from smoothcert.errors import THREADS, OptionError, require_count, require_room, unknown
from smoothcert.files import require_writable
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.contracts import Noise, Sampling
    from smoothcert.data import FittedScale
    from smoothcert.preparation.per_input_sigma import PerInputSigma


def _some_threads(threads: int | None) -> int | None:
    if threads is not None:
        require_count("a forward pass", most=THREADS, threads=threads)
    return threads


# The model, the data and the noise.
Model = Annotated[str, typer.Argument(help="Load a folder, hf:FOLDER, model file, zoo name or module:callable.")]
Data = Annotated[str, panels.data(help="Read a named data set, an .npz file or a folder of class folders.")]
Skip = Annotated[int, panels.data(help="Take every SKIP-th input.")]
Max = Annotated[int, panels.data(help="Stop before this index; -1 reads to the end.")]
Start = Annotated[int, panels.data(help="Start at this index.")]
Split = Annotated[str, panels.data(help="Read this split of the data.")]
Range = Annotated[str | None, panels.data(help="Give the range lo,hi of the values if it is not 0,1.")]
ImageSize = Annotated[int | None, panels.data(help="Resize and crop a folder's images to this size.")]
Layout = Annotated[str | None, panels.data(help="Set nhwc if the images of an .npz file have channels last.")]
Classes = Annotated[Path | None, panels.data(help="Read the model's class names, one per line or as JSON.")]
ScaleKind = Annotated[
    str | None, panels.data("--scale", help="Scale each feature: minmax, standard, a .json file, or none.")
]
ScaleData = Annotated[str | None, panels.data(help="Fit --scale to this training data (.npz).")]
Shape = Annotated[str, panels.data(help="Give the shape of one input, channels first, such as 3,32,32.")]
Output = Annotated[str | None, panels.what(help="Read the scores from this output of an ONNX file.")]
Binary = Annotated[str | None, panels.what(help="Read a single score as a logit or as a probability.")]
Precision = Annotated[str, panels.what(help="Run a torch network in float32, tf32, bfloat16 or float16.")]
ModelLayout = Annotated[str | None, panels.what(help="Set nhwc if the model takes channels last.")]
Sigma = Annotated[float | None, panels.noise("--sigma", help="Set the noise level sigma, for inputs in [0,1].")]
NoiseName = Annotated[
    str,
    panels.noise("--noise", help="Choose the noise: gaussian, uniform, splitting, discrete, band, block."),
]
NoiseSet = Annotated[list[str] | None, panels.noise("--set", help="Set another option of the noise, as name=value.")]
Arithmetic = Annotated[
    str | None,
    panels.noise(
        help="Compute noise exactly (exact, in steps of 1/255) or in float.", show_default="exact for 8-bit data"
    ),
]

# The test.
Radius = Annotated[float | None, panels.what(help="Certify this radius only, with as few draws as possible.")]
Patch = Annotated[str | None, panels.what(help="Certify only against patches of this size, such as 5 or 3x7 pixels.")]
N0 = Annotated[int, panels.draws("--n0", "--N0", help="Select the class to test with this many draws.")]
Alpha = Annotated[float, panels.draws(help="Bound the probability that an answer is wrong: the significance.")]
Seed = Annotated[int, panels.draws(help="Seed the noise; the same seed gives the same counts.")]
RunSeed = Annotated[str, panels.draws(help="Seed the noise; commit keeps the seed secret until the run is done.")]

# The means.
Engine = Annotated[str, panels.means(help="Run the model by auto, onnxruntime, torch or torch:DEVICE.")]
Threads = Annotated[
    int | None,
    panels.means(callback=_some_threads, help="Use this many threads for a forward pass.", show_default="all cores"),
]

# Runs that are there.
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Read the run in this folder.")]
ModelNow = Annotated[str | None, panels.what("--model", help="Load the model from here if it has moved.")]
DataNow = Annotated[str | None, panels.data("--data", help="Read the data from here if it has moved.")]
MemoryNow = Annotated[str | None, panels.what("--memory", help="Open the memory here if it has moved.")]
ReportRadii = Annotated[
    str | None,
    panels.what("--radii", help="Show these radii, such as 0,0.25,0.5.", show_default="a few, up to the largest"),
]
Tables = Annotated[str | None, panels.means("--tables", help="Lay out tables as text, md or latex.")]
Labels = Annotated[Path, panels.means("--out", help="Write this .npz file, for `smoothcert train --labels`.")]
OnnxOut = Annotated[Path, panels.means("--out", help="Write the network to this .onnx file.")]

# The search for each input's own noise level.
SearchSteps = Annotated[int | None, panels.noise("--steps", help="Search for this many steps.", show_default="900")]
SearchDraws = Annotated[
    int | None,
    panels.noise("--draws", help="Draw this many noisy copies for each step of the search.", show_default="1"),
]
SearchStepSize = Annotated[
    float | None, panels.noise("--step-size", help="Set the length of a step of the search.", show_default="0.0001")
]
SigmaBounds = Annotated[
    str | None,
    panels.noise(help="Search the noise levels from lo to hi, given as lo,hi.", show_default="sigma/4 to 4·sigma"),
]
SigmaSearch = Annotated[str | None, panels.noise(help="Search by ascent (which needs gradients), grid or votes.")]
SearchEvaluations = Annotated[
    int | None,
    panels.noise("--evaluations", help="Let grid and votes draw this many noisy copies in all.", show_default="200"),
]

# A memory of regions beside a run.
Memory = Annotated[
    str | None,
    panels.what(help="Answer from this memory of regions and add to it: file or URL."),
]
MemoryOrder = Annotated[
    str | None,
    panels.what("--order", help="Admit regions by index, reverse, radius or random order.", show_default="index"),
]
Frozen = Annotated[bool, panels.what("--frozen", help="Only answer from --memory: draw nothing, add nothing.")]
AskedMemory = Annotated[str | None, panels.what("--memory", help="Answer from this memory of regions where it can.")]

ALPHA = 0.001  # unless told
T = TypeVar("T")


def numbers(text: str, kind: Callable[[str], T], must: str) -> list[T]:
    """Numbers between commas; refused by saying what they must be."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError(f"{must}; got '{text}'") from error


def parse_range(text: str | None, option: str = "--range") -> tuple[float, float] | None:
    """`lo,hi` → two numbers."""
    if text is None:
        return None
    must = f"{option} must be two numbers lo,hi"
    found = numbers(text, float, must)
    if len(found) != 2:
        raise OptionError(f"{must}; got '{text}'")
    return found[0], found[1]


def parse_radii(radius: float | None, radii: str | None) -> tuple[float, ...]:
    """--radius 0.5 or --radii 0.25,0.5,… as one tuple."""
    if radius is not None and radii is not None:
        raise OptionError("give --radius or --radii, not both")
    if radius is not None:
        return (radius,)
    return tuple(numbers(radii, float, "--radii must be numbers with commas between") if radii is not None else ())


def patched(noise: Noise, patch: str | None, asked: tuple[float, ...]) -> tuple[Noise, tuple[float, ...]]:
    """--patch 5 or 3x7: the noise and the radii that ask about patches of this size."""
    if patch is None:
        return noise, asked
    from smoothcert.noise import sizes

    if noise.patch is None:
        raise OptionError(f"--patch needs a noise against patches, band or block; got {noise.kind}")
    if asked:
        raise OptionError("give one of --patch, --radius and --radii; got two")
    if noise.patch != (1, 1):
        raise OptionError("give --patch or --set patch=…, not both")
    rows, columns = sizes(f"{patch}x{patch}" if patch.isdecimal() else patch, "--patch")
    return (noise, (float(rows),)) if rows == columns else (replace(cast("Any", noise), patch=(rows, columns)), (1.0,))


def parse_seed(text: str) -> int | None:
    """A whole number; None for `commit`."""
    from smoothcert.streams import check_seed

    if text == "commit":
        return None
    if not text.isdecimal() or len(text) > 20:
        raise OptionError(f"--seed must be a whole number from 0 to 2^64 − 1, or commit; got '{text}'")
    return check_seed(int(text))


def parse_shape(text: str) -> tuple[int, ...]:
    """`3,32,32` → the sizes of an input."""
    must = "--shape must be whole numbers above 0, as in 3,32,32"
    sizes = numbers(text, int, must)
    if min(sizes) < 1:
        raise OptionError(f"{must}; got '{text}'")
    require_room("an input", math.prod(sizes), shape=text)
    return tuple(sizes)


def parse_value(text: str) -> Any:
    """A number, a true or false, a list of values between commas, or the text itself."""
    if "," in text:
        return [parse_value(part) for part in text.split(",")]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def named(settings: list[str] | None) -> dict[str, Any]:
    """`name=value` words as options."""
    pairs = [setting.partition("=") for setting in settings or []]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise OptionError(f"--set must be name=value; got '{name}'")
    return {name: parse_value(text) for name, _, text in pairs}


def check_file(out: Path, *endings: str, there: bool = True) -> None:
    """Refuse a file that could not be written in the end, before any work."""
    if out.suffix.lower() not in endings:
        raise OptionError(f"--out must be a file name that ends in {' or '.join(endings)}; got '{out}'")
    if there:
        check_place("--out", out)


def check_place(option: str, path: Path | None) -> None:
    """Refuse a place where no file can be, before any work, and before another file is written."""
    if path is not None and not path.parent.is_dir():
        raise OptionError(f"{option} must be in a folder that exists; got '{path}'")
    if path is not None:
        require_writable(path)


def subset(
    data: str, split: str, skip: int, max: int, range: str | None, image_size: int | None, start: int = 0
) -> Subset:
    """The data options of a command as one value; the text of --range is read here."""
    return Subset(data, split, skip, max, start, parse_range(range), image_size)


def as_given(subset: Subset, layout: str | None, classes: Path | None) -> Subset:
    """The subset, read as these options say."""
    named = None if classes is None else class_lines(classes)
    return replace(subset, layout=cast("Any", layout), classes=named)  # which refuses any other word


def on_scale(subset: Subset, scale: str | None, training: str | None, noise: Noise, memory: bool) -> Subset:
    """The subset, measured on a scale; what goes without saying otherwise is said."""
    from smoothcert.runs.look import refuse_on_scale

    if scale is None:
        if training is not None:
            raise OptionError("--scale-data needs --scale")
        return subset
    refuse_on_scale(noise, memory)
    found = scale_of(scale, training, subset)
    if found.constant:
        remark(f"{subset.name}: {len(found.scale.width)} features{constant_words(found)}")
    return replace(subset, scale=found.scale)


def constant_words(found: FittedScale) -> str:
    """Which features have no scale of their own; nothing where all have one."""
    some = ", ".join(found.constant[:3]) + (", …" if len(found.constant) > 3 else "")
    return f"; constant in the training data, so that one unit is their own: {some}" if some else ""


def sampling_of(
    name: str | None, n: int | None, alpha: float, asked: tuple[float, ...], settings: list[str] | None, noise: Noise
) -> Sampling:
    """The sampling that these options ask for, unless named: spending for known radii, else fixed.

    A noise of few cases is counted, unless a number of draws is given.
    """
    name = name or ("exhaustive" if noise.counted and n is None else "spending" if asked else "fixed")
    fields, given = catalog.fields("sampling", name), named(settings)
    if n is not None and "n" not in fields:
        raise OptionError(f"--n is the number of draws of fixed and runner_up; {name} takes --set cap=… instead")
    if asked and "radii" not in fields:
        raise OptionError(f"{name} finds the largest radius; leave out --radius and --radii, or take spending")
    options: dict[str, Any] = {} if n is None else {"n": n}
    if "alpha" in fields and ("alpha" not in given or alpha != ALPHA):
        options["alpha"] = alpha
    if "radii" in fields and (asked or "radii" not in given):
        options["radii"] = asked
    sampling: Sampling = catalog.build("sampling", name, _together(options, given))
    return sampling


def noise_of(name: str, sigma: float | None, settings: list[str] | None) -> tuple[Noise, list[str]]:
    """The noise that these options ask for, and those of the settings that are not its own."""
    fields = catalog.fields("noise", name)
    own, rest = settings_of("noise", name, settings)
    if sigma is not None and "sigma" not in fields:
        takes = " and ".join(f"--set {field}=…" for field in sorted(fields))
        raise OptionError(f"--sigma is no option of {name} noise, which takes {takes}; got {sigma}")
    noise: Noise = catalog.build("noise", name, _together({} if sigma is None else {"sigma": sigma}, named(own)))
    return noise, rest


def _together(options: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What options and --set say; neither silently wins."""
    for name in options:
        if name in settings:
            raise OptionError(f"give --{name} or --set {name}=…, not both")
    return {**options, **settings}


def settings_of(folder: str, name: str, settings: list[str] | None) -> tuple[list[str], list[str]]:
    """Those of the `name=value` settings that are options of a part, and the others."""
    fields = catalog.fields(folder, name)
    own = [setting for setting in settings or [] if setting.partition("=")[0] in fields]
    return own, [setting for setting in settings or [] if setting not in own]


def only_noise(name: str, sigma: float | None, settings: list[str] | None, whose: str) -> Noise:
    """The noise that these options ask for, where settings can be of nothing else."""
    noise, rest = noise_of(name, sigma, settings)
    if rest:
        raise OptionError(f"--set of {whose} must be an option of {name} noise; got '{rest[0]}'")
    return noise


def preparation_of(
    asked: bool, noise: Noise, options: Mapping[str, Any], bounds: str | None, search: str | None
) -> PerInputSigma | None:
    """The search for each input's noise level, if one is asked for."""
    from smoothcert.preparation.per_input_sigma import PerInputSigma

    low, high = parse_range(bounds, "--sigma-bounds") or (None, None)
    every = {**options, "low": low, "high": high, "search": search}
    given: dict[str, Any] = {name: value for name, value in every.items() if value is not None}
    if not asked:
        if given:
            first = next(iter(given))
            option = {"search": "sigma-search", "low": "sigma-bounds"}.get(first, first.replace("_", "-"))
            raise OptionError(f"--{option} needs --sigma-per-input")
        return None
    climbs_lam = hasattr(noise, "lam") and search in (None, "ascent")
    part = PerInputSigma(**{"steps_in": "lam" if climbs_lam else None, **given})
    part.check(noise)
    return part


def check_memory(
    place: str | None, order: str | None, frozen: bool, noise: Noise, own_levels: bool, against: str
) -> None:
    """Refuse what does not go together, before anything is loaded."""
    from smoothcert.memory import NORMS
    from smoothcert.runs.remember import ORDERS

    if place is None:
        for option in ("--order",) * (order is not None) + ("--frozen",) * frozen:
            raise OptionError(f"{option} needs --memory")
        return
    if noise.norm not in NORMS:
        raise unknown("norm of a noise with --memory", noise.norm, NORMS)
    if against == "labels":
        raise OptionError("--against must not be labels with --memory, which would be told the true labels; got labels")
    if order is not None and order not in ORDERS:
        raise unknown("--order", order, ORDERS)
    if frozen and (order is not None or own_levels):
        option = "--order" if order is not None else "--sigma-per-input"
        raise OptionError(f"give {option} or --frozen, which draws and adds nothing, not both")


def say_noise(noise: Any) -> str:
    """A noise and its options in words."""
    part = catalog.describe(noise)
    said = (f"{name} {_shown(value)}" for name, value in part.items() if name != "name")
    return f"{part['name']} noise ({noise.norm}), " + ", ".join(said)


def _shown(value: Any) -> str:
    """A number, a word, or rows and columns."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return value if isinstance(value, str) else f"{value:g}"
