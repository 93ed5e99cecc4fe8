"""Two processes under torchrun train the network that one would."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from smoothcert.data import load
from smoothcert.errors import RunError
from smoothcert.training import Settings, checkpoints
from smoothcert.training.loop import train

SETTINGS = {"arch": "mlp8", "epochs": 2, "batch": 64, "sigma": 1e-6, "lr": 0.05}


def torchrun(folder, data, *options):
    words = [f"--{name}={value}" for name, value in {**SETTINGS, "data": data}.items()]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "smoothcert", "train", f"--out={folder}", "--threads=1", "--device=cpu", *words, *options,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_shares_of_a_batch_add_up_to_the_batch(tmp_path):
    some, data = load("digits", "train"), str(tmp_path / "some.npz")
    np.savez(data, x=some.tensors().numpy()[:208], y=some.labels[:208])  # even batches, so that none is trimmed
    done = torchrun(tmp_path / "two", data, "--sigma-per-example", "--sigma-warmup=1", "--sigma-step=1e-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy under noise") == 1  # one process speaks
    torch.set_num_threads(1)
    extra = {"data": data, "sigma_per_example": True, "sigma_warmup": 1, "sigma_step": 1e-8}
    train(Settings(**SETTINGS, **extra), tmp_path / "one")
    one, two = (load_file(tmp_path / name / checkpoints.WEIGHTS) for name in ("one", "two"))
    # With next to no noise the mean gradient over two halves is the gradient over both; sums are rounded differently.
    for name, tensor in one.items():
        assert torch.allclose(tensor, two[name], atol=1e-4), name
    levels = checkpoints.read_state(tmp_path / "two")["sigma"]
    assert float((levels != SETTINGS["sigma"]).float().mean()) > 0.95  # both processes' steps are in the one map
    with pytest.raises(RunError, match=r"processes of the training in .* must stay 2; got 1"):
        train(Settings(**SETTINGS, **extra), tmp_path / "two")
