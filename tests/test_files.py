"""Files that are whole or not there: what a killed writer leaves goes with the next one, and nobody else's does."""

from __future__ import annotations

import fcntl
import os
import signal

import pytest
from victims import context

from smoothcert import files
from smoothcert.errors import OutputError
from smoothcert.files import write_whole


def parts(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))


def write_and_wait(path, ready):
    """The victim: its part is written, and the rename never comes."""
    os.fsync = lambda number: (ready.set(), signal.pause())
    write_whole(path, b"half" * 1000)


def write_often(path, letter, times):
    for _ in range(times):
        write_whole(path, letter * 50_000)


def start(target, *arguments):
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


@pytest.fixture
def abandoned(tmp_path):
    """What a kill in the middle of writing `recipe.toml` leaves."""
    ready = context.Event()
    victim = start(write_and_wait, tmp_path / "recipe.toml", ready)
    assert ready.wait(60)
    assert len(parts(tmp_path)) == 1 and victim.is_alive()
    yield tmp_path, victim
    victim.kill()
    victim.join()


def test_a_killed_writers_part_goes_with_the_next_write_of_that_file(abandoned):
    folder, victim = abandoned
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    assert len(parts(folder)) == 1 and not (folder / "recipe.toml").exists()
    write_whole(folder / "other.toml", b"x")
    assert len(parts(folder)) == 1, "another file's part is left to the next writer of that file"
    write_whole(folder / "recipe.toml", b"whole")
    assert parts(folder) == [] and (folder / "recipe.toml").read_bytes() == b"whole"


def test_a_living_writers_part_stays(abandoned):
    folder, victim = abandoned
    before = parts(folder)
    write_whole(folder / "recipe.toml", b"whole")
    assert parts(folder) == before and victim.is_alive()


def test_parts_of_earlier_versions_go_and_files_that_look_alike_stay(tmp_path):
    """An earlier version put its process id there, here that of a living process: ids come again."""
    (tmp_path / f".a.{os.getppid()}.part").touch()
    alike = [".a.part", ".a.notes.part", "a.12.part", ".ab.12.part", ".a.12.part.txt", ".b.a.12.part"]
    for name in alike:
        (tmp_path / name).touch()
    (tmp_path / ".a.77.part").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").touch()
    write_whole(tmp_path / "a", b"x")
    assert {path.name for path in tmp_path.iterdir()} == {*alike, "a", "precious", ".a.77.part"}


def test_where_a_disk_has_no_locks_nothing_is_called_abandoned(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / ".a.12.part").touch()
    write_whole(tmp_path / "a", b"x")
    assert parts(tmp_path) == [".a.12.part"] and (tmp_path / "a").read_bytes() == b"x"


def test_a_part_that_is_taken_for_abandoned_before_it_is_locked_is_written_anew(tmp_path, monkeypatch):
    """Another writer looks between our creation of the part and our lock on it."""
    lock, looked = files._locked, []

    def late(file):
        if not looked:
            looked.append(file.name)
            files._remove_abandoned(tmp_path / "a")
        return lock(file)

    monkeypatch.setattr(files, "_locked", late)
    write_whole(tmp_path / "a", b"x")
    assert len(looked) == 1 and (tmp_path / "a").read_bytes() == b"x" and parts(tmp_path) == []


def test_four_writers_of_one_file_at_once_end_well(tmp_path):
    writers = [start(write_often, tmp_path / "a", letter, 150) for letter in (b"a", b"b", b"c", b"d")]
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / "a").exists():
            content = (tmp_path / "a").read_bytes()
            assert len(content) == 50_000 and len(set(content)) == 1
    assert [writer.exitcode for writer in writers] == [0] * 4 and parts(tmp_path) == []


def test_a_full_disk_leaves_the_old_file_and_no_part(tmp_path):
    """A limit on the size of files is as good as a full disk, and needs no rights."""
    write_whole(tmp_path / "a", b"old")
    full = start(write_beyond, tmp_path / "a")
    full.join()
    assert full.exitcode == 0 and (tmp_path / "a").read_bytes() == b"old" and parts(tmp_path) == []


def write_beyond(path):
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    with pytest.raises(OutputError, match="must be writable; got: File too large"):
        write_whole(path, b"new" * 10_000)
