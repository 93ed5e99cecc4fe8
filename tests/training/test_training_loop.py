"""The loop: it learns, it repeats itself bit for bit, it goes on where it was stopped, it refuses what cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from smoothcert import data
from smoothcert.contracts import Batch
from smoothcert.errors import DataError, ModelError, OptionError, OutputError, RunError, SmoothcertError, TrainingError
from smoothcert.noise.gaussian import Gaussian as Noise
from smoothcert.training import Settings, checkpoints, setup
from smoothcert.training.feeding import crop_flip
from smoothcert.training.loop import Watch, train
from smoothcert.training.noisy import fresh, scores
from smoothcert.training.objectives.gaussian import GaussianObjective

SMALL = {"data": "digits", "arch": "digits_cnn4", "epochs": 4, "batch": 64, "schedule": "one_cycle"}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in parallel may differ in the last bit
    yield
    torch.set_num_threads(before)


class StopAfter(Watch):
    """Ctrl-C in the middle of an epoch."""

    def __init__(self, steps):
        self.left = steps

    def stepped(self, terms):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def weights(folder):
    return (folder / checkpoints.WEIGHTS).read_bytes()


def test_it_learns_digits_under_noise(tmp_path):
    config = train(Settings(**{**SMALL, "arch": "digits_cnn", "epochs": 8}), tmp_path / "net")
    assert config["noisy_accuracy"] > 0.9
    assert config["epoch"] == 8 and config["loss"]["cross_entropy"] < 0.5
    network, stored = checkpoints.read_network(tmp_path / "net")
    assert stored == json.loads(json.dumps(config)) and not network.training
    test = data.load("digits")
    with torch.inference_mode():
        clean = (network(test.tensors()).argmax(dim=1).numpy() == test.labels).mean()
    assert clean > 0.95


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path):
    short = {**SMALL, "epochs": 1}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(seed + 3)  # whatever the caller did with torch's own generator
        train(Settings(**short, seed=seed), tmp_path / name)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_training_leaves_the_callers_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(Settings(**{**SMALL, "epochs": 1}), tmp_path / "net")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(  # 21 steps an epoch: in the first, second and last epoch
    ("steps", "optimiser"), [(1, "sgd"), (30, "sgd"), (75, "sgd"), (30, "adamw")]
)
def test_stopped_and_resumed_is_bit_equal(tmp_path, steps, optimiser):
    settings = Settings(**SMALL, optimiser=optimiser)
    train(settings, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "stopped", StopAfter(steps))
    if steps > 21:
        assert checkpoints.read_config(tmp_path / "stopped")["epoch"] == (steps - 1) // 21
    config = train(settings, tmp_path / "stopped")
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    assert config == checkpoints.read_config(tmp_path / "whole")


def test_a_kill_between_the_files_of_a_checkpoint_is_healed(tmp_path, monkeypatch):
    settings = Settings(**{**SMALL, "epochs": 2})
    train(settings, tmp_path / "whole")

    def killed(folder, tensors, config):
        if config["epoch"] == 2:
            raise KeyboardInterrupt  # state.pt of epoch 2 is there, its weights and config are not

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path / "killed")
    assert not (tmp_path / "killed" / checkpoints.WEIGHTS).exists()
    train(settings, tmp_path / "killed")
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert checkpoints.read_network(tmp_path / "killed")[1]["epoch"] == 2


def test_kill_9_leaves_a_checkpoint_that_goes_on(tmp_path):
    code = (
        "import torch; torch.set_num_threads(1); from pathlib import Path; from smoothcert.training.loop import train;"
        "from smoothcert.training import Settings;"
        f"train(Settings(**{SMALL!r}), Path({str(tmp_path / 'net')!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while process.poll() is None and not (tmp_path / "net" / checkpoints.STATE).exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    train(Settings(**SMALL), tmp_path / "net")
    train(Settings(**SMALL), tmp_path / "whole")
    assert weights(tmp_path / "net") == weights(tmp_path / "whole")


def test_a_finished_training_is_left_as_it_is(tmp_path):
    settings = Settings(**{**SMALL, "epochs": 1})
    first = train(settings, tmp_path / "net")
    assert train(settings, tmp_path / "net", StopAfter(1)) == json.loads(json.dumps(first))


@pytest.mark.parametrize(("option", "value"), [("sigma", 0.5), ("seed", 3), ("epochs", 2), ("arch", "digits_cnn5")])
def test_other_settings_are_refused_by_name(tmp_path, option, value):
    settings = {**SMALL, "epochs": 1, "sigma": 0.25, "seed": 0}
    train(Settings(**settings), tmp_path / "net")
    before = weights(tmp_path / "net")
    with pytest.raises(RunError, match=rf"{option} of the training in .* must stay {settings[option]}; got {value}"):
        train(Settings(**{**settings, option: value}), tmp_path / "net")
    assert weights(tmp_path / "net") == before


def test_other_settings_are_refused_before_anything_is_loaded_and_the_way_on_is_told(tmp_path, monkeypatch):
    train(Settings(**{**SMALL, "epochs": 1}), tmp_path / "net")
    monkeypatch.setattr(setup, "inputs", None)
    for option, words in (("epochs", "another --out; begin there with these weights by --from"), ("arch", "--out$")):
        with pytest.raises(RunError, match=words):
            train(Settings(**{**SMALL, "epochs": 1, option: 3 if option == "epochs" else "mlp"}), tmp_path / "net")


def test_other_data_under_the_same_name_are_refused(tmp_path):
    path = tmp_path / "mine.npz"
    settings = Settings(data=str(path), arch="mlp8", epochs=1, batch=4)
    x, y = np.random.default_rng(0).random((8, 5)), np.arange(8) % 3
    np.savez(path, x=x, y=y)
    config = train(settings, tmp_path / "net")
    assert config["classes"] == 3 and config["shape"] == [5]
    np.savez(path, x=x, y=y[::-1])
    with pytest.raises(RunError, match="data of the training"):
        train(settings, tmp_path / "net")


def test_divergence_names_the_term_and_keeps_the_last_epoch(tmp_path, monkeypatch):
    settings = Settings(**SMALL)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "net", StopAfter(25))
    before = weights(tmp_path / "net")

    def broken(self, model, batch):
        return {"cross_entropy": scores(model, batch.x[None]).sum(), "hinge": torch.tensor(float("nan"))}

    monkeypatch.setattr(GaussianObjective, "__call__", broken)
    with pytest.raises(TrainingError, match=r"loss term hinge .* nan in epoch 2 \(epoch 1 is kept\); try a smaller"):
        train(settings, tmp_path / "net")
    assert weights(tmp_path / "net") == before and issubclass(TrainingError, SmoothcertError)


def test_a_huge_rate_diverges_in_one_line(tmp_path):
    with pytest.raises(TrainingError, match="must stay finite") as error:
        train(Settings(**{**SMALL, "lr": 1e6, "epochs": 3}), tmp_path / "net")
    assert "\n" not in str(error.value) and not (tmp_path / "net" / checkpoints.CONFIG).exists()


@pytest.mark.parametrize(("options", "words"), [
    ({"sigma": 0.0}, "sigma"), ({"sigma": -1.0}, "sigma"), ({"sigma": float("nan")}, "sigma"),
    ({"sigma": float("inf")}, "sigma"), ({"lr": 0.0}, "lr"), ({"epochs": 0}, "epochs"), ({"epochs": 1.5}, "epochs"),
    ({"batch": 0}, "batch"), ({"seed": -1}, "seed"), ({"schedule": "steps"}, "did you mean 'step'"),
    ({"augment": "flip"}, "augment"), ({"momentum": 1.0}, "momentum"), ({"weight_decay": -1.0}, "weight_decay"),
    ({"precision": "bfloat61"}, "did you mean 'bfloat16'"), ({"precision": "float16"}, "precision of training"),
    ({"sigma": "much"}, "sigma"), ({"optimiser": "adam"}, "did you mean 'adamw'"), ({"lr": "low"}, "lr"),
])  # fmt: skip
def test_bad_settings_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        Settings(**{**SMALL, **options})


def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path):
    cases = [
        ({"arch": "lenet"}, ModelError, "inputs of lenet"),
        ({"arch": "lenett"}, OptionError, "architecture must be"),
        ({"objective": "gausian"}, OptionError, "did you mean 'gaussian'"),
        ({"objective_options": {"copies": 0}}, OptionError, "copies of gaussian"),
        ({"arch_options": {"depth": 3}}, OptionError, "option of digits_cnn4"),
        ({"data": str(tmp_path / "absent.npz")}, DataError, "no such file"),
    ]
    for options, kind, words in cases:
        with pytest.raises(kind, match=words):
            train(Settings(**{**SMALL, **options}), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_layers_compute_in_bfloat16_where_asked_while_weights_and_scores_stay_float32(tmp_path):
    seen = []

    class Probe(Watch):
        def started(self, done, epochs, steps):
            self.hook = torch.nn.modules.module.register_module_forward_hook(
                lambda module, given, made: (
                    seen.append((made.dtype, module.weight.dtype)) if isinstance(module, torch.nn.Linear) else None
                )
            )

        def stepped(self, terms):
            self.steps = getattr(self, "steps", 0) + 1
            self.during = set(seen)

    watch = Probe()
    try:
        config = train(Settings(**{**SMALL, "precision": "bfloat16"}), tmp_path / "half", watch)
    finally:
        watch.hook.remove()
    assert watch.steps and (torch.bfloat16, torch.float32) in watch.during
    assert config["settings"]["precision"] == "bfloat16"
    single = train(Settings(**SMALL), tmp_path / "single")
    assert weights(tmp_path / "half") != weights(tmp_path / "single")
    assert abs(config["noisy_accuracy"] - single["noisy_accuracy"]) < 0.05
    network, _ = checkpoints.read_network(tmp_path / "half")
    assert {one.dtype for one in network.parameters()} == {torch.float32}


@pytest.mark.parametrize("objective", [
    "gaussian", "consistency", "macer", "smoothadv", "smoothmix", "advmacer",
])  # fmt: skip
def test_every_objective_learns_in_bfloat16(tmp_path, objective):
    few = {"data": "digits", "arch": "digits_cnn4", "epochs": 2, "batch": 128, "schedule": "one_cycle", "sigma": 0.25}
    config = train(Settings(**few, objective=objective, precision="bfloat16", lr=0.05), tmp_path / "net")
    assert config["noisy_accuracy"] > 0.2  # of ten classes
    stopped = StopAfter(15)
    with pytest.raises(KeyboardInterrupt):
        train(Settings(**few, objective=objective, precision="bfloat16", lr=0.05), tmp_path / "again", stopped)
    train(Settings(**few, objective=objective, precision="bfloat16", lr=0.05), tmp_path / "again")
    assert weights(tmp_path / "net") == weights(tmp_path / "again")


def test_a_foreign_or_unwritable_out_is_refused_before_training(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("")
    for out, words in (("other", r"empty folder or a checkpoint; .* thesis\.tex"), ("file", "a folder; got the")):
        with pytest.raises(OutputError, match=words):
            train(Settings(**SMALL), tmp_path / out, StopAfter(1))
    with pytest.raises(OutputError, match="must be writable"):
        train(Settings(**SMALL), tmp_path / "file" / "net", StopAfter(1))


def test_each_optimiser_has_its_own_rate_and_steps(tmp_path):
    assert Settings(**SMALL).lr == 0.1 and Settings(**SMALL, optimiser="adamw").lr == 0.001
    assert Settings(**SMALL, optimiser="adamw", lr=0.02).lr == 0.02
    settings = Settings(**{**SMALL, "epochs": 1, "batch": 2000, "schedule": "step", "optimiser": "adamw"})
    train(settings, tmp_path / "net")
    began = setup.network(checkpoints.read_config(tmp_path / "net"), settings).state_dict()
    moved = checkpoints.read_network(tmp_path / "net")[0].state_dict()
    names = [name for name, _ in checkpoints.read_network(tmp_path / "net")[0].named_parameters()]
    # Adam's first step is the rate times the sign of the gradient, and decay adds its own 1e-7 of the weight.
    steps = torch.cat([(moved[name] - began[name]).flatten() for name in names]).abs()
    assert float(steps.max()) <= 0.001 * 1.001 and float(steps.median()) >= 0.00099


def test_schedules():
    step = Settings(data="digits", arch="mlp", epochs=150)
    assert [round(step.rate(e), 9) for e in (0, 49.99, 50, 99.99, 100, 149.99)] == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    cycle = Settings(data="digits", arch="mlp", epochs=10, schedule="one_cycle")
    rates = [cycle.rate(e / 10) for e in range(100)]
    assert max(rates) == pytest.approx(0.1) and rates.index(max(rates)) == 30
    assert rates[:31] == sorted(rates[:31]) and rates[30:] == sorted(rates[30:], reverse=True)
    assert rates[0] > 0 and rates[-1] < 1e-3
    triangle = Settings(data="digits", arch="mlp", epochs=10, schedule="triangular", lr=1.0)
    assert [triangle.rate(e) for e in (0, 1, 2, 6, 10)] == pytest.approx([0.1, 0.55, 1.0, 0.5, 0.0])


def test_the_gaussian_loss_is_the_mean_cross_entropy_at_its_own_draws():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    x, y = torch.rand(5, 1, 2, 2), torch.arange(5) % 3

    def batch():
        return Batch(x, y, torch.full((5,), 0.5), torch.Generator().manual_seed(1), 0.0, Noise(0.5))

    noisy = fresh(batch(), 3)(x)
    expected = torch.stack([torch.nn.functional.cross_entropy(network(copy), y) for copy in noisy]).mean()
    terms = GaussianObjective(copies=3)(network, batch())
    assert list(terms) == ["cross_entropy"] and torch.allclose(terms["cross_entropy"], expected)


def test_crop_and_flip_move_each_image_as_a_whole():
    x = torch.arange(1.0, 1 + 64 * 2 * 6 * 6).view(64, 2, 6, 6)
    moved = crop_flip(x, torch.Generator().manual_seed(0))
    assert moved.shape == x.shape
    flips = 0
    for before, after in zip(torch.nn.functional.pad(x, (4, 4, 4, 4)), moved, strict=True):
        windows = [before[:, top : top + 6, left : left + 6] for top in range(9) for left in range(9)]
        straight = any(torch.equal(after, window) for window in windows)
        flips += any(torch.equal(after, window.flip(2)) for window in windows) and not straight
        assert straight or any(torch.equal(after, window.flip(2)) for window in windows)
    assert 16 <= flips <= 48
    with pytest.raises(OptionError, match="augment of training"):
        crop_flip(torch.rand(3, 5), torch.Generator())


def test_folders_watch_their_val_split(tmp_path):
    from PIL import Image

    for split, count in (("train", 6), ("val", 2)):
        for name in "ab":
            (tmp_path / "pictures" / split / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (8, 8), (40 * number, 0, 255 * (name == "a"))).save(
                    tmp_path / "pictures" / split / name / f"{number}.png"
                )
    settings = Settings(data=str(tmp_path / "pictures"), arch="mlp8", epochs=2, batch=5, sigma=0.1, augment="crop_flip")
    config = train(settings, tmp_path / "net")
    assert config["classes"] == 2 and config["noisy_accuracy"] in (0, 0.25, 0.5, 0.75, 1)
