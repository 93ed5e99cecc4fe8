"""Workers of a cluster with GPUs, as a study: it starts a cluster of its own."""

from __future__ import annotations

import contextlib
import signal

import pytest
import small_run
import torch
from test_ray import make

from smoothcert.classifiers.module import trusting
from smoothcert.engine.cluster import Cluster
from smoothcert.errors import SmoothcertError

pytest.importorskip("ray")
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.study]


def test_workers_have_the_gpus_of_a_cluster(tmp_path):
    """A GPU that Ray counts and torch does not have: the worker was given it, tried, and says so in one line."""
    import ray

    small_run.write_data(tmp_path / "data.npz")
    torch.save(torch.nn.Linear(4, 2).eval(), tmp_path / "model.pt")
    before = signal.getsignal(signal.SIGTERM)
    ray.shutdown()
    with contextlib.suppress(RuntimeError):
        ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        with trusting(), pytest.raises(SmoothcertError, match=r"on .*: engine must name a device .* got 'torch:cuda'"):
            make(tmp_path, "run", str(tmp_path / "model.pt"), Cluster())
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)
