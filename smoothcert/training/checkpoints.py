"""Checkpoints: a folder of `weights.safetensors`, `config.json` and, while training can go on, `state.pt`.

    config.json           architecture and options, shape, classes, data, settings, epoch, accuracy under noise
    weights.safetensors   every parameter and buffer, normalisation among them
    state.pt              all that training needs to go on: weights, optimiser, running average, σ by example, config

Each file is replaced atomically. A kill between two of them is harmless: `state.pt` is whole by itself and comes first,
and whoever goes on training publishes it again.
Weights that others saved are read too: Cohen's `{arch, state_dict}` files and bare `.safetensors` of CIFAR residual
networks.
"""

import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from smoothcert import catalog, foreign, zoo
from smoothcert.errors import ModelError, SmoothcertError, reason
from smoothcert.files import write_whole

_Moments: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of the channels

WEIGHTS, CONFIG, STATE = "weights.safetensors", "config.json", "state.pt"
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and standard deviation of its channels, in [0,1]
_VALUES = 2**28  # of one input, and classes
_OPTIONS = 2**14  # the largest depth or width that a config may name, and the length of all options together
_BARE = ("conv1", "bn1", "layer1", "layer2", "layer3", "linear")  # how names of bare weights begin
_OPTIONAL = ("num_batches_tracked", "normalise.mean", "normalise.std")  # others keep normalisation outside the weights


def save(folder: Path, network: nn.Module, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a checkpoint; `config` must hold what `read_network` needs, `state` what training needs to go on."""
    content = io.BytesIO()
    torch.save({**state, "config": json.dumps(config)}, content)
    write_whole(folder / STATE, content.getvalue())
    publish(folder, plain(network), config)


def plain(network: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer, on the CPU, as files hold them."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def publish(folder: Path, weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write the two files that make a network, weights first: a config stands for weights that are there."""
    write_whole(folder / WEIGHTS, to_bytes(dict(weights), metadata={"format": "pt"}))
    write_whole(folder / CONFIG, json.dumps(config, indent=2, allow_nan=False).encode() + b"\n")


class NetworkConfig(NamedTuple):
    """What config.json must say for its network to be built."""

    arch: str
    arch_options: Mapping[str, Any]
    shape: tuple[int, ...]
    classes: int


def read_config(folder: Path) -> dict[str, Any]:
    """What the checkpoint says about itself; `settings` are a table, which may be empty."""
    path = folder / CONFIG
    if not foreign.is_there(path):
        raise ModelError(f"model '{folder}' must be a checkpoint folder with {CONFIG}; got none")
    config = foreign.parse_json(foreign.content(path, "config", ModelError), f"'{path}'", ModelError)
    held = config.keys() if isinstance(config, dict) else ()
    missing = [key for key in NetworkConfig._fields if key not in held]
    if missing:
        raise ModelError(f"'{path}' must say {', '.join(missing)}; got another kind of file")
    config.setdefault("settings", {})
    try:
        _bounded(foreign.typed(NetworkConfig, {key: config[key] for key in NetworkConfig._fields}))
        foreign.typed(Mapping[str, Any], config["settings"], "settings")
    except (TypeError, ValueError) as error:
        raise ModelError(f"'{path}' must describe a network; got one whose {error}") from error
    return cast("dict[str, Any]", config)


def _bounded(network: NetworkConfig) -> None:
    """Refuse sizes that nobody means, before a network of them is made."""
    if not network.shape or min(network.shape) < 1 or math.prod(network.shape) > _VALUES:
        raise ValueError(f"shape must be of 1 to {_VALUES} values; got {list(network.shape)}"[:200])
    if not 1 <= network.classes <= _VALUES:
        raise ValueError(f"classes must be from 1 to {_VALUES}; got {network.classes}")
    listed = str(dict(network.arch_options))
    numbers = [value for value in network.arch_options.values() if isinstance(value, int)]
    if len(listed) > _OPTIONS or max(numbers, default=0) > _OPTIONS or re.search(r"\d{5}", network.arch):
        raise ValueError(f"arch and its options must be short, with numbers up to {_OPTIONS}; got larger ones")


def read_network(folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network of a checkpoint folder, in eval mode on the CPU, and its config."""
    config, path = read_config(folder), folder / WEIGHTS
    weights = read_tensors(path)[0]
    with torch.device("meta"):  # names and shapes first: a config can describe more than any memory holds
        check_fit(build(config, str(folder / CONFIG), len(weights)), weights, str(path))
    network = build(config, str(folder / CONFIG))
    fill(network, weights, str(path))
    return network.eval(), config


def read_state(folder: Path) -> dict[str, Any]:
    """Weights, optimiser state and config, to go on training."""
    state = load_pickle(folder / STATE)
    if not isinstance(state, dict) or not {"weights", "optimiser", "config"} <= state.keys():
        raise ModelError(f"'{folder / STATE}' must be the state of a training; got another kind of file")
    if not isinstance(state["config"], str):
        raise ModelError(f"config of '{folder / STATE}' must be JSON; got {type(state['config']).__name__}")
    config = foreign.parse_json(state["config"], f"config of '{folder / STATE}'", ModelError)
    if not isinstance(config, dict) or not isinstance(config.get("settings"), dict):
        raise ModelError(f"config of '{folder / STATE}' must be a table with settings; got another kind of file")
    return {**state, "config": config}


def read_any(path: str | Path) -> nn.Module:
    """The network, in eval mode, of a checkpoint folder, a `.safetensors` or legacy `.pth.tar` file, or of the zoo."""
    path = zoo.located(path)
    read = read_network if path.is_dir() else read_bare if path.suffix == ".safetensors" else read_legacy
    return read(path)[0]


def build(config: Mapping[str, Any], whom: str, tensors: int | None = None) -> nn.Module:
    """The untrained network that a config describes; of so many tensors, a layer needs at least one."""
    try:
        shape = tuple(int(size) for size in config["shape"])
        part = catalog.build("architectures", str(config["arch"]), config["arch_options"])
        layers = max(getattr(part, "depth", 0), getattr(part, "hidden", 0))
        if tensors is not None and layers > tensors:
            raise ModelError(f"its {layers} layers must have weights; got {tensors} tensors")
        return cast(nn.Module, part.build(shape, config["classes"]))
    except SmoothcertError as error:
        raise ModelError(f"'{whom}' must describe a network: {reason(error)}") from error
    except (TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, MemoryError, StopIteration) as error:
        raise _damaged(Path(whom), error) from error


def check_fit(network: nn.Module, weights: Mapping[str, Tensor], whom: str, optional: tuple[str, ...] = ()) -> None:
    """Weights by name and shape; only those whose name ends in one of `optional` may be missing."""
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in weights and not name.endswith(optional or ("\0",))]
    extra = [name for name in weights if name not in wanted]
    wrong = [name for name, tensor in weights.items() if name in wanted and tensor.shape != wanted[name].shape]
    for what, names in (("has no", missing), ("also has", extra), ("has another shape of", wrong)):
        if names:
            raise ModelError(f"weights of '{whom}' must fit the network by name and shape; it {what} {names[0]}")


def fill(network: nn.Module, weights: Mapping[str, Tensor], whom: str, optional: tuple[str, ...] = ()) -> None:
    """Load weights that fit."""
    check_fit(network, weights, whom, optional)
    broken = [name for name, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        raise ModelError(f"weights of '{whom}' must be finite; got NaN or infinity in {broken[0]}")
    network.load_state_dict({**network.state_dict(), **weights})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a `.safetensors` file, which cannot hold more than its own size."""
    if not foreign.is_there(path):
        raise ModelError(f"weights '{path}' must exist; got no such file")
    _refuse_large(path, foreign.size_of(path, "weights", ModelError))
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except Exception as error:  # foreign bytes can provoke anything
        raise _damaged(path, error) from error


def load_pickle(path: Path) -> Any:
    """The content of a torch file; tensors and plain values only, so that a file cannot run code."""
    if not foreign.is_there(path):
        raise ModelError(f"'{path}' must exist; got no such file")
    _refuse_large(path, size := foreign.size_of(path, "model", ModelError))
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:  # torch packs nothing: what unpacks to more is a bomb
                _refuse_large(path, sum(entry.file_size for entry in archive.infolist()), size)
        return torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except Exception as error:  # torch raises whatever the bytes provoke
        raise _damaged(path, error) from error


def _refuse_large(path: Path, size: int, largest: int | None = None) -> None:
    most = foreign.memory_share() if largest is None else largest
    if size > most:
        raise ModelError(f"'{path}' must hold at most {most} bytes; got {size}")


def _states(path: Path, saved: Any) -> dict[str, Tensor]:
    """The tensors of a state_dict. One value can stand for 10¹²: none may hold more than the file does."""
    size = foreign.size_of(path, "model", ModelError)
    if not isinstance(saved, dict) or not all(isinstance(name, str) for name in saved):
        raise ModelError(f"state_dict of '{path}' must be tensors by name; got another kind of value")
    for name, tensor in saved.items():
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise ModelError(f"{name} of '{path}' must be a plain tensor; got {type(tensor).__name__}")
        _refuse_large(path, tensor.numel() * tensor.element_size(), size)
    return saved


def read_legacy(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A `.pth.tar` of locuslab/smoothing and its kin: Sequential(NormalizeLayer, resnet), arch cifar_resnetN."""
    saved = load_pickle(path)
    if not isinstance(saved, dict) or not {"arch", "state_dict"} <= saved.keys():
        raise ModelError(f"model '{path}' must be a file of arch and state_dict; got another kind of file")
    match = re.fullmatch(r"(cifar_)?resnet(\d{1,4})", str(saved["arch"])[:40])
    if match is None:
        raise ModelError(f"arch of '{path}' must be cifar_resnet20, resnet50 or alike; got '{str(saved['arch'])[:40]}'")
    states = _states(path, saved["state_dict"])
    # The names inside the residual network, without Sequential's "1." and DataParallel's "module.".
    weights = {re.sub(r"^(module\.)?(1\.)?(module\.)?", "", name): own for name, own in states.items()}
    if match[1] is not None:
        named = {re.sub(r"^fc\.", "linear.", name): tensor for name, tensor in weights.items()}
        return _cifar(path, named, catalog.find("data", "cifar10")[0].normalisation, expected=int(match[2]))
    if "fc.weight" not in weights or weights["fc.weight"].ndim != 2:
        raise ModelError(f"weights of '{path}' must be of an ImageNet resnet (conv1, layer1…4, fc); got other names")
    known = {"arch": saved["arch"], "shape": [3, 224, 224], "classes": len(weights["fc.weight"]), "data": "imagenet"}
    return _filled(path, weights, IMAGENET, known)


def read_bare(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A `.safetensors` file of a CIFAR residual network whose metadata name its normalisation; depth from its keys."""
    weights, metadata = read_tensors(path)
    said = re.fullmatch(r"mean ([\d.,]+) std ([\d.,]+)", metadata.get("normalisation", ""))
    lacking = [part for part in _BARE if not any(name.startswith(f"{part}.") for name in weights)]
    extra = [name for name in weights if name.split(".")[0] not in (*_BARE, "normalise")]
    wrong = [] if said else ["no such normalisation"]
    wrong += [f"nothing called {', '.join(lacking)}"] if lacking else []
    wrong += [f"{extra[0][:80]}{f' and {len(extra) - 1} more' * (len(extra) > 1)} besides"] if extra else []
    if said is None or wrong:
        raise ModelError(
            f"weights in '{path}' must be those of a CIFAR resnet and no others ({', '.join(_BARE)}), with metadata "
            f"normalisation 'mean a,b,c std d,e,f' of inputs in [0,1]; got {'; '.join(wrong)}; any other network: "
            "export it to ONNX"
        )
    try:
        mean, std = (tuple(float(number) for number in part.split(",")) for part in said.groups())
    except ValueError as error:
        raise ModelError(f"normalisation of '{path}' must be numbers; got '{said[0]}'") from error
    return _cifar(path, weights, (mean, std))


def _cifar(
    path: Path, weights: Mapping[str, Tensor], normalisation: _Moments, expected: int | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    blocks = {name.split(".")[1] for name in weights if name.startswith("layer1.")}
    depth = 6 * len(blocks) + 2
    sides = [weights[name].ndim if name in weights else 0 for name in ("conv1.weight", "linear.weight")]
    if not blocks or sides != [4, 2]:
        raise ModelError(f"weights of '{path}' must be of a CIFAR resnet (conv1, layer1…3, linear); got other names")
    if expected is not None and depth != expected:
        raise ModelError(f"weights of '{path}' must have the depth its arch says, {expected}; got {depth}")
    shape, classes = [int(weights["conv1.weight"].shape[1]), 32, 32], int(weights["linear.weight"].shape[0])
    known = {"arch": f"resnet{depth}", "shape": shape, "classes": classes, "data": "cifar10"}
    shortcut = "conv" if any(".downsample." in name for name in weights) else "pad"
    return _filled(path, weights, normalisation, known, shortcut=shortcut)


def _filled(
    path: Path, weights: Mapping[str, Tensor], normalisation: _Moments, known: Mapping[str, Any], **options: str
) -> tuple[nn.Module, dict[str, Any]]:
    mean, std = normalisation
    config = {**known, "arch_options": {**options, "mean": list(mean), "std": list(std)}}
    with torch.device("meta"):
        check_fit(build(config, str(path)), weights, str(path), _OPTIONAL)
    network = build(config, str(path))
    fill(network, weights, str(path), optional=_OPTIONAL)
    return network.eval(), config


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(f"'{path}' must be a sound checkpoint file; got: {reason(error)}")
