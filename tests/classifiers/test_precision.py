"""In which numbers a network computes is part of what is certified: of its digest, of verification, of the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert
from smoothcert import classifiers
from smoothcert.classifiers import ready
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.module import Module
from smoothcert.classifiers.onnx import from_network
from smoothcert.classifiers.precision import computing
from smoothcert.cli.main import run
from smoothcert.engine import executor
from smoothcert.engine.batch_check import check_batches, rounding
from smoothcert.engine.device import Device
from smoothcert.engine.threads import Threads
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.runs.store import read

ASKED = ("--data", "data.npz", "--sigma", "0.25", "--N", "300", "--seed", "3")


def network() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


def half(kind: str = "bfloat16") -> Module:
    found = adapted(Module(network()), Adaptation(precision=kind))
    assert isinstance(found, Module)
    return found


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).random((8, 1, 4, 4), dtype=np.float32)
    np.savez("data.npz", x=x, y=np.arange(8) % 4)
    torch.export.save(torch.export.export(network(), (torch.rand(2, 1, 4, 4),),
                      dynamic_shapes=({0: torch.export.Dim("batch")},)), "mine.pt2")  # fmt: skip
    return tmp_path


def counts(out):
    return [row.answers for row in read(Path(out)).rows]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_scores_are_other_numbers_in_float32_again(kind):
    x = torch.rand(64, 1, 4, 4)
    plain, other = Module(network())(x), half(kind)(x)
    assert other.dtype == torch.float32 and torch.equal(other, other.to(getattr(torch, kind)).float())
    assert not torch.equal(plain, other) and torch.allclose(plain, other, atol=0.05)
    assert Module(network()).state() != half(kind).state()


def test_float32_is_float32_though_the_caller_is_in_autocast():
    x = torch.rand(8, 1, 4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = Module(network())(x)
    assert torch.equal(found, Module(network())(x))


@pytest.mark.parametrize("before", ["none", "tf32", "ieee"])
def test_tf32_is_off_on_cuda_unless_asked_for_and_afterwards_as_it_was(before):
    parts = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    usual = [part.fp32_precision for part in parts]
    try:
        for part in parts:
            part.fp32_precision = before
        for precision, inside in (("float32", "ieee"), ("tf32", "tf32"), ("bfloat16", "ieee")):
            if precision != "bfloat16":  # autocast of CUDA warns that there is none
                with computing(precision, "cuda:0"):
                    assert {part.fp32_precision for part in parts} == {inside}
            with computing(precision, "cpu"):
                assert {part.fp32_precision for part in parts} == {before}
        assert {part.fp32_precision for part in parts} == {before}
    finally:
        for part, value in zip(parts, usual, strict=True):
            part.fp32_precision = value


def test_a_network_in_half_precision_may_be_rounded_more_before_it_is_refused():
    assert rounding(half()) > rounding(half("float16")) > rounding(Module(network())) == rounding(lambda x: x)
    prepared = ready(half(), torch.rand(1, 4, 4)).classifier
    assert check_batches(prepared, torch.rand(256, 1, 4, 4), 64).classes == 4


def test_the_engine_is_torch_and_devices_keep_their_name(monkeypatch):
    x = torch.rand(1, 4, 4)
    found = ready(half(), x)
    assert found.engine == "torch" and "precision bfloat16 is torch's own" in found.note
    assert ready(Module(network()), x, "torch").engine == "torch"
    assert ready(Module(network()), x, "torch:cpu").engine == "torch:cpu"
    both = smoothcert.Ensemble([Module(network()), Module(network())])
    assert ready(both, x, "torch:cpu").engine == "torch:cpu"
    assert isinstance(executor("torch:cpu", 8), Device) and isinstance(executor("torch", 8), Threads)
    with pytest.raises(OptionError, match=r"network in bfloat16 must be torch \(--engine torch\); got onnxruntime"):
        ready(half(), x, "onnxruntime")
    # What is chosen where there is a GPU, up to the moment when the network would go there.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("smoothcert.classifiers.module.arranged", lambda c, e, device: Module(c.network, device))
    assert classifiers.ready(Module(network()), x).engine == "torch:cuda"


def test_what_has_no_precision_of_torchs_is_refused():
    with pytest.raises(
        OptionError, match=r"tf32 must be computed on CUDA \(--engine torch:cuda\); got the device 'cpu'"
    ):
        ready(half("tf32"), torch.rand(1, 4, 4), "torch")
    with pytest.raises(ModelError, match="precision must be of a torch network; got bfloat16 and another model"):
        adapted(lambda x: x, Adaptation(precision="bfloat16"))
    with pytest.raises(ModelError, match="precision must be those of one model; got several"):
        adapted(smoothcert.Ensemble([network(), network()]), Adaptation(precision="bfloat16"))


def test_a_run_in_half_precision_is_another_question_and_is_verified_in_it(place, capsys):
    how = {"plain": (), "half": ("--precision", "bfloat16"), "named": ("--precision", "float32"),
           "device": ("--precision", "bfloat16", "--engine", "torch:cpu")}  # fmt: skip
    for out, options in how.items():
        assert run(["certify", "mine.pt2", *ASKED, "--out", out, *options]) == 0
    digests = {out: read(Path(out)).asked.model_digest for out in how}
    assert digests["plain"] == digests["named"] != digests["half"] == digests["device"]
    assert counts("plain") == counts("named") != counts("half") == counts("device")
    assert read(Path("device")).means.engine == "torch:cpu"
    for out in ("half", "device"):
        capsys.readouterr()
        assert run(["verify", out, "--redraw", "all"]) == 0
        assert "0 votes moved within rounding" in capsys.readouterr().out
    assert run(["certify", "mine.pt2", *ASKED, "--out", "plain", "--precision", "bfloat16"]) == 2  # another question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--precision", "float64"),
            "precision of a model must be one of bfloat16, float16, float32, tf32; got 'float64'",
        ),
        (
            ("--precision", "bfloat16", "--engine", "onnxruntime"),
            "in bfloat16 must be torch (--engine torch); got onnx",
        ),
        (("--precision", "tf32"), "precision tf32 must be computed on CUDA (--engine torch:cuda)"),
    ],
)
def test_nonsense_on_the_command_line_is_refused_in_one_line(options, message, place, capsys):
    assert run(["certify", "mine.pt2", *ASKED, "--out", "other", *options]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in last and not (place / "other").exists()


def test_an_onnx_file_has_no_precision_to_choose(place, capsys):
    (place / "mine.onnx").write_bytes(from_network(network(), torch.rand(1, 4, 4)).content)
    assert run(["certify", "mine.onnx", *ASKED, "--out", "other", "--precision", "bfloat16"]) == 2
    assert "got bfloat16 and an ONNX file, which computes as it says itself" in capsys.readouterr().err


def test_a_network_in_python_has_the_same_argument(place):
    with np.load("data.npz") as data:
        x, y = data["x"], data["y"]
    made = {p: smoothcert.certify(network(), (x, y), 0.25, n=300, seed=3, progress=False, out=p, precision=p)
            for p in ("float32", "bfloat16")}  # fmt: skip
    assert made["float32"].asked.model_digest != made["bfloat16"].asked.model_digest
    assert [row.answers for row in made["float32"].rows] != [row.answers for row in made["bfloat16"].rows]
    for one in made.values():
        assert not one.verify(redraw=-1).problems
        assert not smoothcert.open_run(one.folder).verify(redraw=-1, model=network()).problems
    with pytest.raises(RunError, match="model must be the one that bfloat16 certified"):
        made["bfloat16"].verify(model=nn.Sequential(nn.Flatten(), nn.Linear(16, 4)).eval())
    with pytest.raises(OptionError, match="precision of a model must be one of"):
        smoothcert.certify(network(), (x, y), 0.25, progress=False, precision="half")
