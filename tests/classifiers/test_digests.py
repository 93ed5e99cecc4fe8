"""Classes and functions without a file, as typed into a notebook or at a prompt: known by what they do."""

from __future__ import annotations

import subprocess
import sys

from smoothcert.classifiers import digests

TYPED = """
import numpy as np, torch
from torch import nn
import smoothcert
from smoothcert.errors import RunError

class Half(nn.Module):
    def forward(self, x):
        return x * {factor}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.linear = Half(), nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(self.scale(x))

torch.manual_seed(0)
data = np.random.default_rng(0).random((3, 4), dtype=np.float32), np.zeros(3, int)
run = smoothcert.certify(Net().eval(), data, sigma=0.25, n=100, out="run")
"""


def typed(text: str, folder) -> subprocess.CompletedProcess[str]:
    """Python reads its program from standard input, as a prompt does: __main__ has no file."""
    return subprocess.run([sys.executable, "-"], input=text, cwd=folder, capture_output=True, text=True)


def test_a_network_that_was_typed_is_certified_and_known_again_and_another_class_of_the_same_weights_is_not(tmp_path):
    first = typed(TYPED.format(factor=0.5), tmp_path)
    assert first.returncode == 0, first.stderr
    again = typed(TYPED.format(factor=0.5), tmp_path)
    assert again.returncode == 0, again.stderr
    other = typed(TYPED.format(factor=0.25), tmp_path)
    assert other.returncode and "RunError" in other.stderr, "only the class of an inner layer differs"


def made(text: str):
    space = {"__name__": "a_prompt"}  # no module of that name has a file
    exec(text, space)
    return space["made"]


def test_functions_and_classes_without_a_file_differ_by_what_they_do():
    texts = [
        "def made(x): return x + 1",
        "def made(x): return x + 2",
        "def made(x): return x - 1",
        "def made(x): return x.log()",
        "def made(x): return x.exp()",
        "def made(x, by=1): return x + by",
        "def made(x, by=2): return x + by",
        "made = lambda x: (lambda y: y + 1)(x)",
        "made = lambda x: (lambda y: y + 2)(x)",
        "class made:\n def forward(self, x): return x in {'a', 'b', 'c'}",
        "class made:\n def forward(self, x): return x in {'a', 'b', 'd'}",
        "class made:\n @staticmethod\n def forward(x): return 1",
        "class made:\n @staticmethod\n def forward(x): return 2",
        "class made:\n @property\n def size(self): return 1",
        "class made:\n @property\n def size(self): return 2",
        "class made:\n size = 1",
        "class made:\n size = 2",
    ]
    found = [digests.of_object(made(text)).hex for text in texts]
    assert len(set(found)) == len(texts)
    assert found == [digests.of_object(made("\n\n" + text)).hex for text in texts], "where it was typed does not matter"
