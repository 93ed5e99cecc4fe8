"""ONNX files as they come: what is read out of them is what they say, and where that is not plain, it is refused."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from onnx_files import FLOAT, INT, weights, write

import smoothcert
from smoothcert import catalog
from smoothcert.classifiers import load, ready
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.class_names import parse_names
from smoothcert.classifiers.onnx import Onnx
from smoothcert.contracts import Stream
from smoothcert.engine.batch_check import check_batches
from smoothcert.errors import ModelError, SmoothcertError

LABEL = ("ArgMax", ["scores"], "label", INT, ["batch"])
HIDDEN = ("Identity", ["flat"], "hidden", FLOAT, ["batch", 16])
SOFT = ("Softmax", ["scores"], "probabilities", FLOAT, ["batch", 3])
WEIGHT = weights((1, 4, 4))


def noisy(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 0.25 * torch.randn(
        shape, generator=torch.Generator().manual_seed(2)
    )


X = noisy(8, 1, 4, 4)


@pytest.mark.parametrize("outputs", [("label", "scores"), ("scores", "label"), ("hidden", "scores"), ("scores",)])
def test_scores_are_found_among_other_outputs(tmp_path, outputs):
    network = load(write(tmp_path / "m.onnx", extra=(LABEL, HIDDEN), outputs=outputs))
    assert torch.allclose(network(X), X.flatten(1) @ WEIGHT, atol=1e-5)
    said = "m.onnx: scores are taken from output 'scores' tensor(float) [batch, 3] (--output names another)"
    assert network.note == ("" if len(outputs) == 1 else said)


def test_between_outputs_that_both_could_be_scores_the_user_decides(tmp_path):
    wide = ("Identity", ["flat"], "features", FLOAT, ["batch", 16])
    path = write(tmp_path / "m.onnx", extra=(wide, SOFT), outputs=("features", "scores", "probabilities"))
    with pytest.raises(
        ModelError, match=r"one output of scores .*'features' .* \[batch, 16\].*\(--output says which\)"
    ):
        load(path)
    found = Onnx(path, adaptation=Adaptation(output="probabilities"))
    assert torch.allclose(found(X), (X.flatten(1) @ WEIGHT).softmax(1), atol=1e-5) and found.note == ""


@pytest.mark.parametrize("name", ["label", "nothing", "scores "])
def test_an_output_that_holds_no_scores_is_refused_with_those_there_are(tmp_path, name):
    network = load(write(tmp_path / "m.onnx", extra=(LABEL,), outputs=("label", "scores")))
    with pytest.raises(
        ModelError, match=r"--output must name .*got '.*', and it has 'label' tensor\(int64\).*'scores'"
    ):
        adapted(network, Adaptation(output=name))


def test_labels_alone_are_no_scores(tmp_path):
    with pytest.raises(ModelError, match=r"must have an output of scores, floats \[batch, classes\]; got 'label'"):
        load(write(tmp_path / "m.onnx", extra=(LABEL,), outputs=("label",)))


@pytest.mark.parametrize("kind", ["logit", "probability"])
def test_one_score_becomes_two_where_the_user_says_what_it_is(tmp_path, kind):
    extra = (("Sigmoid", ["scores"], "p", FLOAT, ["batch", 1]),)
    path = write(tmp_path / "m.onnx", extra=extra, outputs=("scores" if kind == "logit" else "p",), classes=1)
    plain = load(path)
    with pytest.raises(
        ModelError, match=r"got one an input: say what it is, --binary logit .* or --binary probability"
    ):
        plain(X)
    scores = adapted(plain, Adaptation(binary=kind))(X)
    positive = (X.flatten(1) @ weights((1, 4, 4), 1))[:, 0] > 0
    assert torch.equal(scores.argmax(1), positive.long()) and 0 < int(positive.sum()) < len(X)


def test_two_columns_are_not_taken_for_one(tmp_path):
    with pytest.raises(ModelError, match=r"binary must be of a model with one score an input; got scores \[8, 3\]"):
        adapted(load(write(tmp_path / "m.onnx")), Adaptation(binary="logit"))(X)


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_floats_of_every_width(tmp_path, kind):
    network = load(write(tmp_path / "m.onnx", kind=kind))
    assert torch.allclose(network(X), X.flatten(1) @ WEIGHT, atol=2e-2 if kind == "float16" else 1e-5)


def test_whole_numbers_are_fed_in_steps_of_1_255(tmp_path):
    network = load(write(tmp_path / "m.onnx", kind="uint8"))
    steps = (255 * X).round().clamp(0, 255) / 255
    assert torch.allclose(network(X), steps.flatten(1) @ WEIGHT, atol=1e-5)
    assert not torch.allclose(steps, X, atol=1e-2)  # there was something to round and to clip
    assert "multiplied by 255, rounded and clipped" in network.note


def test_noise_on_the_grid_is_not_rounded(tmp_path):
    """Every step of the grid arrives as that whole number: what is certified is the graph behind clipping alone."""
    image = torch.arange(16).view(1, 4, 4) * 17 / 255
    draws = torch.empty(4096, 1, 4, 4)
    catalog.build("noise", "gaussian_grid", {"sigma": 0.5, "grid": 255}).fill(draws, image, Stream(0, 0, "test"), 0)
    fed = load(write(tmp_path / "m.onnx", kind="uint8")).fed(draws)
    assert fed.dtype == np.uint8
    exact = np.rint(draws.double().numpy() * 255)
    assert np.abs(draws.double().numpy() * 255 - exact).max() < 1e-3 and np.array_equal(fed, exact.clip(0, 255))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("int64", "between two token ids there is nothing (certify the part behind the embedding"),
        ("int8", "must be a tensor of floats or uint8; got 'x' tensor(int8) [batch, 1, 4, 4] (put a Cast"),
    ],
)
def test_inputs_without_noise_are_refused(tmp_path, kind, message):
    with pytest.raises(ModelError) as error:
        load(write(tmp_path / "m.onnx", kind=kind))
    assert message in str(error.value)


def test_tokens_are_named_before_the_number_of_inputs(tmp_path):
    model = onnx.load(write(tmp_path / "m.onnx"))
    model.graph.input.append(onnx.helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", 4]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"'mask' tensor.int64.*token ids"):
        load(tmp_path / "m.onnx")
    model.graph.input[1].CopyFrom(onnx.helper.make_tensor_value_info("scale", FLOAT, ["batch", 4]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"must have one input; got 'x' .*, 'scale' .*fixed inside"):
        load(tmp_path / "m.onnx")


IMAGES = noisy(8, 3, 5, 6)
LAST = IMAGES.permute(0, 2, 3, 1).flatten(1) @ weights((5, 6, 3))
FIRST = IMAGES.flatten(1) @ weights((5, 6, 3))  # as many values in the other order


@pytest.mark.parametrize("shape", [(5, 6, 3), ("h", "w", 3)])
def test_channels_last_where_only_that_fits(tmp_path, shape):
    network = load(write(tmp_path / "m.onnx", shape, size=(5, 6, 3)))
    assert torch.allclose(network(IMAGES), LAST, atol=1e-5)
    assert torch.allclose(network(IMAGES.permute(0, 2, 3, 1)), LAST, atol=1e-5)  # data that are so already
    assert "it takes channels last" in network.note and "are turned" in network.note
    prepared = ready(network, IMAGES[0], threads=1)
    assert torch.allclose(
        check_batches(prepared.classifier, IMAGES.repeat(40, 1, 1, 1), 64).call(IMAGES), LAST, atol=1e-5
    )


def test_channels_last_where_the_user_says_so(tmp_path):
    free = load(write(tmp_path / "free.onnx", ("a", "b", "c"), size=(5, 6, 3)))
    assert torch.allclose(free(IMAGES), FIRST, atol=1e-5) and free.note == ""
    last = adapted(free, Adaptation(layout="nhwc"))
    assert "turned" not in adapted(load(write(tmp_path / "m.onnx", (5, 6, 3))), Adaptation(layout="nhwc")).note
    assert torch.allclose(last(IMAGES), LAST, atol=1e-5)
    cube, x = load(write(tmp_path / "cube.onnx", (3, 3, 3))), noisy(8, 3, 3, 3)
    assert torch.allclose(cube(x), x.flatten(1) @ weights((3, 3, 3)), atol=1e-5)  # ambiguous: as declared
    turned = adapted(cube, Adaptation(layout="nhwc"))(x)
    assert torch.allclose(turned, x.permute(0, 2, 3, 1).flatten(1) @ weights((3, 3, 3)), atol=1e-5)


@pytest.mark.parametrize(
    ("layout", "shape", "message"),
    [
        ("", (3, 9, 6), r"takes inputs of shape \[5, 6, 3\]; got \[3, 9, 6\] \(--image-size"),
        ("nchw", (3, 5, 6), r"takes inputs of shape \[5, 6, 3\]; got \[3, 5, 6\] \(channels last: --model-layout nhwc"),
        ("", (90,), r"takes inputs of shape \[5, 6, 3\]; got \[90\] \(the data must have the shape"),
    ],
)
def test_another_shape_is_refused_with_the_option(tmp_path, layout, shape, message):
    network = adapted(load(write(tmp_path / "m.onnx", (5, 6, 3))), Adaptation(layout=layout))
    with pytest.raises(ModelError, match=message):
        network(noisy(2, *shape))


def test_rows_of_values_and_images_without_channels(tmp_path):
    flat = load(write(tmp_path / "flat.onnx", (16,)))
    assert torch.allclose(flat(X), X.flatten(1) @ WEIGHT, atol=1e-5)
    grey = load(write(tmp_path / "grey.onnx", (4, 4)))
    assert torch.allclose(grey(X), X.flatten(1) @ WEIGHT, atol=1e-5)
    colours = load(write(tmp_path / "colours.onnx", (90,)))
    with pytest.raises(
        ModelError, match=r"in an order that no file says: give --model-layout nchw .* or --model-layout"
    ):
        colours(IMAGES)
    assert torch.allclose(adapted(colours, Adaptation(layout="nhwc"))(IMAGES), LAST, atol=1e-5)
    assert torch.allclose(adapted(colours, Adaptation(layout="nchw"))(IMAGES), FIRST, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("reshape", [None, "whole", "rest"])
@pytest.mark.parametrize("kind", ["float", "uint8"])
def test_a_frozen_batch_is_made_free(tmp_path, rows, reshape, kind):
    to = {None: None, "whole": (rows, 16), "rest": (rows, -1)}[reshape]
    path = write(tmp_path / "m.onnx", rows=rows, kind=kind, reshape=to)
    before = path.read_bytes()
    network = load(path)
    assert network.rows is None and f"its batch, frozen at {rows}, was made free" in network.note
    steps = (255 * X).round().clamp(0, 255) / 255 if kind == "uint8" else X
    for size in (1, 2, 8):
        assert torch.allclose(network(X[:size]), steps[:size].flatten(1) @ WEIGHT, atol=1e-5)
    again = network.with_threads(1)
    network.rest()
    assert torch.equal(network(X), again(X)) and path.read_bytes() == before
    assert network.digest == hashlib.sha256(before).hexdigest()


def test_a_batch_that_cannot_be_freed_is_served_and_its_price_said(tmp_path, capfd):
    network = load(write(tmp_path / "m.onnx", rows=3, stuck=True))
    assert network.rows == 3 and capfd.readouterr().err == ""  # ONNX Runtime keeps its complaints to itself
    assert "its batch is frozen at 3, which makes draws slower" in network.note and "dynamic_shapes" in network.note
    with pytest.raises(ModelError, match="must be given exactly 3 rows at a time; got 8"):
        network(X)
    settled = check_batches(ready(network, X[0], threads=1).classifier, X, 64)
    assert torch.allclose(settled.call(X), X.flatten(1) @ WEIGHT, atol=1e-5)


def test_a_graph_that_mixes_its_rows_is_not_freed(tmp_path):
    """At one row the mean over rows is the row itself: with more rows it would be another function."""
    path = write(tmp_path / "m.onnx", rows=1)
    model = onnx.load(path)
    model.graph.node[-1].output[0] = "own"
    model.graph.node.append(onnx.helper.make_node("ReduceMean", ["own"], ["scores"], axes=[0], keepdims=1))
    onnx.save(model, path)
    assert load(path).rows == 1


def test_a_graph_that_says_nothing_of_noise_is_not_freed(tmp_path):
    """Scores that are the same for every input agree with anything."""
    path = write(tmp_path / "m.onnx", rows=1)
    model = onnx.load(path)
    held = next(value for value in model.graph.initializer if value.name == "w")
    held.CopyFrom(onnx.numpy_helper.from_array(np.zeros((16, 3), np.float32), "w"))
    onnx.save(model, path)
    assert load(path).rows == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{0: 'cat', 1: \"dog's\", 2: 'a, b'}", ("cat", "dog's", "a, b")),
        ("{1: 'dog', 0: 'cat'}", ("cat", "dog")),
        ('{"0": "cat", "1": "d\\u00f6g"}', ("cat", "dög")),
        ('["cat", "dog"]', ("cat", "dog")),
        ("cat, dog,bird", ("cat", "dog", "bird")),
        ("cat\ndog", ("cat", "dog")),
        ("{0: 'cat', 2: 'dog'}", ()),
        ("{0: 'cat', 0: 'dog'}", ()),
        ("{0: 'cat', 'dog'}", ()),
        ("[[[['cat']]]]", ()),
        ("{0: __import__('os').system('true')}", ()),
        ("[" * 100_000 + "]" * 100_000, ()),
        ("'" * 100_000, ("'" * 100,)),
        ("[" + "'a'," * 70_000 + "]", ()),
        ("x" * 2**21, ()),
        ("['a\x1b[31m\u202e', 'b\n']", ("a\ufffd[31m\ufffd", "b")),
    ],
)
def test_names_in_metadata(text, names):
    assert parse_names(text) == names


def test_class_names_fit_the_columns_or_are_none(tmp_path):
    def names(**metadata):
        return load(write(tmp_path / "m.onnx", metadata=metadata)).class_names

    assert names(names="{0: 'a', 1: 'b', 2: 'c'}", author="x, y, z") == ("a", "b", "c")
    assert names(names="{0: 'a', 1: 'b'}", labels="x,y,z") == ("x", "y", "z")
    assert names(classes="a,b") == names(author="x, y, z") == names(labels="0,1,2") == ()


def test_what_a_quantised_network_says_of_itself_is_in_the_note(tmp_path):
    network = load(write(tmp_path / "m.onnx", metadata={"smoothcert": "int8 quantisation of abc"}))
    assert network.note == "int8 quantisation of abc"


def test_a_model_is_adapted_once(tmp_path):
    once = adapted(load(write(tmp_path / "m.onnx")), Adaptation(output="scores"))
    with pytest.raises(ModelError, match="must be adapted once; got a model that is"):
        adapted(once, Adaptation(layout="nchw"))


@pytest.mark.parametrize("seed", range(30))
def test_damaged_files_get_one_line(tmp_path, seed):
    dice = np.random.default_rng(seed)
    label = ("ArgMax", ["scores"], "label", INT, [1])
    path = write(tmp_path / "m.onnx", rows=1, reshape=(1, 16), extra=(label,), outputs=("label", "scores"))
    content = bytearray(path.read_bytes())
    for place in dice.integers(0, len(content), 4):
        content[place] = dice.integers(0, 256)
    path.write_bytes(bytes(content))
    try:
        load(path)(X[:1])
    except SmoothcertError as error:
        assert "\n" not in str(error)


def test_python_says_how_a_file_is_called_in_the_same_words(tmp_path):
    path = write(tmp_path / "m.onnx", classes=1)
    labels = (X.flatten(1) @ weights((1, 4, 4), 1))[:, 0] > 0
    inside = X.clamp(0, 1)
    found = smoothcert.certify(str(path), (inside, labels.long()), sigma=0.25, n=200, binary="logit", progress=False)
    assert len(found.rows) == len(X) and {row.predicted for row in found.rows} <= {-1, 0, 1}
    with pytest.raises(ModelError, match="got one an input: say what it is"):
        smoothcert.certify(str(path), (inside, labels.long()), sigma=0.25, n=200, progress=False)
