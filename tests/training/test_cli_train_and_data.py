"""`smoothcert train` and `smoothcert data` from the command line: what they print, and their exit codes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest

from smoothcert import progress
from smoothcert.cli.main import run
from smoothcert.training import Settings
from smoothcert.training.checkpoints import read_config


@pytest.fixture
def smoothcert(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_train_writes_a_checkpoint_and_says_what_it_reached(smoothcert, tmp_path):
    sets = ["--set", "width=4", "--set", "copies=2", "--set", "mean=0.25"]
    options = ["--epochs", 2, "--batch", 64, "--lr", "0.2", *sets]
    code, out, _ = smoothcert("train", "--out", tmp_path / "net", *options)
    assert code == 0 and "epoch 2, accuracy under noise 0." in out
    config = read_config(tmp_path / "net")
    assert config["arch_options"] == {"mean": [0.25], "std": [0.376], "width": 4}
    assert config["settings"]["objective_options"] == {"copies": 2}
    code, _, err = smoothcert("train", "--out", tmp_path / "net", *options, "--sigma", "0.5")
    assert code == 2 and "sigma of the training" in err and err.count("\n") == 1


def test_a_name_that_noise_and_network_share_is_the_noises_unless_it_says_whose(smoothcert, tmp_path):
    words = ["train", "--arch", "digits_cnn", "--noise", "band", "--set", "width=3", "--describe"]
    code, out, err = smoothcert(*words)
    assert code == 0 and "width 3, of columns" in out
    assert "--set width=3 is of the noise; arch.width would be another" in err
    wide = out.splitlines()[0]
    code, out, _ = smoothcert(*words, "--set", "arch.width=2")
    assert code == 0 and "width 3, of columns" in out and out.splitlines()[0] != wide
    assert smoothcert(*words, "--set", "objective.width=2")[0] == 2


@pytest.mark.parametrize(("options", "words"), [
    (["--sigma", "nan"], "sigma of training"),
    (["--sigma", "0"], "sigma of training"),
    (["--epochs", "0"], "epochs of training"),
    (["--arch", "resnet21"], "depth of resnet"),
    (["--arch", "lenet"], "inputs of lenet"),
    (["--data", "cifar"], "did you mean 'cifar10'"),
    (["--set", "colour=blue"], "set of training must be name=value"),
    (["--set", "width"], "set of training must be name=value"),
    (["--set", "width=wide"], "width of digits_cnn"),
    (["--device", "abacus"], "device of training"),
    (["--optimiser", "sgdd"], "did you mean 'sgd'"),
    (["--threads", "0"], "threads of a forward pass"),
    (["--range", "0"], "range must be two numbers"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(smoothcert, tmp_path, options, words):
    code, _, err = smoothcert("train", "--out", tmp_path / "net", *options)
    assert code == 2 and words in err and err.count("\n") == 1
    assert not (tmp_path / "net").exists()


def test_progress_ends_at_the_last_epoch(smoothcert, tmp_path, monkeypatch):
    told = []

    @contextlib.contextmanager
    def bar(title, unit):
        yield lambda done, total, text: told.append((done / total, text))

    monkeypatch.setattr(progress, "bar", bar)
    # 21 steps: 21 times 1/21 is above 1 in floating point.
    assert smoothcert("train", "--out", tmp_path / "net", "--epochs", 2, "--batch", 64, "--set", "width=2")[0] == 0
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(told) == 2 * 21 + 2
    assert {text.split(",")[0] for _, text in told} == {"epoch 1/2", "epoch 2/2"}


def test_data_list_and_get(smoothcert, tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    code, out, _ = smoothcert("data", "list")
    assert code == 0 and "embedded" in out and "no: smoothcert data get cifar10" in out and "3×32×32" in out
    told = {one["name"]: one for one in json.loads(smoothcert("data", "list", "--json")[1])}
    assert told["digits"]["there"] and not told["cifar10"]["there"] and told["cifar10"]["sizes"]["test"] == 10_000
    assert smoothcert("data", "get", "digits")[:2] == (0, "digits is embedded; there is nothing to fetch\n")
    code, _, err = smoothcert("data", "get", "mnits")
    assert code == 2 and "did you mean 'mnist'" in err and err.count("\n") == 1


def test_get_without_any_source_is_one_line(smoothcert, tmp_path, monkeypatch):
    from smoothcert.data import _sets

    def offline(*arguments, **options):
        raise OSError("offline")

    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_sets.urllib.request, "urlopen", offline)
    for name in ("cifar10", "mnist", "fashion_mnist"):
        code, _, err = smoothcert("data", "get", name)
        assert code == 2 and f"{name} could not be fetched" in err and err.count("\n") == 1
        assert "offline" in err and "is not installed" in err
    assert not (tmp_path / "cache").exists()


SHORT = ["--epochs", 1, "--batch", 64, "--set", "width=4", "--threads", 1]


def test_other_epochs_are_refused_before_torch_is_imported(tmp_path):
    out = tmp_path / "net"
    out.mkdir()
    (out / "config.json").write_text(json.dumps({"settings": Settings("digits", "digits_cnn", epochs=1).table()}))
    code = (
        "import sys; from smoothcert.cli.main import run;"
        f"assert run(['train', '--epochs', '3', '--out', {str(out)!r}]) == 2; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "epochs of the training in" in done.stderr and f"--from '{out}'" in done.stderr


def test_several_seeds_make_several_networks(smoothcert, tmp_path):
    code, out, _ = smoothcert("train", "--out", tmp_path, "--seeds", "0-1,5", *SHORT)
    assert code == 0 and out.count("accuracy under noise") == 3 and "certified accuracy will be about" in out
    seeds = [read_config(tmp_path / f"seed-{seed}")["settings"]["seed"] for seed in (0, 1, 5)]
    assert seeds == [0, 1, 5]
    log = list((tmp_path / "seed-0" / "tensorboard").iterdir())
    assert len(log) == 1 and log[0].stat().st_size > 100
    code, _, err = smoothcert("train", "--out", tmp_path, "--seeds", "one", *SHORT)
    assert code == 2 and "seeds of training must be whole numbers" in err


def test_describe_tells_cost_and_settings_and_trains_nothing(smoothcert, tmp_path):
    options = ["--objective", "smoothadv", "--sigma", "0.5", "--set", "copies=3"]
    code, out, _ = smoothcert("train", "--describe", "--out", tmp_path / "net", *options)
    assert code == 0 and "parameters" in out and "M multiply-adds an input" in out
    assert "steps 2, epsilon 2.0, copies 3" in out and not (tmp_path / "net").exists()
    assert "normalisation: mean 0.305, std 0.376 (digits)" in out and "sgd, rate 0.1 by step, 150 epochs\n" in out
    assert out.endswith("momentum 0.9 (Nesterov), weight decay 0.0001, augmentation none\n")
    code, _, err = smoothcert("train", *options)
    assert code == 2 and "--out" in err and err.count("\n") == 1


def test_a_denoiser_and_then_stability_of_a_classifier_behind_it(smoothcert, tmp_path):
    network = ["--arch", "dncnn4", "--lr", "0.01", "--batch", 64, "--threads", 1]
    code, out, _ = smoothcert("train", "--out", tmp_path / "mse", "--objective", "denoise", "--epochs", 2, *network)
    assert code == 0 and "squared error under noise" in out
    first = read_config(tmp_path / "mse")["noisy_mse"]
    assert first < 0.25**2  # less than the noise itself
    assert smoothcert("train", "--out", tmp_path / "classifier", *SHORT)[0] == 0
    behind = ["--objective", "stability", "--set", f"classifier={tmp_path / 'classifier'}", "--from", tmp_path / "mse"]
    code, _, _ = smoothcert("train", "--out", tmp_path / "stable", "--epochs", 1, *behind, *network)
    assert code == 0 and "stability" in read_config(tmp_path / "stable")["loss"]
    code, _, err = smoothcert("train", "--out", tmp_path / "no", "--objective", "denoise", *SHORT)
    assert code == 2 and "must be a denoiser" in err and not (tmp_path / "no").exists()
    code, _, err = smoothcert("train", "--out", tmp_path / "no", "--arch", "dncnn4")
    assert code == 2 and "must be a classifier" in err and not (tmp_path / "no").exists()


def test_other_labels(smoothcert, tmp_path):
    import numpy as np

    np.savez(tmp_path / "labels.npz", index=np.arange(100), label=np.arange(100) % 2)
    code, _, _ = smoothcert("train", "--out", tmp_path / "net", "--labels", tmp_path / "labels.npz", *SHORT)
    assert code == 0 and read_config(tmp_path / "net")["classes"] == 2
    np.savez(tmp_path / "far.npz", index=[10**6], label=[1])
    np.savez(tmp_path / "half.npz", index=[1, 2], label=[0.5, 1.0])
    np.savez(tmp_path / "strange.npz", x=[1])
    (tmp_path / "empty.npz").write_bytes(b"")
    for file, words in (
        ("far.npz", "must be below"),
        ("absent.npz", "must be an .npz file; got no such file"),
        ("half.npz", "label of labels"),
        ("strange.npz", "must hold arrays index and label; got x"),
        ("empty.npz", "must be a sound .npz file"),
    ):
        code, _, err = smoothcert("train", "--out", tmp_path / "other", "--labels", tmp_path / file, *SHORT)
        assert code == 2 and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "0-99999999999"], "seeds of training must be at most 10000 numbers; got '0-99999999999'"),
        (["--seeds", "9" * 5000], "seeds of training must be whole numbers as in 0-4 or 0,3,7"),
        (["--seeds", "4-0"], "seeds of training must be whole numbers as in 0-4 or 0,3,7; got '4-0'"),
        (["--seeds", "²"], "seeds of training must be whole numbers as in 0-4 or 0,3,7; got '²'"),
        (["--lr", "1e308"], "lr of training must be a finite number above 0 and at most 1e+06; got 1e+308"),
        (["--epochs", str(10**23)], "epochs of training must be a whole number of at most 2147483647"),
        (["--threads", "100000"], "threads of a forward pass must be a whole number of at most 1024; got 100000"),
    ],
)
def test_numbers_beyond_sense_are_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["train", *words, "--out", "m"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and len(line) < 700 and not list(tmp_path.iterdir())
