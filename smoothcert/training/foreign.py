"""Weights that others saved: Cohen's `{arch, state_dict}` files and bare `.safetensors` of CIFAR residual networks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from smoothcert.data.cifar10 import Cifar10
from smoothcert.errors import ModelError
from smoothcert.training.checkpoints import build, fill, load_pickle, read_tensors

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and standard deviation of its channels, in [0,1]
_OPTIONAL = ("num_batches_tracked", "normalise.mean", "normalise.std")  # others keep normalisation outside the weights


def read_legacy(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A `.pth.tar` of locuslab/smoothing and its kin: Sequential(NormalizeLayer, resnet), arch cifar_resnetN."""
    saved = load_pickle(path)
    if not isinstance(saved, dict) or not {"arch", "state_dict"} <= saved.keys():
        raise ModelError(f"model '{path}' must be a file of arch and state_dict; got another kind of file")
    match = re.fullmatch(r"(cifar_)?resnet(\d+)", str(saved["arch"]))
    if match is None or not isinstance(saved["state_dict"], dict):
        raise ModelError(f"arch of '{path}' must be cifar_resnet20, resnet50 or alike; got '{saved['arch']}'")
    weights = {_inner(name): tensor for name, tensor in saved["state_dict"].items()}
    if match[1] is None:
        return _imagenet(path, weights, str(saved["arch"]))
    named = {re.sub(r"^fc\.", "linear.", name): tensor for name, tensor in weights.items()}
    return _resnet(path, named, Cifar10.normalisation, expected=int(match[2]))


def read_bare(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A `.safetensors` file of a CIFAR residual network whose metadata name its normalisation; depth from its keys."""
    weights, metadata = read_tensors(path)
    said = re.fullmatch(r"mean ([\d.,]+) std ([\d.,]+)", metadata.get("normalisation", ""))
    if said is None:
        raise ModelError(
            f"metadata of '{path}' must hold normalisation 'mean a,b,c std d,e,f' (in [0,1]); got nothing of the kind"
        )
    try:
        mean, std = (tuple(float(number) for number in part.split(",")) for part in said.groups())
    except ValueError as error:
        raise ModelError(f"normalisation of '{path}' must be numbers; got '{said[0]}'") from error
    return _resnet(path, weights, (mean, std))


def _inner(name: str) -> str:
    """The name inside the residual network, without Sequential's "1." and DataParallel's "module."."""
    return re.sub(r"^(module\.)?(1\.)?(module\.)?", "", name)


def _imagenet(path: Path, weights: Mapping[str, Tensor], arch: str) -> tuple[nn.Module, dict[str, Any]]:
    if "fc.weight" not in weights:
        raise ModelError(f"weights of '{path}' must be of an ImageNet resnet (conv1, layer1…4, fc); got other names")
    mean, std = IMAGENET
    config = {
        "arch": arch,
        "arch_options": {"mean": list(mean), "std": list(std)},
        "shape": [3, 224, 224],
        "classes": int(weights["fc.weight"].shape[0]),
        "data": "imagenet",
    }
    network = build(config, str(path))
    fill(network, weights, str(path), optional=_OPTIONAL)
    return network.eval(), config


def _resnet(
    path: Path,
    weights: Mapping[str, Tensor],
    normalisation: tuple[tuple[float, ...], tuple[float, ...]],
    expected: int | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
    blocks = {name.split(".")[1] for name in weights if name.startswith("layer1.")}
    depth = 6 * len(blocks) + 2
    if not blocks or "linear.weight" not in weights or "conv1.weight" not in weights:
        raise ModelError(f"weights of '{path}' must be of a CIFAR resnet (conv1, layer1…3, linear); got other names")
    if expected is not None and depth != expected:
        raise ModelError(f"weights of '{path}' must have the depth its arch says, {expected}; got {depth}")
    shortcut = "conv" if any(".downsample." in name for name in weights) else "pad"
    mean, std = normalisation
    config = {
        "arch": f"resnet{depth}",
        "arch_options": {"shortcut": shortcut, "mean": list(mean), "std": list(std)},
        "shape": [int(weights["conv1.weight"].shape[1]), 32, 32],
        "classes": int(weights["linear.weight"].shape[0]),
        "data": "cifar10",
    }
    network = build(config, str(path))
    fill(network, weights, str(path), optional=_OPTIONAL)
    return network.eval(), config
