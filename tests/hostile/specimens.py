"""Real files of every kind that a stranger may send, and how each is read.

A specimen is a folder with one file that will be damaged, and a reader of that folder. A reader may answer or raise a
SmoothcertError: nothing else is allowed, whatever the bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import islands
import lines  # noqa: F401  # what composites name must have been imported: nothing is searched for on the disk
import memory_run
import numpy as np
import small_run
import torch
from PIL import Image

from smoothcert.catalog import describe
from smoothcert.classifiers import arrange, composite, load
from smoothcert.classifiers.composite import Composite
from smoothcert.data import load as load_data
from smoothcert.data import mnist, svhn
from smoothcert.memory import Memory
from smoothcert.noise.gaussian import Gaussian
from smoothcert.runs import certificate, component_logs, exchange, store
from smoothcert.sampling import spending
from smoothcert.spec import Recipe
from smoothcert.training import checkpoints

PICTURES = 11  # of the MATLAB specimen
SQUARES = torch.full((2, 1, 4, 4), 0.3)
ASKED = {"scheme": "test", "p0": 0.5}
COMPONENTS = {
    "_certification": ("idx\tlabel\tpredict\tradius\tunperturbed predict", "0\t0\t0.5\t0"),
    "_selection_0.30": ("idx\tpredict\tradius\tunperturbed predict", "1\t0.5\t1"),
    "_core_prediction": ("idx\tlabel\tpredict", "0\t0"),
    "_entropies": ("idx\t50 percentile", "0.25"),
}


class Specimen(NamedTuple):
    """The file inside its folder that is damaged, and who reads the folder."""

    folder: Path
    file: str
    read: Callable[[Path], object]
    examples: int = 25  # that `make test` tries

    @property
    def content(self) -> bytes:
        return (self.folder / self.file).read_bytes()

    def copied(self, place: Path) -> Path:
        shutil.copytree(self.folder, place)
        return place


def make(root: Path) -> dict[str, Specimen]:
    """Every specimen by name, made in this folder."""
    for maker in (_arrays, _pictures, _official, _networks, _composites, _logs, _caches, _runs):
        maker(root)
    return known(root)


def known(root: Path) -> dict[str, Specimen]:
    """The same once they are made, be it by another process."""
    (table,) = (root / "tables" / "tables").iterdir()
    found = {
        "npz": ("npz", "d.npz", _read_npz, 60),
        "packed npz": ("packed", "d.npz", _read_npz, 60),
        "png": ("pictures-png", "a/x.png", lambda at: load_data(str(at), image_size=8).tensors(), 60),
        "jpg": ("pictures-jpg", "a/x.jpg", lambda at: load_data(str(at), image_size=8).tensors(), 60),
        "matlab": ("official", "f.mat", lambda at: svhn.parse((at / "f.mat").read_bytes(), PICTURES), 40),
        "idx": ("official", "f.idx", lambda at: mnist.parse((at / "f.idx").read_bytes()), 60),
        "config": ("checkpoint", "config.json", lambda at: load(at)(SQUARES), 25),
        "weights": ("checkpoint", "weights.safetensors", lambda at: load(at)(SQUARES), 25),
        "state": ("checkpoint", "state.pt", lambda at: checkpoints.read_state(at), 25),
        "legacy": ("legacy", "m.pth.tar", lambda at: load(at / "m.pth.tar"), 10),
        "onnx": ("onnx", "m.onnx", lambda at: load(at / "m.onnx")(SQUARES), 25),
        "onnx weights": ("onnx", "m.data", lambda at: load(at / "m.onnx")(SQUARES), 10),
        "ensemble": ("ensemble", composite.FILE, lambda at: load(at), 80),
        "aces": ("aces", composite.FILE, _read_aces, 80),
        "log": ("logs", "cohen.tsv", lambda at: exchange.open_run(at / "cohen.tsv"), 100),
        **{f"log p{ending}": ("logs", f"p{ending}", _read_components, 40) for ending in COMPONENTS},
        "table": ("tables", f"tables/{table.name}", _read_table, 60),
        "threads": ("threads", arrange.FILE, _read_threads, 60),
        "recipe": ("run", "run/recipe.toml", lambda at: Recipe.read(at / "run" / "recipe.toml"), 100),
        "run": ("run", "run/certificates.sqlite", lambda at: store.read(at / "run"), 40),
        "document": ("document", "c.json", lambda at: certificate.read_document(at / "c.json"), 100),
        "memory": ("memory", "m.sqlite", _read_memory, 30),
    }
    return {name: Specimen(root / folder, *rest) for name, (folder, *rest) in found.items()}


def _place(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True)
    return root / name


def _arrays(root: Path) -> None:
    random = np.random.default_rng(0)
    floats, few = random.random((6, 5), dtype=np.float32), random.integers(0, 9, (40, 3, 4), dtype=np.uint8)
    np.savez(_place(root, "npz") / "d.npz", x=floats, y=np.arange(6))
    np.savez_compressed(_place(root, "packed") / "d.npz", x=few, y=np.arange(40))


def _read_npz(folder: Path) -> object:
    return load_data(str(folder / "d.npz"), skip=2, max=30).tensors()


def _pictures(root: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    for ending in ("png", "jpg"):
        Image.fromarray(pixels).save(_place(root, f"pictures-{ending}/a") / f"x.{ending}")


def _official(root: Path) -> None:
    from scipy.io import savemat

    folder, buffer = _place(root, "official"), io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, PICTURES), dtype=np.uint8)
    savemat(buffer, {"X": pixels, "y": (np.arange(PICTURES) % 10 + 1)[:, None].astype(np.uint8)}, do_compression=True)
    (folder / "f.mat").write_bytes(buffer.getvalue())
    (folder / "f.idx").write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (3, 4, 5)) + bytes(60))


def _networks(root: Path) -> None:
    config = {"arch": "mlp", "arch_options": {"mean": [0.5], "std": [0.5]}, "shape": [1, 4, 4], "classes": 3,
              "settings": {"value_range": None}}  # fmt: skip
    network = checkpoints.build(config, "test").eval()
    state = {"weights": checkpoints.plain(network), "optimiser": {}}
    checkpoints.save(_place(root, "checkpoint"), network, config, state)
    residual = {"arch": "resnet8", "arch_options": {}, "shape": [3, 32, 32], "classes": 10}
    states = checkpoints.build(residual, "test").state_dict()
    kept = {name: state for name, state in states.items() if not name.startswith("normalise.")}
    torch.save({"arch": "cifar_resnet8", "state_dict": kept}, _place(root, "legacy") / "m.pth.tar")
    _onnx(_place(root, "onnx"))


def _onnx(folder: Path) -> None:
    """A linear layer whose weights lie in a file beside."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.random.default_rng(0).random((16, 3), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["scores"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 4, 4])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])], [weights],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)


def _composites(root: Path) -> None:
    ensemble, aces = _place(root, "ensemble"), _place(root, "aces")
    members = tuple(composite.described(ensemble, spec) for spec in ("lines:a", "lines:b"))
    weighted = {"name": "weighted_vote", "weights": [0.25, 0.75]}
    fitted = {"data": "d", "split": "test", "digest": "0", "noise": {"name": "gaussian", "sigma": 0.5}, "seed": 0,
              "indices": "1 2", "marks": "ab cd"}  # fmt: skip
    facts = {"shape": [1, 4, 4], "classes": 2, "range": None}
    composite.write(ensemble, Composite("ensemble", members, weighted, None, {}, "as given", facts, fitted))
    noise = describe(Gaussian(0.25))
    roles = (("lines:a", "certify", noise), ("lines:b", "core", None))
    parts = tuple(composite.described(aces, *role) for role in roles)
    composite.write(aces, Composite("aces", parts, options={"theta": 0.3}))


def _read_aces(folder: Path) -> object:
    from smoothcert import Aces

    composite.outline(folder)
    return Aces.load(folder)


def _logs(root: Path) -> None:
    folder = _place(root, "logs")
    rows = [f"{i}\t{i % 3}\t{i % 3}\t{i / 10}\t1\t0:00:0{i}.5\t1000\tl2\t0.001" for i in range(8)]
    header = "idx\tlabel\tpredict\tradius\tcorrect\ttime\tdraws\tnorm\talpha"
    (folder / "cohen.tsv").write_text("\n".join([header, *rows]) + "\n")
    for ending, (names, row) in COMPONENTS.items():
        (folder / f"p{ending}").write_text("\n".join([names, *(f"{i}\t{row}" for i in range(6))]) + "\n")


def _read_components(folder: Path) -> object:
    prefix = folder / "p"
    component_logs.is_prefix(prefix)
    indices, labels, _ = component_logs.certification(prefix)
    component_logs.selection(prefix, indices)
    component_logs.core(prefix, indices, labels)
    return component_logs.median_entropy(prefix, indices)


def _caches(root: Path) -> None:
    with _cache(_place(root, "tables")):
        spending.cached(ASKED, _right)
    (_place(root, "threads") / arrange.FILE).write_text(json.dumps({"a" * 32: [1, 2], "b" * 32: [2, 1]}))


def _right() -> spending.Boundaries:
    return spending.Boundaries(*(np.array(column) for column in ([10, 20], [9, 15], [3, 8])))


def _read_table(folder: Path) -> object:
    """Caches are never worth a line: what is damaged in them is made again."""
    with _cache(folder):
        found, right = spending.cached(ASKED, _right), _right()
    pairs = zip((found.size, found.accept, found.reject), (right.size, right.accept, right.reject), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs), "a damaged table was believed"
    return found


def _read_threads(folder: Path) -> object:
    with _cache(folder):
        found = arrange._remembered()
    assert all(min(pair) > 0 for pair in found.values())
    return found


@contextlib.contextmanager
def _cache(folder: Path):
    before = os.environ.get("SMOOTHCERT_CACHE")
    os.environ["SMOOTHCERT_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SMOOTHCERT_CACHE"]
        else:
            os.environ["SMOOTHCERT_CACHE"] = before


def _runs(root: Path) -> None:
    place, document, memory = _place(root, "run"), _place(root, "document"), _place(root, "memory")
    data = small_run.write_data(place / "data.npz")
    small_run.make(place / "run", data)
    _, inputs = small_run.recipe_for(data)
    made = certificate.document(store.read(place / "run"), 5, inputs).tables()
    (document / "c.json").write_text(json.dumps(made))
    islands_data = islands.write_data(memory / "data.npz", 4)
    memory_run.make(memory / "run", islands_data, memory / "m.sqlite")


def _read_memory(folder: Path) -> object:
    with Memory.open(folder / "m.sqlite", frozen=True) as found:
        return found
