"""The gallery: chosen by rule, votes as counted, pictures of what was certified and of nothing else."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import log_of, run_of

from smoothcert.contracts import Answer, Stream, input_key
from smoothcert.data import load
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report.columns import RunColumns
from smoothcert.report.html import page
from smoothcert.report.inputs import album, chosen, galleries, room, uri, votes
from smoothcert.report.tables import class_name, outcome
from smoothcert.runs.run import Row, Run

VOTES = (
    Answer("guess", 9, ((9, 0, 0, 0),)),
    Answer("test", 600, ((500, 60, 0, 40),)),
    Answer("test", 400, ((400, 0, 0, 0),)),
)


def rows(correct: int, wrong: int, abstained: int) -> list[Row]:
    made = [Row(i, 1, 1, 0.1 + i / 1000) for i in range(correct)]
    made += [Row(1000 + i, 1, 0, 0.2 + i / 1000) for i in range(wrong)]
    return made + [Row(2000 + i, 1, -1, 0.0) for i in range(abstained)]


def count(found: list[Row]) -> tuple[int, int, int]:
    kinds = [outcome(row) for row in found]
    return kinds.count("correct"), kinds.count("wrong"), kinds.count("abstained")


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ((100, 100, 100), (20, 10, 10)),
        ((100, 2, 0), (38, 2, 0)),
        ((3, 100, 100), (3, 27, 10)),
        ((5, 5, 5), (5, 5, 5)),
        ((0, 0, 100), (0, 0, 40)),
        ((100, 0, 0), (40, 0, 0)),
    ],
)
def test_a_quarter_wrong_a_quarter_abstained_and_no_room_wasted(
    there: tuple[int, int, int], taken: tuple[int, int, int]
) -> None:
    assert count(chosen(RunColumns(tuple(rows(*there))), 40)) == taken


def test_the_right_ones_span_all_radii_and_the_wrong_ones_are_the_surest() -> None:
    found = chosen(RunColumns(tuple(rows(200, 50, 50))), 40)
    right = [row.radius for row in found if row.correct]
    assert (max(right), min(right)) == (0.1 + 199 / 1000, 0.1)
    assert max(np.diff(sorted(right))) < 0.02
    assert min(row.radius for row in found if outcome(row) == "wrong") == 0.2 + 40 / 1000
    assert [row.radius for row in found] == sorted((row.radius for row in found), reverse=True)


def run(folder: Path, number: int = 6, **changes: Any) -> Run:
    x = np.random.default_rng(0).random((number, 3, 4, 4), dtype=np.float32)
    np.savez(folder / "data.npz", x=x, y=np.zeros(number, dtype=np.int64))
    inputs = load(str(folder / "data.npz"), skip=2)
    made = tuple(Row(int(i), 0, 0, 0.5, 1009, answers=VOTES) for i in inputs.indices)
    place = {"data": str(folder / "data.npz"), "skip": 2, "data_digest": inputs.digest, "shape": [3, 4, 4]}
    return run_of(made, "a", seed=3, **{**place, **changes})


def pixels(address: str) -> np.ndarray:
    from PIL import Image

    head, body = address.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def test_votes_are_those_that_decided(tmp_path: Path) -> None:
    record = run(tmp_path)
    bars = votes(record, record.rows[0])
    assert [(bar.name, bar.shown, bar.right) for bar in bars] == [
        ("0", "90.0", True), ("1", "6.0", False), ("3", "4.0", False),
    ]  # fmt: skip
    routed = run(tmp_path, procedure={"name": "route", "n0": 10})
    assert votes(routed, record.rows[0]) == ()


def test_pictures_are_the_inputs_and_the_first_copy_that_voted(tmp_path: Path) -> None:
    import torch

    record = run(tmp_path)
    (found,) = galleries([record])
    assert found.reason is None and [item.row.index for item in found.items] == [0, 2, 4]
    x = load(str(tmp_path / "data.npz")).tensor(2)
    item = found.items[1]
    assert item.picture is not None and item.noisy is not None
    assert np.array_equal(pixels(item.picture), np.rint(x.numpy() * 255).astype(np.uint8).transpose(1, 2, 0))
    noisy = torch.empty(1, 3, 4, 4)
    Gaussian(0.25).fill(noisy, x, Stream(3, input_key(x), "test"), 0)
    shown = np.rint(noisy[0].clamp(0, 1).numpy() * 255).astype(np.uint8).transpose(1, 2, 0)
    assert np.array_equal(pixels(item.noisy), shown)


def test_the_largest_patch_is_drawn_in_the_middle_of_the_input(tmp_path: Path) -> None:
    noise = {"name": "block", "side": 1, "image": [4, 4], "patch": [1, 2]}
    leader = {"name": "certify", "n0": 10, "against": "leader"}
    counted = {"noise": noise, "procedure": leader, "sampling": {"name": "exhaustive"}}
    record = run(tmp_path, **counted)
    pictures = album(record)
    assert not isinstance(pictures, str)
    row = replace(record.rows[0], radius=1.0)
    before, after = (pixels(str(address)) for address in (pictures.original(row), pictures.stuck(row)))
    assert sorted(set(map(tuple, np.argwhere((before != after).any(axis=2)).tolist()))) == [(1, 1), (1, 2)]
    assert pictures.stuck(replace(row, radius=0.0)) is None and pictures.stuck(replace(row, predicted=-1)) is None
    beyond = pixels(str(pictures.stuck(replace(row, radius=3.0))))  # 3 × 6 pixels, of which 3 × 4 are in the image
    assert (beyond != before).any(axis=2).sum() == 12
    assert run(tmp_path).spec.noise.patch is None and album(run(tmp_path)).stuck(row) is None


def test_an_input_with_its_own_level_is_shown_at_that_level(tmp_path: Path) -> None:
    record = run(tmp_path)
    pictures = album(record)
    assert not isinstance(pictures, str)
    quiet, loud = (pictures.noisy(replace(record.rows[0], sigma=sigma)) for sigma in (1e-6, 0.5))
    assert quiet == pictures.original(record.rows[0]) != loud


def test_other_data_are_not_shown(tmp_path: Path) -> None:
    record = run(tmp_path)
    np.savez(tmp_path / "data.npz", x=np.zeros((6, 3, 4, 4), dtype=np.float32), y=np.zeros(6, dtype=np.int64))
    from smoothcert.report import inputs

    inputs._loaded.cache_clear()
    (found,) = galleries([record])
    assert found.reason == f"{tmp_path / 'data.npz'} is no longer what was certified: its hash differs"
    assert all(item.picture is None and item.noisy is None and item.bars for item in found.items)
    (tmp_path / "data.npz").unlink()
    inputs._loaded.cache_clear()
    assert "the data are not at hand" in str(galleries([record])[0].reason)


def test_a_log_has_no_gallery_and_flat_inputs_no_pictures(tmp_path: Path) -> None:
    assert galleries([log_of(rows(3, 1, 1))]) == []
    assert album(run(tmp_path, shape=[8])) == "inputs of shape 8 are no pictures"


def test_data_that_take_minutes_to_check_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smoothcert.report.inputs.LARGEST", 3 * 48 - 1)
    assert "too many inputs" in str(album(run(tmp_path)))
    monkeypatch.setattr("smoothcert.report.inputs.LARGEST", 3 * 48)
    assert not isinstance(album(run(tmp_path)), str)


def test_inputs_are_shown_at_their_own_size_up_to_256_pixels_with_noise_as_strong_as_it_is() -> None:
    random = np.random.default_rng(0).random((3, 600, 300), dtype=np.float32)
    own = np.rint(random[:, :224, :224] * 255).astype(np.uint8).transpose(1, 2, 0)
    assert np.array_equal(pixels(uri(random[:, :224, :224])), own)
    assert pixels(uri(random[:, :256])).shape == (128, 150, 3)  # every second
    small = pixels(uri(random))
    assert small.shape == (200, 100, 3)  # every third
    assert abs(float(small.std()) / 255 - float(random.std())) < 0.01
    assert uri(random) == uri(random)


@pytest.mark.parametrize(
    ("shape", "runs", "inputs", "side"),
    [
        ((1, 8, 8), 1, 48, 256),
        ((3, 32, 32), 3, 16, 256),
        ((3, 224, 224), 1, 26, 256),  # fewer, at their own size
        ((3, 224, 224), 4, 6, 256),
        ((3, 224, 224), 8, 6, 128),  # not fewer than 6: fewer pixels
        ((3, 224, 224), 100, 6, 64),
    ],
)
def test_pictures_of_a_page_stay_below_their_bound(
    shape: tuple[int, int, int], runs: int, inputs: int, side: int
) -> None:
    assert room(shape, runs) == (inputs, side)


def test_a_page_of_224_pixels_has_pictures_of_224_pixels_and_less_than_15_megabytes(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((30, 3, 224, 224), dtype=np.float32)  # worse than any photograph
    np.savez(tmp_path / "data.npz", x=x, y=np.zeros(30, dtype=np.int64))
    inputs = load(str(tmp_path / "data.npz"))
    made = tuple(Row(int(i), 0, 0, 0.5, 1009, answers=VOTES) for i in inputs.indices)
    place = {
        "data": str(tmp_path / "data.npz"),
        "skip": 1,
        "max": -1,
        "data_digest": inputs.digest,
        "shape": [3, 224, 224],
    }
    record = run_of(made, "a", seed=3, **place)
    (found,) = galleries([record])
    assert (found.side, found.every, found.large, len(found.items)) == (224, 1, True, 26)
    text = page([record])
    assert 5e6 < len(text) < 15e6
    assert 'class="gallery large" style="--side: 224px"' in text


def test_small_pictures_are_enlarged_to_one_width(tmp_path: Path) -> None:
    (found,) = galleries([run(tmp_path)])
    assert found.side == 4 and not found.large
    assert 'class="gallery"' in page([run(tmp_path)])


def test_classes_have_their_names_whole_in_titles_and_cut_in_tables(tmp_path: Path) -> None:
    record = run(tmp_path)
    names = ("the doctor fish of many ponds in summer", "<goldfish>")
    object.__setattr__(record.spec.data, "classes", names)
    (found,) = galleries([record])
    assert found.items[0].label == names[0] and [bar.name for bar in found.items[0].bars] == [*names, "3"]
    text = page([record])
    assert f"<strong>{names[0]}</strong>" in text and "the doctor fish of many…" in text
    assert "&lt;goldfish&gt;" in text and "<goldfish>" not in text
    assert class_name(record, 1) == names[1] and class_name(record, -1) == "none" and class_name(record, 2) == "2"


def test_named_data_sets_bring_their_names() -> None:
    assert class_name(run_of([Row(0, 1, 1, 0.5)], data="cifar10"), 3) == "cat"
    assert class_name(run_of([Row(0, 1, 1, 0.5)], data="digits"), 3) == "3"
    assert class_name(log_of([Row(0, 1, 1, 0.5)]), 3) == "3"
