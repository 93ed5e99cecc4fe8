"""A classifier behind a denoiser: the composition itself, its folder, and its one graph."""

from __future__ import annotations

import json

import denoisers
import linear
import pytest
import torch

import smoothcert
from smoothcert.classifiers import composite, differentiable, digest, load, ready, wrap
from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.composite import Composite
from smoothcert.ensembles import as_network
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.errors import ModelError, OutputError


@pytest.fixture
def parts(tmp_path):
    denoisers.write(tmp_path / "a", "dncnn3", 1, width=4)
    denoisers.write(tmp_path / "b", "dncnn3", 2, width=4)
    denoisers.write(tmp_path / "net", "digits_cnn", 3, width=4)
    return tmp_path


def x_of(rows=5):
    return torch.rand(rows, *denoisers.SHAPE, generator=torch.Generator().manual_seed(0))


def kept(folder, *names, vote=None):
    members = [composite.described(folder, str(folder.parent / name), "denoiser") for name in names]
    members.append(composite.described(folder, str(folder.parent / "net"), "classifier"))
    composite.write(folder, Composite("denoised", tuple(members), vote))
    return folder


def test_scores_are_the_classifiers_of_what_the_denoiser_gives_back(parts):
    first, net = load(parts / "a"), load(parts / "net")
    together = load(kept(parts / "one", "a"))
    assert torch.equal(together(x_of()), net(first(x_of())))
    assert not torch.equal(together(x_of()), net(x_of()))


def test_several_denoisers_are_an_ensemble_of_denoised_classifiers_that_share_one_network(parts):
    both = load(kept(parts / "two", "a", "b", vote={"name": "soft_vote"}))
    net = load(parts / "net")
    pairs = [DenoisedClassifier(load(parts / name), net) for name in ("a", "b")]
    assert isinstance(both, SoftVote)
    assert torch.equal(both(x_of()), SoftVote(tuple(pairs))(x_of()))
    assert both.members[0].classifier is both.members[1].classifier


def test_the_same_denoiser_twice_answers_as_once(parts):
    twice = load(kept(parts / "twice", "a", "a", vote={"name": "soft_vote"}))
    assert torch.equal(twice(x_of()), load(kept(parts / "once", "a"))(x_of()))


def test_made_fast_it_answers_the_same(parts):
    both = load(kept(parts / "two", "a", "b", vote={"name": "soft_vote"}))
    fast = ready(both, x_of()[0], threads=1)
    assert fast.engine == "onnxruntime"
    torch.testing.assert_close(fast.classifier(x_of()), both(x_of()), rtol=1e-4, atol=1e-4)


def test_black_boxes_and_gradients():
    """Any callable may be either part; where both are networks there are gradients, for searches that climb."""
    black = smoothcert.Denoised(denoisers.halve, linear.score)
    x = torch.rand(6, 4)
    assert torch.equal(black(x), linear.score(x / 2))
    noisy = smoothcert.Smoothed(black, smoothcert.Gaussian(0.25)).certify(torch.tensor([1.0, 0.0, 1.0, 1.0]), n=500)
    assert noisy.label == 1 and noisy.radius > 0
    networks = smoothcert.Denoised(torch.nn.Linear(4, 4).eval(), torch.nn.Linear(4, 2).eval())
    x.requires_grad_()
    differentiable(networks, x[0])(x).sum().backward()
    assert float(x.grad.abs().sum()) > 0


def test_one_graph_has_the_same_scores(parts):
    from smoothcert.classifiers.onnx import from_network

    both = load(kept(parts / "two", "a", "b", vote={"name": "soft_vote"}))
    exported = from_network(as_network(both), x_of()[0])
    torch.testing.assert_close(exported(x_of(3)), both(x_of(3)), rtol=1e-4, atol=1e-4)
    with pytest.raises(ModelError, match="a model to export must be made of torch networks; got a callable"):
        as_network(smoothcert.Denoised(denoisers.halve, load(parts / "net")))


def test_the_hash_is_of_the_function_and_changed_parts_are_refused(parts):
    one, other = kept(parts / "one", "a"), kept(parts / "other", "b")
    assert digest(one) == digest(kept(parts / "again", "a")) != digest(other)
    assert digest(kept(parts / "ab", "a", "b", vote={"name": "soft_vote"})) != digest(
        kept(parts / "ba", "b", "a", vote={"name": "soft_vote"})
    )
    weights = parts / "a" / "weights.safetensors"
    weights.write_bytes((parts / "b" / "weights.safetensors").read_bytes())
    with pytest.raises(ModelError, match=r"member .*/a of .* must be what it was when that folder was made"):
        load(one)
    assert load(other) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"members": []},
        {"format": 2},
        {"vote": {"name": "soft_vote"}},
        {"members": [{"place": "x"}]},
        {"members": 3},
        {"kind": "ensemble"},
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(parts, change):
    folder = kept(parts / "one", "a")
    table = json.loads((folder / "composite.json").read_bytes()) | change
    (folder / "composite.json").write_text(json.dumps(table))
    with pytest.raises(ModelError, match=r"composite\.json") as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def test_other_folders_are_not_written_into(parts):
    with pytest.raises(OutputError, match="must be a new folder or a denoised classifier; got"):
        kept(parts / "net", "a")
    (parts / "file").write_text("")
    with pytest.raises(OutputError, match="must be a folder; got the file"):
        kept(parts / "file", "a")


def test_what_does_not_give_back_its_inputs_is_no_denoiser(parts):
    for part, got in ((denoisers.crop, r"\[5, 0, 8, 8\]"), (load(parts / "net"), r"\[5, 10\]")):
        with pytest.raises(ModelError, match=f"a denoiser must give back .*; got {got}"):
            DenoisedClassifier(wrap(part), load(parts / "net"))(x_of())
    with pytest.raises(ModelError, match=r"must return a tensor .*; got int"):
        DenoisedClassifier(wrap(lambda x: 1), load(parts / "net"))(x_of())


def test_frozen_batch_sizes_must_agree(parts):
    class Frozen:
        def __init__(self, rows):
            self.rows = rows

        def __call__(self, x):
            return x

    assert DenoisedClassifier(Frozen(4), load(parts / "net")).rows == DenoisedClassifier(Frozen(4), Frozen(4)).rows == 4
    with pytest.raises(ModelError, match="must take the same number of rows; got 4 and 8"):
        DenoisedClassifier(Frozen(4), Frozen(8))
