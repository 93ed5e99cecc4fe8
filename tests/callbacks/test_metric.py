"""The metric, with the real torchmetrics."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch
from known_inputs import LINE, RADIUS, SIGMA, at, small
from torch import nn
from torchmetrics import Metric, MetricCollection

from smoothcert.callbacks import CertifiedAccuracy, certified_accuracy
from smoothcert.errors import ModelError, OptionError, SmoothcertError


def test_batches_add_up_to_the_same_figure():
    torch.manual_seed(2)
    network, x = small(), torch.rand(12, 4)
    y = torch.arange(12) % 3
    metric = CertifiedAccuracy(network, sigma=SIGMA, radius=0.05)
    assert isinstance(metric, Metric) and isinstance(metric, CertifiedAccuracy)
    for rows in torch.arange(12).split(5):
        metric.update(x[rows], y[rows])
    whole = certified_accuracy(network, x, y, sigma=SIGMA, radius=0.05)
    assert 0 < whole.certified < 12
    assert metric.compute() == torch.tensor(whole.share) and int(metric.certified) == whole.certified
    metric.reset()
    assert int(metric.total) == int(metric.certified) == 0


def test_called_it_says_the_batch_and_keeps_all():
    asked = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        asked.append(len(x))
        return LINE(x)

    metric = CertifiedAccuracy(counting, sigma=SIGMA, radius=RADIUS)
    assert metric(at(0.45, 0.4), [1, 1]) == 1.0
    once = sum(asked)
    assert metric(at(0.1, 0.05), [1, 1]) == 0.0 and metric.compute() == 0.5
    asked.clear()
    CertifiedAccuracy(counting, sigma=SIGMA, radius=RADIUS).update(at(0.45, 0.4), [1, 1])
    assert sum(asked) == once  # a batch is drawn once, not twice


def test_a_collection_keeps_metrics_apart_that_agree_at_first():
    near, far = at(0.1), at(0.45)
    metrics = MetricCollection(
        {f"at {100 * r:g}": CertifiedAccuracy(LINE, sigma=SIGMA, radius=r) for r in (0.05, 0.25)}
    )
    metrics.update(far, [1])  # both 1 of 1
    metrics.update(near, [1])
    assert {name: float(value) for name, value in metrics.compute().items()} == {"at 5": 1.0, "at 25": 0.5}
    metrics.reset()
    metrics.update(near, [1])
    assert {name: float(value) for name, value in metrics.compute().items()} == {"at 5": 1.0, "at 25": 0.0}


def test_it_asks_the_network_as_it_is_now_also_as_a_clone():
    network = nn.Linear(2, 2)
    metric = CertifiedAccuracy(network, sigma=SIGMA, radius=RADIUS)
    clone = metric.clone()
    for label in (0, 1):
        with torch.no_grad():
            network.weight.zero_()
            network.bias.copy_(torch.tensor([1.0 - label, float(label)]))
        for one in (metric, clone):
            one.reset()
            one.update(at(0.45), [1])
            assert one.compute() == label


class Holder(nn.Module):
    """Holds the metric that asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.metric = CertifiedAccuracy(self, sigma=SIGMA, radius=RADIUS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def test_a_metric_inside_of_its_network_is_no_circle_and_no_weights():
    holder = Holder()
    assert set(holder.state_dict()) == {"layer.weight", "layer.bias"} and "CertifiedAccuracy" in repr(holder.train())
    for other in (copy.deepcopy(holder), pickle.loads(pickle.dumps(holder))):
        assert other.metric._shared.network is other
        other.metric.update(at(0.45, -0.45), [1, 0])
        assert (
            other.metric.compute()
            == certified_accuracy(holder, at(0.45, -0.45), [1, 0], sigma=SIGMA, radius=RADIUS).share
        )


def test_bad_questions_are_refused_before_the_first_update():
    with pytest.raises(OptionError, match=r"σ of Gaussian noise.*got 'wide'"):
        CertifiedAccuracy(LINE, sigma="wide", radius=RADIUS)
    with pytest.raises(ModelError, match="callable; got 3"):
        CertifiedAccuracy(3, sigma=SIGMA, radius=RADIUS)


def test_without_torchmetrics_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(SmoothcertError, match=r"pip install torchmetrics$"):
        CertifiedAccuracy(LINE, sigma=SIGMA, radius=RADIUS)
