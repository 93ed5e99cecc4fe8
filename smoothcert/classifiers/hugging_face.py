"""A folder that `save_pretrained` of Hugging Face wrote, as a classifier of inputs in [0,1]: `hf:FOLDER`.

    config.json                  the network: built by transformers, never by code of the folder
    model.safetensors            its weights, or several files with an index; pickles are not opened
    preprocessor_config.json     rescaling and normalisation, which become part of the network

Resizing and cropping stay outside: noise is added to an input of the size that the network sees. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from smoothcert import foreign
from smoothcert.classifiers import digests
from smoothcert.classifiers.class_names import by_number
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.classifiers.module import TOKENS, Module
from smoothcert.classifiers.undisturbed import quiet
from smoothcert.errors import ModelError, reason

PREFIX = "hf:"
CONFIG, PROCESSOR, WEIGHTS = "config.json", "preprocessor_config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
OUTSIDE = ("do_resize", "do_center_crop", "do_convert_rgb", "do_reduce_labels")  # done before, or not to inputs
INSIDE = ("do_rescale", "do_normalize", "do_flip_channel_order")
LARGEST = 2**28  # of any number in a config: none that is meant is larger
HEADS = "…ForImageClassification or …ForAudioClassification"


class Preprocessing(NamedTuple):
    """What happens to inputs in [0,1] inside the network, and the size that they must have."""

    scale: float
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    flipped: bool  # colours in the order blue, green, red
    size: tuple[int, int] | None


class Preprocessed(nn.Module):
    """A network behind its own preprocessing: inputs in [0,1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, how: Preprocessing) -> None:
        super().__init__()
        self.network, self.flipped = network, how.flipped
        mean, std = torch.tensor(how.mean or (0.0,)), torch.tensor(how.std or (1.0,))
        # (scale·x − mean) / std in two operations; scale is 1 but for processors that do not rescale
        self.register_buffer("mean", (mean / how.scale).view(-1, 1, 1))
        self.register_buffer("std", (std / how.scale).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Any:
        """Inputs [batch, channels, height, width] in [0,1] → what the network returns."""
        normal = (x - self.mean) / self.std
        return self.network(normal.flip(1) if self.flipped else normal)


class Waveform(nn.Module):
    """A network of sound behind its feature extractor's normalisation, which makes the scale of inputs irrelevant."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        """Inputs [batch, samples] → what the network returns."""
        centred = x - x.mean(dim=1, keepdim=True)
        return self.network(centred / (centred.square().mean(dim=1, keepdim=True) + 1e-7).sqrt())


def is_saved(folder: Path) -> bool:
    """Whether this is a folder of Hugging Face's: its config names a kind of model."""
    if not foreign.is_regular(folder / CONFIG):
        return False
    try:
        return "model_type" in _table(folder, CONFIG)
    except ModelError:
        return False


def located(spec: str) -> Path:
    """The folder that `hf:FOLDER` names."""
    folder = Path(spec.removeprefix(PREFIX))
    if not foreign.is_folder(folder):
        raise ModelError(
            f"{spec} must name a folder that save_pretrained wrote; there is none (models of the hub: "
            "model.save_pretrained(folder) and processor.save_pretrained(folder) first)"
        )
    return folder


def digest(folder: Path) -> ModelDigest:
    """A hash of the files that decide the scores."""
    return digests.of_files([folder / CONFIG, folder / PROCESSOR, *_weights(folder)])


def load(folder: Path) -> Module:
    """The classifier, with its preprocessing inside; code that the folder names is never run."""
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise ModelError(f"hf:{folder} needs the package transformers (pip install transformers)") from error
    config = _table(folder, CONFIG)
    weights = _weights(folder)
    kind, auto = _auto_class(folder, config)
    processor = _table(folder, PROCESSOR)
    said = _preprocessing(folder, processor) if kind == "image" else None
    if said is None:
        _check_sound(folder, processor)
    network = _network(folder, config, auto, weights)
    shape = None
    if said is not None and said.size is not None:
        shape = (int(getattr(network.config, "num_channels", 0) or len(said.mean or (0, 0, 0))), *said.size)
    whole = Preprocessed(network, said) if said is not None else Waveform(network)
    return Module(whole.eval(), shape=shape, class_names=by_number(config.get("id2label")), about=_about(said))


def _about(said: Preprocessing | None) -> str:
    if said is None:
        return "the model normalises each input by itself, as its feature extractor does"
    steps = [
        f"scaled by {said.scale:g}" if said.scale != 1 else "",
        f"normalised by mean {_numbers(said.mean)} std {_numbers(said.std)}" if said.mean else "",
        "in the order blue, green, red" if said.flipped else "",
    ]
    return f"inside the model inputs are {', '.join(step for step in steps if step) or 'taken as they are'}"


def _numbers(values: tuple[float, ...] | None) -> str:
    return ",".join(f"{value:g}" for value in values or ())


def _table(folder: Path, file: str) -> dict[str, Any]:
    """A description of the folder, which must be there."""
    path = folder / file
    if file == PROCESSOR and not foreign.is_there(path):
        raise ModelError(
            f"'{folder}' must hold {PROCESSOR}, for without its normalisation labels would be wrong; it holds none "
            "(AutoImageProcessor.from_pretrained(name).save_pretrained(folder) writes it)"
        )
    found = foreign.parse_json(foreign.content(path, "description", ModelError), f"'{path}'", ModelError)
    if not isinstance(found, dict):
        raise ModelError(f"'{path}' must be a table; got {type(found).__name__}")
    return found


def _weights(folder: Path) -> list[Path]:
    """The files of weights: one, or the index and the shards that it names, all of them beside it."""
    if not foreign.is_there(folder / INDEX):
        if not foreign.is_there(folder / WEIGHTS):
            pickled = [name for name in ("pytorch_model.bin", "tf_model.h5") if foreign.is_there(folder / name)]
            raise ModelError(
                f"'{folder}' must hold {WEIGHTS}; got {pickled[0] if pickled else 'none'} (load it where you trust it "
                "and write model.save_pretrained(folder) again)"
            )
        return [folder / WEIGHTS]
    named = _table(folder, INDEX).get("weight_map")
    names = sorted({str(name) for name in named.values()}) if isinstance(named, dict) else []
    if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise ModelError(f"'{folder / INDEX}' must name .safetensors files beside it; it does not")
    return [folder / INDEX, *(folder / name for name in names)]


def _auto_class(folder: Path, config: Mapping[str, Any]) -> tuple[str, Any]:
    """What kind of input the network takes, and the class of transformers that builds it."""
    from transformers import AutoModelForAudioClassification, AutoModelForImageClassification
    from transformers.models.auto import modeling_auto as known

    kind, named = str(config.get("model_type")), config.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and len(named) == 1 else "none"
    images = known.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    sounds = known.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES
    for what, names, auto in (
        ("image", images, AutoModelForImageClassification),
        ("sound", sounds, AutoModelForAudioClassification),
    ):
        heads = names.get(kind, ()) if isinstance(kind, str) else ()
        if architecture in ((heads,) if isinstance(heads, str) else heads):
            return what, auto
    if kind in known.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES and "auto_map" not in config:
        raise ModelError(TOKENS.format(f"'{folder}' ({architecture})"))
    raise ModelError(
        f"'{folder}' must hold a classifier that transformers knows, {HEADS}; got {architecture} of type {kind!r} "
        "(code of a folder is not run: for a model of your own give package.module:callable)"
    )


def _network(folder: Path, config: Mapping[str, Any], auto: Any, weights: list[Path]) -> nn.Module:
    """The network with its weights, every one from the folder."""
    from transformers import AutoConfig

    for key in ("quantization_config", "adapter_config"):
        if config.get(key) or foreign.is_there(folder / f"{key}.json"):
            raise ModelError(f"'{folder}' must hold a plain network; got {key} (merge or dequantise it, save it again)")
    _refuse_endless(folder, config, weights)
    how: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        with quiet():
            described = AutoConfig.from_pretrained(str(folder), **how)
            with torch.device("meta"):
                size = sum(one.numel() for one in auto.from_config(described, trust_remote_code=False).parameters())
            if size > sum(foreign.size_of(file, "weights", ModelError) for file in weights):
                raise ModelError(f"it describes {size} parameters, which its weights cannot hold")
            network, found = auto.from_pretrained(
                str(folder), use_safetensors=True, dtype=torch.float32, attn_implementation="eager",
                output_loading_info=True, **how,
            )  # fmt: skip
    except Exception as error:  # transformers raises whatever the files provoke
        raise ModelError(f"'{folder}' must be a model that transformers can load; got: {reason(error)}") from error
    for what in ("missing_keys", "mismatched_keys"):
        if found[what]:
            first = min(map(str, found[what]))
            raise ModelError(f"weights of '{folder}' must be all that its network has; {what[:-5]} is {first}")
    made: nn.Module = network
    return made


def _refuse_endless(folder: Path, config: Mapping[str, Any], weights: list[Path]) -> None:
    """Refuse sizes that nobody means: a network of 10⁸ layers would be built for hours before a weight is missed."""
    from safetensors import safe_open

    tensors = 0
    for file in weights:
        if file.suffix == ".safetensors":
            foreign.size_of(file, "weights", ModelError)
            try:
                with safe_open(file, framework="pt") as held:
                    tensors += len(held.keys())
            except Exception as error:  # foreign bytes can provoke anything
                raise ModelError(f"'{file}' must be a sound safetensors file; got: {reason(error)}") from error
    for key, value in _whole(config):
        counts = any(word in key for word in ("layers", "depth", "blocks", "stages"))
        if value > (tensors if counts else LARGEST):
            raise ModelError(f"{key} of '{folder / CONFIG}' must fit its {tensors} tensors of weights; got {value}")


def _whole(value: Any, key: str = "") -> list[tuple[str, int]]:
    """Every whole number in a table, with the key under which it stands."""
    if isinstance(value, dict):
        return [found for name, inner in value.items() for found in _whole(inner, str(name))]
    if isinstance(value, list):
        return [found for inner in value for found in _whole(inner, key)]
    return [(key, value)] if isinstance(value, int) and not isinstance(value, bool) else []


def _preprocessing(folder: Path, table: Mapping[str, Any]) -> Preprocessing:
    """What the processor of images does to values; a step that is not known is refused."""
    where = f"'{folder / PROCESSOR}'"
    steps = [key for key, value in table.items() if value is True and key.startswith("do_")]
    strange = [key for key in steps if key not in (*OUTSIDE, *INSIDE)]
    strange += [key for key in ("rescale_offset", "include_top") if table.get(key)]
    if strange:
        raise ModelError(
            f"{where} must ask for {', '.join(step[3:] for step in INSIDE)} only; got {strange[0]} (put it into a "
            "network of your own, and give package.module:callable)"
        )
    scale = 255.0 * _number(where, table, "rescale_factor", 1 / 255) if table.get("do_rescale", True) else 255.0
    normal = table.get("do_normalize", "do_flip_channel_order" not in table)  # processors that flip have no such word
    mean, std = (_channels(where, table, key) if normal else None for key in ("image_mean", "image_std"))
    if (std is not None and 0.0 in std) or scale == 0.0:
        raise ModelError(f"image_std and rescale_factor of {where} must not be 0")
    if abs(scale - 1.0) < 1e-6:
        scale = 1.0  # 1/255 of a file has fewer digits
    return Preprocessing(scale, mean, std, table.get("do_flip_channel_order") is True, _size(table))


def _number(where: str, table: Mapping[str, Any], key: str, default: float) -> float:
    value = table.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ModelError(f"{key} of {where} must be a number; got {foreign.shown(value)}")
    return float(value)


def _channels(where: str, table: Mapping[str, Any], key: str) -> tuple[float, ...]:
    value = table.get(key)
    try:
        found: tuple[float, ...] = foreign.typed(tuple[float, ...], value if isinstance(value, list) else [value], key)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{key} of {where} must be a list of numbers; got {foreign.shown(value)}") from error
    if len(found) not in (1, 3):
        raise ModelError(f"{key} of {where} must be one number a channel; got {len(found)}")
    return found


def _size(table: Mapping[str, Any]) -> tuple[int, int] | None:
    """The size of what the processor hands on; None where it leaves that open."""
    crop, size = (table.get(key) for key in ("crop_size", "size"))
    found = crop if crop is not None and table.get("do_center_crop") else size if table.get("do_resize", True) else None
    if isinstance(found, int):
        return found, found
    if not isinstance(found, dict):
        return None
    height, width = (found.get(key, found.get("shortest_edge")) for key in ("height", "width"))
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _check_sound(folder: Path, table: Mapping[str, Any]) -> None:
    """A feature extractor of waveforms must normalise each by itself: on any other, the scale [0,1] would be wrong."""
    kind = table.get("feature_extractor_type")
    if kind != "Wav2Vec2FeatureExtractor" or table.get("do_normalize") is not True:
        raise ModelError(
            f"'{folder / PROCESSOR}' must be of a Wav2Vec2FeatureExtractor with do_normalize; got {kind} (what makes "
            "spectrograms belongs into a network of your own: give package.module:callable)"
        )
