"""Every reader of what comes from outside, over damaged files: an answer or one line, soon, whatever the bytes."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import traceback
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
    said = _from_child(specimen, place) if specimen.file.endswith(".sqlite") else _said(specimen, place)
    assert "\n" not in said and len(said) < 1500, said


def _said(specimen: specimens.Specimen, place: Path) -> str:
    """What a reader says of its file; nothing where it is content."""
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            specimen.read(place)
    except SmoothcertError as error:
        return str(error)
    except Late:
        raise AssertionError(f"no end after {SECONDS} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return ""


def _from_child(specimen: specimens.Specimen, place: Path) -> str:
    """The same from a process that can be ended: SQLite may never come back to hear of a clock."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = _said(specimen, place)
        except BaseException:
            said = traceback.format_exc()
        os.write(theirs, said.encode(errors="replace")[-50_000:])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        answered, _, _ = select.select([pipe], [], [], 2 * SECONDS)
        if not answered:
            os.kill(child, signal.SIGKILL)
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, "no end" if not answered else f"it died of {status}"
    return said


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
