"""Checkpoints: our own, Cohen's, bare weights; and one line for everything that is none of them."""

from __future__ import annotations

import io
import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from smoothcert import catalog
from smoothcert.data.cifar10 import Cifar10
from smoothcert.errors import ModelError, OutputError
from smoothcert.training import checkpoints


def make(name="resnet8", shape=(3, 32, 32), **options):
    torch.manual_seed(0)
    network = catalog.build("architectures", name, options).build(shape, 10)
    for tensor in network.buffers():  # as if trained: no running mean or variance is its default
        if tensor.is_floating_point() and tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)
    return network.eval()


@pytest.fixture
def saved(tmp_path):
    network = make("digits_cnn4", (1, 8, 8), mean=0.3)
    config = {"arch": "digits_cnn4", "arch_options": {"mean": [0.3]}, "shape": [1, 8, 8], "classes": 10, "epoch": 1}
    (tmp_path / "net").mkdir()
    checkpoints.save(tmp_path / "net", network, config, {"weights": checkpoints.plain(network), "optimiser": {}})
    return tmp_path / "net", network


def test_what_is_saved_is_read(saved):
    folder, network = saved
    read, config = checkpoints.read_network(folder)
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(read(x), network(x)) and not read.training
    assert config["classes"] == 10
    assert torch.equal(checkpoints.read_any(folder)(x), network(x))
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "state.pt", "weights.safetensors"]


def damage_config(folder, **changes):
    path = folder / checkpoints.CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(("damage", "words"), [
    (lambda folder: shutil.rmtree(folder) or folder.mkdir(), "must be a checkpoint folder with config.json"),
    (lambda folder: (folder / "config.json").write_text("{"), "must be JSON"),
    (lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"), "must be JSON"),
    (lambda folder: (folder / "config.json").write_text("[1, 2]"), "must say arch"),
    (lambda folder: (folder / "config.json").write_text('{"arch": "mlp"}'), "must say arch_options, shape, classes"),
    (lambda folder: damage_config(folder, arch="vggg"), "architecture must be one of"),
    (lambda folder: damage_config(folder, arch_options={"depth": 2}), "option of digits_cnn4"),
    (lambda folder: damage_config(folder, arch_options=3), "arch_options must be a table; got 3"),
    (lambda folder: damage_config(folder, shape="square"), "shape must be a list; got 'square'"),
    (lambda folder: damage_config(folder, classes="many"), "classes must be a whole number; got 'many'"),
    (lambda folder: damage_config(folder, classes=7), "has another shape of linear"),
    (lambda folder: damage_config(folder, arch="mlp"), "must fit the network"),
    (lambda folder: (folder / "weights.safetensors").unlink(), "must exist"),
    (lambda folder: (folder / "weights.safetensors").write_bytes(b""), "sound checkpoint file"),
    (lambda folder: (folder / "weights.safetensors").write_bytes(b"hello, world" * 9), "sound checkpoint file"),
    (
        lambda folder: (folder / "weights.safetensors").write_bytes(
            (folder / "weights.safetensors").read_bytes()[:-100]
        ),
        "sound checkpoint file",
    ),
])  # fmt: skip
def test_damaged_checkpoints_get_one_line(saved, damage, words):
    damage(saved[0])
    with pytest.raises(ModelError, match=words) as error:
        checkpoints.read_network(saved[0])
    assert "\n" not in str(error.value)


def test_weights_that_are_no_numbers_are_refused(saved):
    folder, network = saved
    state = network.state_dict()
    state["linear.bias"][3] = float("nan")
    save_file(state, folder / checkpoints.WEIGHTS)
    with pytest.raises(ModelError, match=r"NaN or infinity in linear\.bias"):
        checkpoints.read_network(folder)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 not quite a zip"])
def test_damaged_state_gets_one_line(saved, content):
    (saved[0] / checkpoints.STATE).write_bytes(content)
    with pytest.raises(ModelError, match="sound checkpoint file") as error:
        checkpoints.read_state(saved[0])
    assert "\n" not in str(error.value)


def test_a_full_disk_keeps_the_last_checkpoint(saved, monkeypatch):
    folder, network = saved
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        checkpoints.save(
            folder,
            network,
            checkpoints.read_config(folder) | {"epoch": 2},
            {"weights": checkpoints.plain(network), "optimiser": {}},
        )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# --- weights of others


def cohen(network, prefix="1.", drop=("normalise", "num_batches_tracked"), arch="cifar_resnet8"):
    """The network as Cohen's scripts would have saved it."""
    state = {}
    for name, tensor in network.state_dict().items():
        if not any(word in name for word in drop):
            state[prefix + name.replace("linear.", "fc.")] = tensor
    return {"epoch": 90, "arch": arch, "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}


@pytest.mark.parametrize("prefix", ["1.", "1.module.", "module.1.", "module.", ""])
def test_cohens_checkpoints_are_read(tmp_path, prefix):
    mean, std = Cifar10.normalisation
    network = make(mean=mean, std=std)
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(cohen(network, prefix), path)
    read, config = checkpoints.read_legacy(path)
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(read(x), network(x)) and not read.training
    assert config["arch"] == "resnet8" and config["arch_options"]["shortcut"] == "conv"
    assert torch.equal(checkpoints.read_any(path)(x), network(x))


def test_cohens_imagenet_checkpoints_are_read(tmp_path):
    mean, std = checkpoints.IMAGENET
    network = catalog.build("architectures", "resnet18", {"mean": mean, "std": std}).build((3, 224, 224), 12).eval()
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(cohen(network, "1.module.", arch="resnet18"), path)
    read, config = checkpoints.read_legacy(path)
    x = torch.rand(1, 3, 224, 224)
    assert torch.equal(read(x), network(x)) and config["classes"] == 12 and config["shape"] == [3, 224, 224]


def test_cohens_old_zipless_files_are_read(tmp_path):
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(cohen(make()), path, _use_new_zipfile_serialization=False)
    assert checkpoints.read_legacy(path)[1]["arch"] == "resnet8"


class Opens:
    """What a pickle can do if it is let."""

    def __reduce__(self):
        return (open, ("/tmp/smoothcert-must-not-exist", "w"))


def test_foreign_torch_files_get_one_line(tmp_path):
    network = make()
    missing = cohen(network)
    del missing["state_dict"]["1.fc.bias"]
    extra = cohen(network)
    extra["state_dict"]["1.attention.weight"] = torch.zeros(2)
    cases = [
        (network.state_dict(), "arch and state_dict"),
        ([1, 2], "arch and state_dict"),
        (cohen(network, arch="resnet50"), "must fit the network by name and shape"),
        (cohen(network, arch="densenet"), "cifar_resnet20"),
        ({"arch": "resnet50", "state_dict": {"a": torch.zeros(1)}}, "ImageNet resnet .* got other names"),
        (cohen(network, arch="cifar_resnet20"), "the depth its arch says, 20; got 8"),
        ({"arch": "cifar_resnet8", "state_dict": {"a": torch.zeros(1)}}, "got other names"),
        (missing, "has no linear.bias"),
        (extra, "also has attention.weight"),
        (Opens(), "sound checkpoint file"),
    ]
    for content, words in cases:
        torch.save(content, tmp_path / "some.pth.tar")
        with pytest.raises(ModelError, match=words) as error:
            checkpoints.read_any(tmp_path / "some.pth.tar")
        assert "\n" not in str(error.value)
    (tmp_path / "some.pth.tar").write_bytes(b"hello")
    with pytest.raises(ModelError, match="sound checkpoint file"):
        checkpoints.read_any(tmp_path / "some.pth.tar")


def test_bare_weights_must_say_their_normalisation(tmp_path):
    network = make(shortcut="pad", mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    state = {name: tensor for name, tensor in network.state_dict().items() if "normalise" not in name}
    path = tmp_path / "bare.safetensors"
    save_file(state, path, metadata={"normalisation": "mean 0.4,0.5,0.6 std 0.2,0.2,0.3"})
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(checkpoints.read_any(path)(x), network(x))
    for metadata in (None, {"normalisation": "imagenet"}, {"normalisation": "mean 0.4. std ."}):
        save_file(state, path, metadata=metadata)
        with pytest.raises(ModelError, match="normalisation"):
            checkpoints.read_any(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"normalisation": "mean 0 std 1"})
    with pytest.raises(ModelError, match="got nothing called conv1, bn1, layer1, layer2, layer3, linear; a besides"):
        checkpoints.read_any(path)


def test_all_that_bare_weights_lack_is_told_at_once(tmp_path):
    path = tmp_path / "bare.safetensors"
    state = {name: tensor for name, tensor in make().state_dict().items() if not name.startswith("linear")}
    save_file({**state, "head.weight": torch.zeros(1), "head.bias": torch.zeros(1)}, path)
    with pytest.raises(ModelError) as error:
        checkpoints.read_any(path)
    told = str(error.value)
    assert "got no such normalisation; nothing called linear; head.bias and 1 more besides; any other network" in told
    assert "mean a,b,c std d,e,f" in told and "\n" not in told


def test_state_files_hold_plain_values_only(saved):
    state = torch.load(io.BytesIO((saved[0] / checkpoints.STATE).read_bytes()), weights_only=True)
    assert set(state) == {"weights", "optimiser", "config"}
