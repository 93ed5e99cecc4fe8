"""Networks of Hugging Face: as objects, and as folders that save_pretrained wrote."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
    ViTModel,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForSequenceClassification,
)

import smoothcert
from smoothcert.classifiers import digest, load, ready, wrap
from smoothcert.classifiers.onnx import Onnx
from smoothcert.cli.main import run
from smoothcert.errors import ModelError

NAMES = ("cat", "dog", "horse")
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]


def tiny(kind: type[nn.Module] = ViTForImageClassification, **more) -> nn.Module:
    torch.manual_seed(0)
    config = ViTConfig(image_size=8, patch_size=4, id2label=dict(enumerate(NAMES)), **{**TINY, **more})
    network = kind(config).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)  # what is made from a config hardly depends on its inputs
    return network


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "vit"
    tiny().save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 8, "width": 8}, image_mean=MEAN, image_std=STD).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "vit")


def changed(folder, file, **changes):
    table = json.loads((folder / file).read_text())
    table.update(changes)
    (folder / file).write_text(json.dumps({key: value for key, value in table.items() if value is not None}))
    return folder


def test_a_folder_is_the_network_behind_its_own_processor(saved):
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    processor = ViTImageProcessorPil.from_pretrained(saved)
    with torch.no_grad():
        expected = tiny()(**processor(images=image, return_tensors="pt")).logits
    loaded = load(f"hf:{saved}")
    x = torch.from_numpy(image).permute(2, 0, 1).float() / 255
    assert torch.allclose(loaded(x.unsqueeze(0)), expected, atol=1e-4)
    assert loaded.class_names == NAMES
    assert torch.equal(load(saved)(x.unsqueeze(0)), loaded(x.unsqueeze(0)))  # hf: may be left out
    assert loaded.note == (
        "inside the model inputs are normalised by mean 0.4,0.5,0.6 std 0.2,0.3,0.4; "
        "scores are .logits of the ImageClassifierOutput that the model returns"
    )


def test_it_is_certified_and_verified_from_the_shell_without_a_network(folder, tmp_path, monkeypatch, capsys):
    def refused(*_):
        raise AssertionError("nothing may be fetched")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8)).astype(np.uint8), y=[0, 1, 2])
    words = [
        "certify",
        "hf:vit",
        "--data",
        "x.npz",
        "--sigma",
        "0.1",
        "--n",
        "100",
        "--engine",
        "torch",
        "--out",
        "run",
    ]
    assert run(words) == 0
    assert "scores are .logits of the ImageClassifierOutput" in capsys.readouterr().err
    assert run(["verify", "run", "--redraw", "all"]) == 0
    assert "scores are .logits" in (tmp_path / "run" / "recipe.toml").read_text()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(["verify", "../run"]) == 0
    monkeypatch.chdir(tmp_path)
    before = digest("hf:vit")
    assert before.covers == "weights" and before == digest("vit")
    changed(folder, "preprocessor_config.json", image_mean=[0.5, 0.5, 0.5])
    assert digest("hf:vit") != before
    capsys.readouterr()
    assert run(words) == 2 and "model_digest" in capsys.readouterr().err


def test_an_object_is_exported_and_says_what_is_taken():
    network, x = tiny(), torch.rand(3, 8, 8)
    smoothed = smoothcert.Smoothed(network, smoothcert.Gaussian(0.1), num_classes=3)
    assert smoothed.certify(x, n=100).evidence.draws == 100
    assert any("scores are .logits" in note and "processor is not part of it" in note for note in smoothed.notes)
    prepared = ready(wrap(network), x)
    assert prepared.engine == "onnxruntime" and isinstance(prepared.classifier, Onnx)
    with torch.no_grad():
        batch = torch.rand(5, 3, 8, 8)
        assert torch.allclose(prepared.classifier(batch), network(batch).logits, atol=1e-4)
    state = wrap(network).state()
    assert state == smoothed.classifier.state()  # of the user's own network, called or not


def test_sharded_weights_are_loaded_and_hashed(tmp_path, saved):
    folder = shutil.copytree(saved, tmp_path / "shards")
    (folder / "model.safetensors").unlink()
    tiny().save_pretrained(folder, max_shard_size="5KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    x = torch.rand(2, 3, 8, 8)
    assert torch.allclose(load(f"hf:{folder}")(x), load(f"hf:{saved}")(x))
    before = digest(f"hf:{folder}")
    content = bytearray(shards[-1].read_bytes())
    content[-1] ^= 1
    shards[-1].write_bytes(content)
    assert digest(f"hf:{folder}") != before
    for bad in ("../vit/model.safetensors", "model.bin", "/etc/passwd"):
        changed(folder, "model.safetensors.index.json", weight_map={"a": bad})
        with pytest.raises(ModelError, match=r"must name .safetensors files beside it"):
            load(f"hf:{folder}")


PROCESSORS = {
    "no size": ({"size": None, "do_resize": False}, None),
    "flipped": ({"do_flip_channel_order": True, "do_normalize": False}, "in the order blue, green, red"),
    "not rescaled": ({"do_rescale": False}, "scaled by 255"),
    "an older one": ({"do_rescale": None, "rescale_factor": None, "size": 8}, None),
}


@pytest.mark.parametrize(("changes", "said"), PROCESSORS.values(), ids=PROCESSORS)
def test_other_processors(folder, changes, said):
    changed(folder, "preprocessor_config.json", **changes)
    loaded, x = load(folder), torch.rand(2, 3, 8, 8)
    table = {"do_normalize": True, "do_rescale": True, **changes}
    values = x * 255 if table["do_rescale"] is False else x
    if table["do_normalize"]:
        values = (values - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    values = values.flip(1) if table.get("do_flip_channel_order") else values
    with torch.no_grad():
        assert torch.allclose(loaded(x), tiny()(values).logits, atol=1e-3)
    assert said is None or said in loaded.note


def test_inputs_must_have_the_size_of_the_processor(folder):
    with pytest.raises(ModelError, match=r"takes inputs \[3, 8, 8\]; got \[3, 16, 16\] \(--image-size 8\)"):
        load(folder)(torch.rand(1, 3, 16, 16))


REFUSED = {
    "no processor": ("preprocessor_config.json", None, "without its normalisation labels would be wrong"),
    "no weights": ("model.safetensors", None, "must hold model.safetensors; got none"),
    "no config": ("config.json", None, "must be a readable file"),
    "damaged config": ("config.json", b"{", "must be JSON"),
    "damaged weights": ("model.safetensors", b"\0" * 99, "must be a sound safetensors file"),
    "damaged processor": ("preprocessor_config.json", b"[]", "must be a table; got list"),
}


@pytest.mark.parametrize(("file", "content", "message"), REFUSED.values(), ids=REFUSED)
def test_a_folder_without_its_files_gets_one_line(folder, file, content, message):
    (folder / file).unlink() if content is None else (folder / file).write_bytes(content)
    with pytest.raises(ModelError) as error:
        load(f"hf:{folder}")
    assert message in str(error.value)


CONFIGS = {
    "many layers": ({"num_hidden_layers": 10**8}, "num_hidden_layers of .* must fit its"),
    "a wide one": ({"hidden_size": 2**20}, "which its weights cannot hold"),
    "a huge number": ({"hidden_size": 2**40}, "hidden_size of .* must fit"),
    "another head": ({"architectures": ["ViTModel"]}, "must hold a classifier that transformers knows"),
    "no such type": ({"model_type": "nothing"}, "must hold a classifier that transformers knows"),
    "a list": ({"model_type": ["vit"]}, "must hold a classifier that transformers knows"),
    "quantised": ({"quantization_config": {"a": 1}}, "must hold a plain network; got quantization_config"),
    "another shape": ({"intermediate_size": 8}, "must be a model that transformers can load|must be all that"),
    "a layer more": ({"num_hidden_layers": 2}, "weights of .* must be all that its network has; missing is"),
    "wrong type": ({"hidden_size": "many"}, "must be a model that transformers can load"),
}


@pytest.mark.parametrize(("changes", "message"), CONFIGS.values(), ids=CONFIGS)
def test_configs_that_do_not_fit_get_one_line(folder, changes, message):
    changed(folder, "config.json", **changes)
    with pytest.raises(ModelError, match=message) as error:
        load(f"hf:{folder}")
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(("changes", "message"), [
    ({"image_mean": None}, "image_mean of .* must be a list of numbers; got None"),
    ({"image_std": [0, 1, 1]}, "must not be 0"),
    ({"image_mean": [1, 2]}, "one number a channel; got 2"),
    ({"do_color_quantize": True}, "got do_color_quantize"),
    ({"include_top": True}, "got include_top"),
    ({"rescale_factor": "a"}, "rescale_factor of .* must be a number"),
])  # fmt: skip
def test_processors_that_cannot_be_put_inside_are_refused(folder, changes, message):
    changed(folder, "preprocessor_config.json", **changes)
    with pytest.raises(ModelError, match=message):
        load(f"hf:{folder}")


def test_code_of_a_folder_is_never_run(folder, tmp_path):
    """Not even inside `trusting`, where these tests are."""
    mark = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Config: ...\nclass Net: ...\n")
    both = {"AutoConfig": "evil.Config", "AutoModelForImageClassification": "evil.Net"}
    changed(folder, "config.json", auto_map=both)
    assert load(folder)(torch.rand(1, 3, 8, 8)).shape == (1, 3)  # a kind that transformers knows by itself
    changed(folder, "config.json", model_type="evil", architectures=["Net"])
    with pytest.raises(ModelError, match="code of a folder is not run"):
        load(f"hf:{folder}")
    assert not mark.exists()


def test_pickled_weights_are_not_opened(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "pytorch_model.bin")  # whoever opened it would wait for ever
    with pytest.raises(ModelError, match=r"must hold model.safetensors; got pytorch_model.bin"):
        load(f"hf:{folder}")


def test_token_ids_are_refused_with_the_reason(tmp_path):
    network = BertForSequenceClassification(BertConfig(vocab_size=20, **TINY)).eval()
    network.save_pretrained(tmp_path / "bert")
    for use in (lambda: wrap(network), lambda: load(f"hf:{tmp_path / 'bert'}")):
        with pytest.raises(ModelError, match="token ids: between two words there is nothing"):
            use()


def test_features_are_no_scores():
    with pytest.raises(ModelError, match="only 2-D tensor is 'pooler_output', which are features"):
        wrap(tiny(ViTModel))(torch.rand(2, 3, 8, 8))


def test_sound(tmp_path):
    sizes = {**TINY, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
    config = Wav2Vec2Config(
        **sizes, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, classifier_proj_size=8, num_labels=4
    )
    torch.manual_seed(0)
    network = Wav2Vec2ForSequenceClassification(config).eval()
    network.save_pretrained(tmp_path / "ear")
    extractor = Wav2Vec2FeatureExtractor(do_normalize=True)
    extractor.save_pretrained(tmp_path / "ear")
    wave = torch.rand(400, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network(**extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt")).logits
    assert torch.allclose(load(f"hf:{tmp_path / 'ear'}")(wave.unsqueeze(0)), expected, atol=1e-4)
    changed(tmp_path / "ear", "preprocessor_config.json", do_normalize=False)
    with pytest.raises(ModelError, match="with do_normalize; got Wav2Vec2FeatureExtractor"):
        load(f"hf:{tmp_path / 'ear'}")


class Returns(nn.Module):
    """Scores, and whatever else a form puts beside them."""

    def __init__(self, form):
        super().__init__()
        torch.manual_seed(0)
        self.form, self.layers = form, nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten())
        self.layers[1].running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.form(self.layers(x))


@pytest.mark.parametrize(("form", "note"), [
    (lambda s: (s, s.mean()), r"scores are \[0\] of the tuple"),
    (lambda s: {"loss": s.mean(), "out": s}, r"scores are \['out'\] of the dict"),
    (lambda s: {"logits": s, "other": s}, r"scores are \['logits'\] of the dict"),
])  # fmt: skip
def test_tuples_and_tables_of_a_network_are_exported_and_folded(form, note):
    network, x = Returns(form).eval(), torch.rand(5, 3, 8, 8)
    expected = network.layers(x).detach()
    for engine in ("onnxruntime", "torch"):
        prepared = ready(wrap(network), x[0], engine)
        assert torch.allclose(prepared.classifier(x), expected, atol=1e-4)
        assert prepared.engine == engine and prepared.note.startswith("scores are")
        assert re.match(note, prepared.note)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in prepared.classifier.network.modules())


def test_several_candidates_are_refused_with_the_line_to_write():
    for form, name in ((lambda s: (s, 2 * s), "0"), (lambda s: {"a": s, "b": s}, "'a'")):
        with pytest.raises(ModelError, match=rf"say which: lambda x: model\(x\)\[{name}\]"):
            wrap(Returns(form).eval())(torch.rand(2, 3, 8, 8))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_folders_of_images_are_the_classes_that_an_object_names(engine, tmp_path):
    """In the network's order, which is not the alphabet's: zebra is its class 0."""
    from PIL import Image

    for name in ("apple", "zebra"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(tmp_path / name / "0.png")
    torch.manual_seed(0)
    config = ViTConfig(image_size=8, patch_size=4, id2label={0: "zebra", 1: "apple"}, **TINY)
    network = ViTForImageClassification(config).eval()
    found = smoothcert.certify(network, tmp_path, 0.25, n=100, engine=engine, progress=False)
    assert found.asked.data.classes == ("zebra", "apple") and [row.label for row in found.rows] == [1, 0]
