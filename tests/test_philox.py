"""Words on a device are those of the CPU, and what does not compile runs as it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fake_cuda import fake_cuda

from smoothcert import philox, streams
from smoothcert.contracts import Stream, StreamRows

SEEDS = (0, 12345, 2**63, 2**64 - 1)
KEYS = (0, 1, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = (0, 1, 7, 2**32 - 1, 2**32, 2**40 + 3)


def rows(seed=1, purpose="test", device="cpu"):
    inputs = torch.tensor([philox.signed(key) for key in KEYS for _ in NUMBERS], device=device)
    return StreamRows(seed, purpose, inputs, torch.tensor(NUMBERS * len(KEYS), device=device))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("per_draw", [1, 8, 13, 784])
def test_words_are_those_of_the_cpu(seed, per_draw):
    made = philox.words(philox.names(rows(seed)), per_draw).numpy().view(np.uint32)
    wanted = [streams.words(Stream(seed, key, "test"), number, 1, per_draw)[0] for key in KEYS for number in NUMBERS]
    assert np.array_equal(made, np.stack(wanted)[:, :per_draw])


def test_single_words_are_those_of_the_cpu_of_another_purpose():
    of = philox.names(rows(), "test, lower half")
    row, column = torch.arange(30).repeat_interleave(21), torch.arange(21).repeat(30)
    made = philox.words_at(of, 21, row, column).view(30, 21).numpy()
    whole = [streams.words(Stream(1, key, "test, lower half"), n, 1, 21)[0, :21] for key in KEYS for n in NUMBERS]
    assert np.array_equal(made, np.stack(whole).astype(np.int64))


def test_products_have_128_bits():
    factors = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
    for multiplier in philox.MULTIPLIERS:
        high, low = philox.product(multiplier, torch.tensor([philox.signed(factor) for factor in factors]))
        made = [(a % 2**64) * 2**64 + b % 2**64 for a, b in zip(high.tolist(), low.tolist(), strict=True)]
        assert made == [multiplier * factor for factor in factors]


def test_words_are_made_where_their_rows_are():
    with fake_cuda():
        assert philox.words(philox.names(rows(device="cuda")), 13).device.type == "cuda"
    assert philox.words(philox.names(rows()), 13).device.type == "cpu"  # nothing fake is kept for real ones


def plus_one(out, x):
    out.copy_(x + 1)


def wrong_when_compiled(out, x):
    out.copy_(x + 2 if torch.compiler.is_compiling() else x + 1)


@pytest.mark.parametrize(("function", "notes"), [(plus_one, 0), (wrong_when_compiled, 1)])
def test_what_is_compiled_wrong_is_not_used(function, notes):
    run, out = philox.Compiled("aot_eager"), torch.empty(3)
    for _ in range(2):
        run(function, out.zero_(), torch.ones(3))
        assert out.tolist() == [2.0, 2.0, 2.0]
    assert len(run.notes) == notes
    assert all(note.endswith("it gives other numbers") for note in run.notes)


def test_a_compiler_that_fails_is_noted_once_and_done_without(monkeypatch, tmp_path):
    import torch._inductor.config as settings

    monkeypatch.setattr(settings.cpp, "cxx", (str(tmp_path / "no-compiler"),))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    run = philox.Compiled()
    for size in (3, 4, 3):
        out = torch.empty(size)
        run(plus_one, out, torch.ones(size))
        assert out.tolist() == [2.0] * size
    assert len(run.notes) == 1
    assert run.notes[0].startswith("noise is not compiled on cpu, and slower for it: ")
