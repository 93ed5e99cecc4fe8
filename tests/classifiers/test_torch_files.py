"""TorchScript, torch.export and pickles of torch: loaded on trust, hashed without, refused with the line to write."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert
from smoothcert.classifiers import digest, load, ready, wrap
from smoothcert.cli.main import run
from smoothcert.engine.batch_check import check_batches
from smoothcert.errors import ModelError

X = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
BATCH = ({0: torch.export.Dim("batch")},)


def small() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))
    return nn.Sequential(*layers).eval()


def program(**how) -> torch.export.ExportedProgram:
    return torch.export.export(small(), (X[:3],), **how)


SAVED = {
    "script.pt": lambda name: torch.jit.save(torch.jit.script(small()), name),
    "traced.torchscript": lambda name: torch.jit.save(torch.jit.trace(small(), X), name),
    "frozen.pt": lambda name: torch.jit.save(torch.jit.freeze(torch.jit.script(small())), name),
    "free.pt2": lambda name: torch.export.save(program(dynamic_shapes=BATCH), name),
    "auto.pt2": lambda name: torch.export.save(program(dynamic_shapes=({0: torch.export.Dim.AUTO},)), name),
    "whole.pt": lambda name: torch.save(small(), name),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, save in SAVED.items():
        save(str(folder / name))
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAVED)
def test_files_are_loaded_with_the_scores_of_their_network(files, name):
    loaded, expected = load(files / name), small()(X).detach()
    assert torch.allclose(loaded(X), expected, atol=1e-5)
    prepared = ready(loaded, X[0])
    assert torch.allclose(prepared.classifier(X), expected, atol=1e-4)
    script = name.split(".")[0] in ("script", "traced", "frozen")
    assert prepared.engine == ("torch" if script else "onnxruntime")
    assert prepared.note == ("running on torch: not exportable to ONNX (TorchScript is not)" if script else "")
    assert digest(files / name).covers == "weights"


@pytest.mark.suspicious
@pytest.mark.parametrize("name", SAVED)
def test_without_trust_they_are_hashed_and_not_loaded(files, name):
    digest(files / name)
    with pytest.raises(ModelError, match=r"must be trusted to be loaded: .* when (it is|they are) loaded; only with"):
        load(files / name)


@pytest.mark.parametrize(("how", "rows"), [({}, 3), ({"dynamic_shapes": ({0: torch.export.Dim("b", max=8)},)}, 8)])
def test_a_frozen_batch_size_is_served_and_said(tmp_path, how, rows):
    torch.export.save(program(**how), tmp_path / "m.pt2")
    loaded = load(tmp_path / "m.pt2")
    assert loaded.rows == rows
    prepared = ready(loaded, X[0])
    assert f"the batch is frozen at {rows} rows: export it with dynamic_shapes" in prepared.note
    probe = torch.rand(64, 1, 4, 4)
    settled = check_batches(prepared.classifier, probe, 64)
    assert f"exactly {rows} rows" in settled.note
    assert torch.allclose(settled.call(probe), small()(probe), atol=1e-5)


def test_programs_and_scripts_are_taken_as_objects():
    expected = small()(X).detach()
    exported = program(dynamic_shapes=BATCH)
    for model in (exported, exported.module(), torch.jit.script(small())):
        assert torch.allclose(wrap(model)(X), expected, atol=1e-5)
    smoothed = smoothcert.Smoothed(exported, smoothcert.Gaussian(0.25), num_classes=3)
    assert smoothed.certify(X[0], n=100).evidence.draws == 100
    with pytest.raises(ModelError, match="must be in eval mode"):
        wrap(torch.jit.script(small().train()))
    with pytest.raises(ModelError, match=r"must take one tensor \[batch, …\]; got 2 inputs"):
        wrap(torch.export.export(nn.Bilinear(2, 2, 2).eval(), (torch.rand(3, 2), torch.rand(3, 2))))


def test_a_program_exported_in_train_mode_is_found_out():
    trained = torch.export.export(small().train(), (torch.rand(64, 1, 4, 4),))
    with pytest.raises(ModelError, match="must give the same scores for the same input"):
        check_batches(wrap(trained), torch.rand(64, 1, 4, 4), 64)


@pytest.mark.suspicious
def test_from_the_shell(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=X.numpy(), y=np.zeros(5, dtype=np.int64))
    for name in ("free.pt2", "script.pt"):
        out = name.split(".")[0]
        words = ["certify", str(files / name), "--data", "x.npz", "--sigma", "0.25", "--n", "100", "--out", out]
        assert run(words) == 2 and "only with --trust-code" in capsys.readouterr().err
        assert run([*words, "--trust-code"]) == 0
        assert run(["verify", out, "--redraw", "all", "--trust-code"]) == 0


def test_weights_alone_are_refused_with_the_lines_to_write(tmp_path):
    for saved in (small().state_dict(), {"state_dict": small().state_dict(), "epoch": 3}):
        torch.save(saved, tmp_path / "net.pth")
        with pytest.raises(ModelError, match=r"must hold a network; got weights alone \(write model = Net\(\);"):
            load(tmp_path / "net.pth")
    torch.save(torch.zeros(3), tmp_path / "net.pth")
    with pytest.raises(ModelError, match="must hold a network; got Tensor"):
        load(tmp_path / "net.pth")


class Evil:
    """Whoever unpickles it creates a folder."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def replaced(source: Path, target: Path, part: str, content: bytes) -> None:
    """A copy of an archive with another content of the entry whose name ends so."""
    with zipfile.ZipFile(source) as held, zipfile.ZipFile(target, "w") as made:
        for name in held.namelist():
            made.writestr(name, content if name.endswith(part) else held.read(name))


@pytest.mark.suspicious
def test_nothing_in_a_file_is_executed_without_trust(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    held = io.BytesIO()
    torch.save(Evil(), held)
    Path("a.pt").write_bytes(held.getvalue())
    Path("b.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    replaced(files / "script.pt", Path("c.pt"), "/data.pkl", pickle.dumps(Evil(), protocol=2))
    replaced(files / "free.pt2", Path("d.pt2"), "sample_inputs/model.pt", held.getvalue())
    replaced(files / "free.pt2", Path("e.pt"), "sample_inputs/model.pt", held.getvalue())  # whatever it is called
    for name in ("a.pt", "b.pt", "c.pt", "d.pt2", "e.pt"):
        digest(name)
        with pytest.raises(ModelError) as error:
            load(name)
        assert len(str(error.value)) < 400
    assert not Path("ran").exists()
    with smoothcert.trusting(), pytest.raises(ModelError):
        load("d.pt2")
    assert Path("ran").exists()  # it would have


@pytest.mark.parametrize("name", ["m.pt", "m.pt2", "m.pth", "m.torchscript", "m"])
def test_damaged_files_get_one_line(files, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    whole = (files / "free.pt2").read_bytes()
    script = (files / "script.pt").read_bytes()
    for content in (b"", b"nothing", b"PK\x03\x04" * 9, whole[: len(whole) // 2], script[:-30], script[:900]):
        Path(name).write_bytes(content)
        with pytest.raises(ModelError) as error:
            load(name)
        assert len(str(error.value)) < 400
    replaced(files / "free.pt2", Path(name), "models/model.json", b"{}")
    with pytest.raises(ModelError):
        load(name)


def test_programs_are_hashed_with_what_they_compute():
    """Of a frozen one nothing is left that a state dict would hold."""
    from smoothcert.classifiers.objects import digest_of

    def frozen(scale: float) -> nn.Module:
        network = small()
        with torch.no_grad():
            network[-1].weight *= scale
        return torch.jit.freeze(torch.jit.script(network))

    one, same, other = (digest_of(wrap(frozen(scale))) for scale in (1.0, 1.0, 2.0))
    assert one == same != other
    with torch.no_grad():
        shown = [torch.export.export(net, (X,)).module() for net in (small(), nn.Sequential(small(), nn.Tanh()).eval())]
    assert digest_of(wrap(shown[0])) != digest_of(wrap(shown[1]))
