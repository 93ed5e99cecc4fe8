"""Training on a folder of images: random parts of them, decoded by other processes, without a pass for a hash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert.cli.main import run
from smoothcert.data import Subset, _folder
from smoothcert.errors import DataError, OptionError, RunError
from smoothcert.training import Settings, checkpoints
from smoothcert.training.feeding import BatchReader, fed, workers_for
from smoothcert.training.loop import train

SIZE = 16
COLOURS = {"blue": 2, "green": 1, "red": 0}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """300 pictures of other sizes in three classes, told apart by colour, and 60 to test."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, count in (("train", 100), ("val", 20)):
        for colour, channel in COLOURS.items():
            (root / split / colour).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 120, (*random.integers(20, 40, 2), 3), dtype=np.uint8)
                pixels[..., channel] += 100
                ending, options = ("png", {}) if number % 2 else ("jpg", {"quality": 90})
                Image.fromarray(pixels).save(root / split / colour / f"{number:03}.{ending}", **options)
    return root


def settings(pictures: Path, **more) -> Settings:
    options = {"epochs": 1, "batch": 60, "image_size": SIZE, "augment": "resized_crop", "data_set": "imagenet"}
    return Settings(str(pictures), "resnet8", **{**options, **more})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return checkpoints.read_tensors(folder / checkpoints.WEIGHTS)[0]


def test_any_number_of_workers_gives_the_same_training(pictures, tmp_path):
    torch.set_num_threads(1)
    for workers in (0, 3):
        train(settings(pictures), tmp_path / str(workers), workers=workers)
    one, two = weights(tmp_path / "0"), weights(tmp_path / "3")
    assert all(torch.equal(one[name], two[name]) for name in one)
    config = checkpoints.read_config(tmp_path / "3")
    assert config["normalisation"] == {"mean": list(checkpoints.IMAGENET[0]), "std": list(checkpoints.IMAGENET[1])}
    assert config["data_digest_of"] == "listing" and config["classes"] == 3
    assert config["noisy_accuracy"] > 0.5  # of three colours


def test_parts_depend_on_seed_epoch_and_input_alone(pictures):
    inputs = Subset(str(pictures), "train", image_size=SIZE).load()
    steps = [np.arange(0, 8), np.arange(8, 16)]

    def parts(chosen, **more):
        epoch = more.pop("epoch", 0)
        return torch.cat(list(fed(BatchReader(inputs, chosen, settings(pictures, **more), epoch), 0)))

    assert torch.equal(parts(steps), parts([np.arange(0, 16)]))
    assert torch.equal(parts(steps)[3], parts([np.array([3])])[0])
    assert not torch.equal(parts(steps), parts(steps, epoch=1))
    assert not torch.equal(parts(steps), parts(steps, seed=1))
    assert torch.equal(parts(steps, augment="none"), inputs.tensors(np.arange(16)))


def test_a_random_part_has_the_published_area_and_sides():
    boxes = [_folder._box(400, 300, np.random.default_rng(key)) for key in range(2000)]
    areas = np.array([wide * high / 120_000 for _, _, wide, high in boxes])
    sides = np.array([wide / high for _, _, wide, high in boxes])
    assert areas.min() > 0.079 and areas.max() <= 1.0 and sides.min() > 0.74 and sides.max() < 1.35
    # Boxes up to half the image always fit, so none of them is drawn again: even in area and in the sides' logarithm.
    small = areas < 0.5
    deviation = np.sqrt(12 * small.sum())
    assert abs(areas[small].mean() - 0.29) < 4 * 0.42 / deviation
    assert abs(np.log(sides[small]).mean()) < 4 * 2 * np.log(4 / 3) / deviation
    assert all(left + wide <= 400 and top + high <= 300 for left, top, wide, high in boxes)
    assert {_folder._box(1000, 10, np.random.default_rng(key))[2:] for key in range(50)} == {(13, 10)}


def test_half_of_the_parts_are_mirrored():
    ramp = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8)[None, :, None], (64, 1, 3)))
    rising = [np.diff(np.asarray(_folder.random_part(ramp, 8, key))[4, :, 0].astype(int)).sum() for key in range(400)]
    assert 160 < sum(value > 0 for value in rising) < 240 and all(value != 0 for value in rising)


def test_no_image_is_opened_for_the_hash(pictures, monkeypatch):
    inputs = Subset(str(pictures), "train", image_size=SIZE).load()
    monkeypatch.setattr(_folder, "_opened", lambda *_: pytest.fail("an image was opened"))
    digest = inputs.listing_digest
    assert digest == Subset(str(pictures), "train", image_size=SIZE).load().listing_digest
    assert digest != inputs.chosen(np.arange(299)).listing_digest
    part = inputs.chosen(np.arange(5, 9))
    assert part.decoded and part.listing_digest == inputs.chosen(np.arange(9)).chosen(np.arange(5, 9)).listing_digest


def test_another_file_is_other_data_but_another_path_is_not(pictures, tmp_path):
    import shutil

    moved = tmp_path / "moved"
    shutil.copytree(pictures, moved)
    load = lambda root: Subset(str(root), "train", image_size=SIZE).load()  # noqa: E731
    assert load(moved).listing_digest == load(pictures).listing_digest
    train(settings(moved, epochs=2), tmp_path / "net", _StopAfterOne())
    Image.new("RGB", (30, 30)).save(moved / "train" / "red" / "000.jpg")
    with pytest.raises(RunError, match="must be what it began with; got other values or labels"):
        train(settings(moved, epochs=2), tmp_path / "net")


def test_a_checkpoint_from_before_listings_goes_on(pictures, tmp_path, monkeypatch):
    """Its digest is of the values."""
    import json

    out = tmp_path / "net"
    train(settings(pictures, epochs=2), out, _StopAfterOne())
    state = torch.load(out / "state.pt", weights_only=True)
    config = json.loads(state["config"])
    del config["data_digest_of"]
    config["data_digest"] = Subset(str(pictures), "train", image_size=SIZE).load().digest
    torch.save({**state, "config": json.dumps(config)}, out / "state.pt")
    assert train(settings(pictures, epochs=2), out)["epoch"] == 2


class _StopAfterOne:
    def started(self, done, epochs, steps):
        pass

    def stepped(self, terms):
        pass

    def finished(self, epoch, terms, found):
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def stopped(monkeypatch):
    """A training that is stopped leaves its checkpoint."""
    real = train

    def stopping(*arguments, **more):
        try:
            return real(*arguments, **more)
        except KeyboardInterrupt:
            return None

    monkeypatch.setitem(globals(), "train", stopping)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_one_line_whoever_meets_it(pictures, tmp_path, workers):
    import shutil

    damaged = tmp_path / "damaged"
    shutil.copytree(pictures, damaged)
    (damaged / "train" / "red" / "050.jpg").write_bytes(b"\xff\xd8 no picture")
    with pytest.raises(DataError, match=r"^image '.*050.jpg' must be a readable png or jpeg; got: [^\n]*$"):
        train(settings(damaged), tmp_path / "net", workers=workers)


def test_what_cannot_have_random_parts_is_refused(pictures, tmp_path):
    with pytest.raises(OptionError, match="needs a folder of images"):
        train(Settings("digits", "mlp8", epochs=1, augment="resized_crop"), tmp_path / "net")
    same = tmp_path / "same"
    for colour in COLOURS:
        (same / "train" / colour).mkdir(parents=True)
        Image.new("RGB", (20, 20)).save(same / "train" / colour / "a.png")
    with pytest.raises(OptionError, match="needs --image-size"):
        train(settings(same, image_size=None), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_normalisation_is_said_and_not_read_from_a_name(pictures, tmp_path, monkeypatch, capsys):
    (tmp_path / "imagenet").symlink_to(pictures)
    monkeypatch.chdir(tmp_path)
    describe = ["train", "--data", "imagenet", "--arch", "resnet8", "--image-size", "16", "--describe"]
    assert run(describe) == 0
    assert "normalisation: mean 0.5, std 0.5 (none was named: --as says which data set" in capsys.readouterr().out
    assert run([*describe, "--as", "imagenet"]) == 0
    assert "normalisation: mean 0.485 0.456 0.406, std 0.229 0.224 0.225 (imagenet)" in capsys.readouterr().out
    assert run([*describe, "--recipe", "cohen"]) == 2  # a folder's name says nothing
    assert "got imagenet (--as says which it is)" in capsys.readouterr().err
    assert run([*describe, "--recipe", "cohen", "--as", "imagenet", "--sigma", "0.5"]) == 0
    told = capsys.readouterr().out
    assert "augment resized_crop (locuslab/smoothing, code/datasets.py)" in told and "momentum 0.9, weight" in told
    assert run([*describe, "--as", "imagnet"]) == 2 and "did you mean 'imagenet'" in capsys.readouterr().err
    assert run(["train", "--data", "digits", "--as", "imagenet", "--describe"]) == 2
    assert "must be left out or digits" in capsys.readouterr().err


def test_workers_are_for_files(pictures, tmp_path):
    inputs, digits = Subset(str(pictures), "train", image_size=SIZE).load(), Subset("digits", "train").load()
    assert workers_for(digits, 4) == 0 and workers_for(inputs, 4) == 4 and 1 <= workers_for(inputs, None) <= 8
    with pytest.raises(OptionError, match="workers of training must be"):
        workers_for(digits, -1)
