"""Every reader of what comes from outside, over damaged files: an answer or one line, soon, whatever the bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import warnings
from pathlib import Path

import mutations
import pytest
import specimens
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from smoothcert.errors import SmoothcertError

NAMES = (
    "npz", "packed npz", "png", "jpg", "matlab", "idx", "config", "weights", "state", "legacy", "onnx", "onnx weights",
    "ensemble", "aces", "log", "log p_certification", "log p_selection_0.30", "log p_core_prediction",
    "log p_entropies", "table", "threads", "recipe", "run", "document", "memory",
)  # fmt: skip
SECONDS = 5.0


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> dict[str, specimens.Specimen]:
    return specimens.make(tmp_path_factory.mktemp("specimens"))


def test_there_is_a_test_for_every_specimen(known):
    assert set(known) == set(NAMES)
    for specimen in known.values():
        specimen.read(specimen.folder)  # sound, it is read


@pytest.mark.parametrize("how", [mutations.restated, mutations.damaged], ids=["restated", "damaged"])
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_gets_one_line(known, name, how, tmp_path):
    specimen = known[name]
    content, place = specimen.content, specimen.copied(tmp_path / "copy")

    @settings(max_examples=specimen.examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.integers(0, 2**32))
    def one_line(seed: int) -> None:
        dice = random.Random(f"{name} {seed}")
        bad = how(specimen.file, content, dice) if how is mutations.restated else how(content, dice)
        (place / specimen.file).write_bytes(bad)
        assert_one_line(specimen, place)

    one_line()


class Late(BaseException):
    """Raised by the clock; no reader takes it for a fault of its file."""


def _late(signal_: int, frame: object) -> None:
    raise Late


def assert_one_line(specimen: specimens.Specimen, place: Path) -> None:
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            specimen.read(place)
    except SmoothcertError as error:
        assert "\n" not in str(error) and len(str(error)) < 1500, str(error)
    except Late:
        raise AssertionError(f"no end after {SECONDS} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file_is_never_opened(known, name, tmp_path):
    """A FIFO would wait for ever; a device never ends; a link to itself, a folder and a hole are no files either."""
    specimen = known[name]
    if name in ("matlab", "idx"):
        pytest.skip("these take bytes")
    place = specimen.copied(tmp_path / "copy")
    target = place / specimen.file
    for put in (
        lambda: os.mkfifo(target),
        lambda: target.symlink_to("/dev/zero"),
        lambda: target.symlink_to(target),
        lambda: target.mkdir(),
        lambda: None,
    ):
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        put()
        assert_one_line(specimen, place)
