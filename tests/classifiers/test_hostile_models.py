"""Models of a stranger: weights that lie elsewhere, composites without end, sizes that nobody means, bombs."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from smoothcert.classifiers import arrange, composite, digest, load
from smoothcert.classifiers.composite import Composite, Member
from smoothcert.classifiers.onnx import Onnx, parts
from smoothcert.errors import ModelError, SmoothcertError
from smoothcert.training import checkpoints

# --- ONNX with weights beside it


def network(folder: Path, location: str = "w.bin") -> Path:
    """A linear layer whose weights are said to lie there."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = numpy_helper.from_array(np.eye(4, 2, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])], [weights],
    )  # fmt: skip
    held = graph.initializer[0]
    (folder / "w.bin").write_bytes(held.raw_data)
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    entry = held.external_data.add()
    entry.key, entry.value = "location", location
    path = folder / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_beside_a_network_or_below_are_welcome_and_hashed(tmp_path):
    path = network(tmp_path / "a")
    assert load(path)(torch.eye(4))[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    before = digest(path)
    content = (path.parent / "w.bin").read_bytes()
    (path.parent / "w.bin").write_bytes(content[::-1])
    assert digest(path) != before
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "w.bin").write_bytes(content)
    assert len(parts(network(path.parent, "sub/w.bin"))) == 2


@pytest.mark.parametrize("how", ["above", "absolute", "link out", "folder link out", "FIFO", "absent", "long", "zero"])
def test_weights_that_lie_elsewhere_are_refused_unopened(tmp_path, how):
    outside = network(tmp_path / "other").with_name("w.bin")
    folder = tmp_path / "a"
    folder.mkdir()
    places = {"above": "../other/w.bin", "absolute": str(outside), "folder link out": "link/w.bin", "absent": "no.bin"}
    location = {**places, "long": "x" * 5000, "zero": "a\0b"}.get(how, "weights")
    if how == "link out":
        (folder / "weights").symlink_to(outside)
    elif how == "folder link out":
        (folder / "link").symlink_to(outside.parent)
    elif how == "FIFO":
        os.mkfifo(folder / "weights")
    path = network(folder, location)
    for use in (load, digest, Onnx, parts):
        with pytest.raises(ModelError, match=r"weights of '.*m\.onnx',? .*must") as error:
            use(path)
        assert "\n" not in str(error.value)


def test_a_network_that_is_no_file_is_refused_unopened(tmp_path):
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="must be a regular file; got a FIFO"):
        load(tmp_path / "m.onnx")


# --- composites


def described(folder: Path, members, **more):
    composite.write(folder, Composite("ensemble", tuple(members), {"name": "soft_vote"}, **more))
    return folder


def nested(folder: Path, inner: list[Path]) -> Path:
    return described(folder, [composite.described(folder, str(one)) for one in inner])


def test_composites_that_double_twenty_times_are_refused_at_once(tmp_path):
    """Twenty small files: a million networks to load."""
    import lines  # noqa: F401

    last = described(tmp_path / "0", [composite.described(tmp_path / "0", "lines:a")])
    shallow = nested(tmp_path / "shallow", [last, last])
    assert load(shallow)(torch.zeros(2, 4)).shape[0] == 2
    for number in range(1, 21):
        last = nested(tmp_path / str(number), [last, last])
    begun = time.monotonic()
    with pytest.raises(ModelError, match="must hold at most 1000 networks, 8 composites deep; got more"):
        load(last)
    assert time.monotonic() - begun < 2


def test_a_long_chain_of_composites_is_refused(tmp_path):
    last = described(tmp_path / "0", [Member("lines:a", "0" * 64, path=False)])
    for number in range(1, 60):
        last = nested(tmp_path / str(number), [last])
    with pytest.raises(ModelError, match="8 composites deep"):
        load(last)


def member(**more):
    return {"members": [{"place": "lines:a", "digest": "0", "path": False, **more}]}


WRONG = {
    "role a list": (member(role=["a"]), "role must be text"),
    "path a number": (member(path=1), "path must be true or false"),
    "path text": (member(path="no"), "path must be true or false"),
    "noise a list": (member(noise=[1]), "noise must be a table"),
    "vote text": ({"vote": "soft_vote"}, "vote must be a table"),
    "order a number": ({"order": 3}, "order must be text"),
    "options a list": ({"options": []}, "options must be a table"),
    "shape text": ({"facts": {"shape": "3"}}, "facts shape must be a list"),
    "marks a list": ({"holdout": {"indices": "1", "marks": ["a"]}}, "holdout marks must be text"),
    "indices words": ({"holdout": {"indices": "a", "marks": "b"}}, "invalid literal"),
    "nothing": ([], "its format is not 1"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG)
def test_values_of_another_type_are_named(tmp_path, change, words):
    path = described(tmp_path / "e", [Member("lines:a", "0" * 64, path=False)]) / composite.FILE
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, **change} if isinstance(change, dict) else change))
    with pytest.raises(ModelError, match=words) as error:
        composite.read(path.parent)
    assert "\n" not in str(error.value)


# --- checkpoints

CONFIG = {"arch": "mlp", "arch_options": {}, "shape": [1, 4, 4], "classes": 3}


@pytest.fixture
def checkpoint(tmp_path):
    built = checkpoints.build(CONFIG, "test").eval()
    (tmp_path / "m").mkdir()
    checkpoints.save(tmp_path / "m", built, CONFIG, {"weights": checkpoints.plain(built), "optimiser": {}})
    return tmp_path / "m"


@pytest.mark.parametrize("change", [
    {"classes": 10**12}, {"classes": 2**28}, {"shape": [10**6, 10**6, 10**6]}, {"shape": [1, 16000, 16000]},
    {"arch": "resnet99999998"}, {"arch": "resnet9998", "shape": [3, 32, 32]}, {"arch": "resnet" + "9" * 5000},
    {"arch": "resnet", "arch_options": {"depth": 10**8 + 2}}, {"arch_options": {"widths": [10] * 10**5}},
    {"arch": ["mlp"]}, {"arch_options": "none"}, {"shape": {"a": 1}}, {"settings": []}, {"classes": True},
])  # fmt: skip
def test_sizes_that_nobody_means_are_refused_before_a_network_is_made(checkpoint, change):
    (checkpoint / "config.json").write_text(json.dumps({**CONFIG, **change}))
    begun = time.monotonic()
    with pytest.raises(ModelError) as error:
        checkpoints.read_network(checkpoint)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("file", ["config.json", "weights.safetensors", "state.pt"])
def test_a_fifo_in_a_checkpoint_is_refused_unopened(checkpoint, file):
    (checkpoint / file).unlink()
    os.mkfifo(checkpoint / file)
    read = checkpoints.read_state if file == "state.pt" else checkpoints.read_network
    with pytest.raises(ModelError, match="must be a regular file; got a FIFO"):
        read(checkpoint)


def test_a_torch_file_that_unpacks_to_more_than_it_is(tmp_path):
    torch.save({"arch": "cifar_resnet8", "state_dict": {"a": torch.zeros(10**7)}}, tmp_path / "m.pth.tar")
    with (
        zipfile.ZipFile(tmp_path / "m.pth.tar") as held,
        zipfile.ZipFile(tmp_path / "bomb.pth.tar", "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for name in held.namelist():
            made.writestr(name, held.read(name))
    with pytest.raises(ModelError, match=r"bomb.* must hold at most \d+ bytes; got 400\d+"):
        checkpoints.read_any(tmp_path / "bomb.pth.tar")


def test_one_value_that_stands_for_many_is_refused(tmp_path):
    """An expanded tensor of 4·10¹² bytes takes four on the disk, and says how many classes there are."""
    states = {"fc.weight": torch.zeros(1, 1).expand(10**6, 10**6)}
    torch.save({"arch": "resnet50", "state_dict": states}, tmp_path / "m.pth.tar")
    with pytest.raises(ModelError, match=r"must hold at most \d+ bytes; got 4000000000000"):
        checkpoints.read_any(tmp_path / "m.pth.tar")


@pytest.mark.parametrize("states", [[1], {1: torch.zeros(1)}, {"fc.weight": 3}, {"fc.weight": torch.zeros(())},
                                    {"conv1.weight": torch.zeros(3), "linear.weight": torch.zeros(3)}])  # fmt: skip
def test_a_state_of_other_things_than_tensors_gets_one_line(tmp_path, states):
    for arch in ("resnet50", "cifar_resnet8"):
        torch.save({"arch": arch, "state_dict": states}, tmp_path / "m.pth.tar")
        with pytest.raises(ModelError) as error:
            checkpoints.read_any(tmp_path / "m.pth.tar")
        assert "\n" not in str(error.value)


# --- caches


def test_a_cache_of_a_stranger_begins_no_thousand_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))
    path = network(tmp_path / "a")
    found, x = Onnx(path), torch.zeros(4)
    arrange.fastest(found, x, 2)
    (key,) = json.loads((tmp_path / arrange.FILE).read_text())
    monkeypatch.setattr(arrange, "speed", lambda network, x, arrangement: arrangement.workers)
    for bad in ([10**6, 1], [1, 10**6], [True, 2], [1.0, 2], "x", None):
        (tmp_path / arrange.FILE).write_text(json.dumps({key: bad}))
        got = arrange.fastest(found, x, 2)
        assert got.workers * got.threads <= 2
    (tmp_path / arrange.FILE).write_bytes(b"[" * 100_000)
    assert arrange.fastest(found, x, 2).workers <= 2


def test_onnx_that_onnx_cannot_read_gets_one_line(tmp_path):
    for content in (b"", b"\x08" * 99, b"location" * 99, onnx.ModelProto().SerializeToString()):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(SmoothcertError) as error:
            load(tmp_path / "m.onnx")
        assert "\n" not in str(error.value)
