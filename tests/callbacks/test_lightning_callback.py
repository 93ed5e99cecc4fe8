"""The callback, with the real lightning and pytorch_lightning."""

from __future__ import annotations

import importlib
import pickle
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from smoothcert.callbacks import CertifiedAccuracy, CertifiedAccuracyCallback, certified_accuracy
from smoothcert.data import load
from smoothcert.errors import DataError, ModelError, OptionError, SmoothcertError

SIGMA, RADIUS, NAME = 0.25, 0.1, "certified_accuracy_l2_0.1"


@pytest.fixture(scope="module", params=["lightning.pytorch", "pytorch_lightning"])
def pl(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield importlib.import_module(request.param)


@pytest.fixture(scope="module")
def digits():
    """Inputs and labels: 256 to learn from, 40 to watch."""
    train, test = load("digits", split="train", max=256), load("digits", max=40)
    return *(torch.as_tensor(a) for a in (train.tensors(), train.labels)), test.tensors(), torch.as_tensor(test.labels)


def module(pl, validates: bool = True):
    """A network with everything that a callback could disturb: dropout, batch statistics, random noise."""

    class Small(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1)]
            self.net = nn.Sequential(*layers, nn.Linear(16, 10))
            self.metric = CertifiedAccuracy(self, sigma=SIGMA, radius=RADIUS)

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            x, y = batch
            return nn.functional.cross_entropy(self(x + SIGMA * torch.randn_like(x)), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.02)

    def validation_step(self, batch, _):
        self.metric.update(*batch)
        self.log("metric", self.metric)

    if validates:
        Small.validation_step = validation_step
    torch.manual_seed(0)
    return Small()


def trainer(pl, *callbacks, epochs=1, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(
        max_epochs=epochs, callbacks=list(callbacks), **quiet, **{"enable_checkpointing": False} | options
    )


def batches(x, y):
    return DataLoader(TensorDataset(x, y), 64, shuffle=True)


class Watched(CertifiedAccuracyCallback):
    """Remembers after how many epochs it measured."""

    def _measure(self, trainer, pl_module):
        self.epochs = [*getattr(self, "epochs", []), trainer.current_epoch + 1]
        super()._measure(trainer, pl_module)


def test_figures_are_logged_and_right(pl, digits):
    *train, x, y = digits
    callback = CertifiedAccuracyCallback(x, y, sigma=SIGMA, radius=RADIUS, inputs=20)
    other = CertifiedAccuracyCallback(x, y, sigma=SIGMA, radius=0.2, inputs=20)
    network, fit = module(pl), trainer(pl, callback, other, epochs=2)
    fit.fit(network, batches(*train), DataLoader(TensorDataset(x[::2], y[::2]), 8))
    assert isinstance(callback, pl.Callback)
    after_one = callback.last  # the second epoch is no fifth
    assert (after_one.of, after_one.norm) == (20, "l2") and 0 < after_one.certified < 20
    assert fit.callback_metrics[NAME] == torch.tensor(after_one.share)
    assert fit.callback_metrics["abstained_l2_0.1"] == torch.tensor(after_one.abstained / 20)
    assert fit.callback_metrics["draws_l2_0.1"] == after_one.draws
    assert fit.callback_metrics["certified_accuracy_l2_0.2"] == torch.tensor(other.last.share)

    (now,) = fit.validate(network, DataLoader(TensorDataset(x[::2], y[::2]), 8), verbose=False)
    expected = certified_accuracy(network, x[::2], y[::2], sigma=SIGMA, radius=RADIUS)
    assert callback.last == expected != after_one
    assert now[NAME] == now["metric"] == pytest.approx(expected.share)


@pytest.mark.parametrize("own", [True, False], ids=["given", "of the loader"])
def test_training_goes_as_without_it(pl, digits, own):
    """Same weights to the last bit: neither modes, statistics nor random numbers are touched."""

    class Augmented(Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, place):
            return (digits[2][place] + 0.1 * torch.rand(())).clamp(0, 1), digits[3][place]

    def trained(*callbacks):
        network = module(pl)
        trainer(pl, *callbacks, epochs=2).fit(network, batches(*digits[:2]), DataLoader(Augmented(), 8))
        return network.state_dict()

    given = digits[2:] if own else ()
    callback = CertifiedAccuracyCallback(*given, sigma=SIGMA, radius=RADIUS, every=1, inputs=10)
    plain, watched = trained(), trained(callback)
    assert callback.last.of == 10
    assert all(torch.equal(tensor, watched[name]) for name, tensor in plain.items())


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({}, [1, 3, 6]),
        ({"check_val_every_n_epoch": 2}, [2, 4, 6]),  # at the first validation after every third
        ({"limit_val_batches": 0}, [1, 3, 6]),  # no validation: at the end of the epoch
        ({"num_sanity_val_steps": 0, "check_val_every_n_epoch": 4}, [4]),
    ],
)
def test_every_so_many_epochs(pl, digits, options, epochs):
    *train, x, y = digits
    callback = Watched(x, y, sigma=SIGMA, radius=RADIUS, every=3, inputs=3)
    fit = trainer(pl, callback, epochs=7, limit_train_batches=1, **options)
    fit.fit(module(pl), batches(*train), DataLoader(TensorDataset(x[:2], y[:2]), 2))
    assert callback.epochs == epochs


@pytest.mark.parametrize("validates", [True, False], ids=["validation", "none"])
def test_others_can_monitor_it(pl, digits, tmp_path, validates):
    *train, x, y = digits
    callback = CertifiedAccuracyCallback(x, y, sigma=SIGMA, radius=RADIUS, every=1, inputs=10)
    stopping = pl.callbacks.EarlyStopping(NAME, mode="max", patience=10, stopping_threshold=0.01)
    saving = pl.callbacks.ModelCheckpoint(tmp_path, monitor=NAME, mode="max", filename=f"{{{NAME}:.1f}}")
    fit = trainer(pl, stopping, saving, callback, epochs=4, enable_checkpointing=True)  # the callback comes last
    loaders = [batches(*train), *([DataLoader(TensorDataset(x[:2], y[:2]), 2)] if validates else [])]
    network = module(pl, validates)
    fit.fit(network, *loaders)
    assert fit.current_epoch < 4 and callback.last.certified > 0  # stopped when the first was certified
    assert float(saving.best_model_score) == pytest.approx(callback.last.share)
    assert saving.best_model_path.endswith(f"{NAME}={callback.last.share:.1f}.ckpt")
    network.load_state_dict(torch.load(saving.best_model_path)["state_dict"])  # of the epoch that had the figure
    assert certified_accuracy(network, x[::4], y[::4], sigma=SIGMA, radius=RADIUS) == callback.last


def test_a_part_of_the_module_can_be_named(pl, digits):
    *train, x, y = digits
    network = module(pl)
    network.forward = None  # as of modules that only have steps
    network.training_step = lambda batch, batch_idx: network.net(batch[0]).square().mean()
    callback = CertifiedAccuracyCallback(x, y, sigma=SIGMA, radius=RADIUS, inputs=5, network="net")
    trainer(pl, callback, limit_val_batches=0).fit(network, batches(*train))
    assert callback.last == certified_accuracy(network.net, x[::8], y[::8], sigma=SIGMA, radius=RADIUS)


class Endless(IterableDataset):
    def __iter__(self):
        return iter([(torch.rand(1, 8, 8), 1)] * 4)


def refused(pl, digits, error, says, callback, validation=None):
    """Before the first step of training."""
    network = module(pl, validates=validation is not None)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(error, match=says):
        trainer(pl, callback, num_sanity_val_steps=0).fit(network, batches(*digits[:2]), validation)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_what_cannot_be_measured_is_refused_before_training(pl, digits):
    x, y = digits[2:]
    known = {"sigma": SIGMA, "radius": RADIUS}
    loaders = {
        "length; got Endless": DataLoader(Endless(), 2),
        r"must be \(input, label\); got dict": DataLoader([{"x": x[0], "y": 1}] * 4, 2),
        r"input 0 must be in \[0,1\]": DataLoader(TensorDataset(x - 0.5, y), 2),
    }
    for says, loader in loaders.items():
        refused(pl, digits, DataError, says, CertifiedAccuracyCallback(**known), loader)
    refused(pl, digits, DataError, r"nothing is validated; give them", CertifiedAccuracyCallback(**known))
    named = CertifiedAccuracyCallback(x, y, **known, network="body")
    refused(pl, digits, OptionError, r"part of Small \(net, metric\); got 'body'", named)
    refused(pl, digits, ModelError, "accept inputs of shape", CertifiedAccuracyCallback(x[..., :4], y, **known))
    far = CertifiedAccuracyCallback(x, y, sigma=SIGMA, radius=0.9)
    refused(pl, digits, OptionError, "raise the cap", far)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"every": 0}, "every of .* at least 1"),
        ({"inputs": 2.5}, "inputs of .* whole number"),
        ({"network": nn.Linear(1, 1)}, "name of a part, such as 'net'; got Linear"),
        ({"y": None}, "x and y, or neither"),
        ({"x": torch.full((2, 1, 8, 8), 3.0)}, r"in \[0,1\]"),
        ({"sigma": [0.25]}, r"noise such as .*got \[0.25\]"),
    ],
)
def test_bad_options_are_refused_when_it_is_made(changes, says):
    given = {"x": torch.rand(2, 1, 8, 8), "y": [0, 1], "sigma": SIGMA, "radius": RADIUS} | changes
    with pytest.raises(SmoothcertError, match=says):
        CertifiedAccuracyCallback(**given)


def test_it_can_be_pickled(pl):
    callback = Watched(torch.rand(2, 1, 8, 8), [0, 1], sigma=SIGMA, radius=RADIUS)
    again = pickle.loads(pickle.dumps(callback))
    assert isinstance(again, Watched) and isinstance(again, pl.Callback) and again._question == callback._question


def test_its_bases_are_of_the_packages_in_use(pl, monkeypatch):
    other = ({"lightning.pytorch", "pytorch_lightning"} - {pl.__name__}).pop()
    foreign = importlib.import_module(other).Callback
    both = CertifiedAccuracyCallback(sigma=SIGMA, radius=RADIUS)
    monkeypatch.delitem(sys.modules, other)
    one = CertifiedAccuracyCallback(sigma=SIGMA, radius=RADIUS)
    assert isinstance(both, pl.Callback) and isinstance(both, foreign)
    assert isinstance(one, pl.Callback) and not isinstance(one, foreign)
    assert isinstance(one, CertifiedAccuracyCallback)


def test_without_lightning_one_line_says_what_to_install(monkeypatch):
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SmoothcertError, match=r"pip install lightning$"):
        CertifiedAccuracyCallback(sigma=SIGMA, radius=RADIUS)
