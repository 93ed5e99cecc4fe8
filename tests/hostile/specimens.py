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
    found: dict[str, Specimen] = {}
    for maker in (_arrays, _pictures, _official, _networks, _composites, _logs, _caches, _runs):
        for name, specimen in maker(root).items():
            found[name] = specimen
    return found


def _place(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True)
    return root / name


def _arrays(root: Path) -> dict[str, Specimen]:
    plain, packed = _place(root, "npz"), _place(root, "packed")
    random = np.random.default_rng(0)
    np.savez(plain / "d.npz", x=random.random((6, 5), dtype=np.float32), y=np.arange(6))
    np.savez_compressed(packed / "d.npz", x=random.integers(0, 9, (40, 3, 4), dtype=np.uint8), y=np.arange(40))

    def read(folder: Path) -> object:
        return load_data(str(folder / "d.npz"), skip=2, max=30).tensors()

    return {"npz": Specimen(plain, "d.npz", read, 60), "packed npz": Specimen(packed, "d.npz", read, 60)}


def _pictures(root: Path) -> dict[str, Specimen]:
    found = {}
    for ending in ("png", "jpg"):
        folder = _place(root, f"pictures-{ending}")
        (folder / "a").mkdir()
        pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "a" / f"x.{ending}")
        found[ending] = Specimen(
            folder, f"a/x.{ending}", lambda folder: load_data(str(folder), image_size=8).tensors(), 60
        )
    return found


def _official(root: Path) -> dict[str, Specimen]:
    from scipy.io import savemat

    folder, random = _place(root, "official"), np.random.default_rng(0)
    buffer = io.BytesIO()
    pixels = random.integers(0, 256, (32, 32, 3, PICTURES), dtype=np.uint8)
    savemat(buffer, {"X": pixels, "y": (np.arange(PICTURES) % 10 + 1)[:, None].astype(np.uint8)}, do_compression=True)
    (folder / "f.mat").write_bytes(buffer.getvalue())
    (folder / "f.idx").write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (3, 4, 5)) + bytes(60))
    return {
        "matlab": Specimen(folder, "f.mat", lambda at: svhn.parse((at / "f.mat").read_bytes(), PICTURES), 40),
        "idx": Specimen(folder, "f.idx", lambda at: mnist.parse((at / "f.idx").read_bytes()), 60),
    }


def _networks(root: Path) -> dict[str, Specimen]:
    folder, beside, legacy = _place(root, "checkpoint"), _place(root, "onnx"), _place(root, "legacy")
    config = {"arch": "mlp", "arch_options": {"mean": [0.5], "std": [0.5]}, "shape": [1, 4, 4], "classes": 3,
              "settings": {"value_range": None}}  # fmt: skip
    network = checkpoints.build(config, "test").eval()
    checkpoints.save(folder, network, config, {"weights": checkpoints.plain(network), "optimiser": {}})
    residual = {"arch": "resnet8", "arch_options": {}, "shape": [3, 32, 32], "classes": 10}
    states = checkpoints.build(residual, "test").state_dict()
    kept = {name: state for name, state in states.items() if not name.startswith("normalise.")}
    saved = {"arch": "cifar_resnet8", "state_dict": kept}
    torch.save(saved, legacy / "m.pth.tar")
    _onnx(beside)
    x = torch.rand(2, 1, 4, 4)

    def asked(folder: Path) -> object:
        return load(folder)(x)

    return {
        "config": Specimen(folder, "config.json", asked),
        "weights": Specimen(folder, "weights.safetensors", asked),
        "state": Specimen(folder, "state.pt", lambda at: checkpoints.read_state(at)),
        "legacy": Specimen(legacy, "m.pth.tar", lambda at: load(at / "m.pth.tar"), 10),
        "onnx": Specimen(beside, "m.onnx", lambda at: load(at / "m.onnx")(x)),
        "onnx weights": Specimen(beside, "m.data", lambda at: load(at / "m.onnx")(x), 10),
    }


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


def _composites(root: Path) -> dict[str, Specimen]:
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

    def together(folder: Path) -> object:
        from smoothcert import Aces

        composite.outline(folder)
        return Aces.load(folder)

    return {
        "ensemble": Specimen(ensemble, composite.FILE, lambda at: load(at), 80),
        "aces": Specimen(aces, composite.FILE, together, 80),
    }


def _logs(root: Path) -> dict[str, Specimen]:
    folder = _place(root, "logs")
    rows = [f"{i}\t{i % 3}\t{i % 3}\t{i / 10}\t1\t0:00:0{i}.5\t1000\tl2\t0.001" for i in range(8)]
    header = "idx\tlabel\tpredict\tradius\tcorrect\ttime\tdraws\tnorm\talpha"
    (folder / "cohen.tsv").write_text("\n".join([header, *rows]) + "\n")
    columns = {
        "_certification": ("idx\tlabel\tpredict\tradius\tunperturbed predict", lambda i: f"{i}\t0\t0\t0.5\t0"),
        "_selection_0.30": ("idx\tpredict\tradius\tunperturbed predict", lambda i: f"{i}\t1\t0.5\t1"),
        "_core_prediction": ("idx\tlabel\tpredict", lambda i: f"{i}\t0\t0"),
        "_entropies": ("idx\t50 percentile", lambda i: f"{i}\t0.25"),
    }
    for ending, (names, row) in columns.items():
        (folder / f"p{ending}").write_text("\n".join([names, *map(row, range(6))]) + "\n")

    def components(folder: Path) -> object:
        prefix = folder / "p"
        component_logs.is_prefix(prefix)
        indices, labels, _ = component_logs.certification(prefix)
        component_logs.selection(prefix, indices)
        component_logs.core(prefix, indices, labels)
        return component_logs.median_entropy(prefix, indices)

    found = {"log": Specimen(folder, "cohen.tsv", lambda at: exchange.open_run(at / "cohen.tsv"), 100)}
    return found | {f"log p{ending}": Specimen(folder, f"p{ending}", components, 40) for ending in columns}


def _caches(root: Path) -> dict[str, Specimen]:
    """Caches are never worth a line: what is damaged in them is made again."""
    tables, threads = _place(root, "tables"), _place(root, "threads")
    asked = {"scheme": "test", "p0": 0.5}
    right = spending.Boundaries(*(np.array(column) for column in ([10, 20], [9, 15], [3, 8])))
    with _cache(tables):
        spending.cached(asked, lambda: right)
    (threads / arrange.FILE).write_text(json.dumps({"a" * 32: [1, 2], "b" * 32: [2, 1]}))

    def table(folder: Path) -> object:
        with _cache(folder):
            found = spending.cached(asked, lambda: right)
        pairs = zip((found.size, found.accept, found.reject), (right.size, right.accept, right.reject), strict=True)
        same = all(np.array_equal(*pair) for pair in pairs)
        assert same, "a damaged table was believed"
        return found

    def arrangements(folder: Path) -> object:
        with _cache(folder):
            known = arrange._remembered()
        assert all(min(pair) > 0 for pair in known.values())
        return known

    (file,) = (tables / "tables").iterdir()
    return {
        "table": Specimen(tables, str(file.relative_to(tables)), table, 60),
        "threads": Specimen(threads, arrange.FILE, arrangements, 60),
    }


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


def _runs(root: Path) -> dict[str, Specimen]:
    place, document, memory = _place(root, "run"), _place(root, "document"), _place(root, "memory")
    data = small_run.write_data(place / "data.npz")
    small_run.make(place / "run", data)
    (place / "run" / "lock").unlink(missing_ok=True)
    _, inputs = small_run.recipe_for(data)
    made = certificate.document(store.read(place / "run"), 5, inputs).tables()
    (document / "c.json").write_text(json.dumps(made))
    islands_data = islands.write_data(memory / "data.npz", 4)
    memory_run.make(memory / "run", islands_data, memory / "m.sqlite")

    def remembered(folder: Path) -> object:
        with Memory.open(folder / "m.sqlite", frozen=True) as found:
            return found

    return {
        "recipe": Specimen(place, "run/recipe.toml", lambda at: Recipe.read(at / "run" / "recipe.toml"), 100),
        "run": Specimen(place, "run/certificates.sqlite", lambda at: store.read(at / "run"), 40),
        "document": Specimen(document, "c.json", lambda at: certificate.read_document(at / "c.json"), 100),
        "memory": Specimen(memory, "m.sqlite", remembered, 30),
    }
