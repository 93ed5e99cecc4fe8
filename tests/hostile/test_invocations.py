"""Bad invocations of every command: exit code 2, one line that says what is bad, soon, and nothing left behind."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import invocations
import pytest
import small_run
from invocations import COMMANDS, Invocation

from smoothcert.cli.main import run
from smoothcert.progress import in_one_line

SECONDS = 5
NOWHERE = ("/dev/null", "/proc", "/dev/full/")  # where trying to write does nothing
MEMORY = 4 * 2**30  # bytes more than before, which none of these lines may need
REMARKS = ("can prove radii", "noise is added in floating point", "could be hashed", "decide radius", "noise (l")


class Hang(BaseException):
    """Nothing that a command catches."""


class Elsewhere:
    """Notes what is opened to be written, made or renamed outside a folder; Python tells of each."""

    def __init__(self) -> None:
        self.inside: str | None = None
        self.found: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inside is None or event not in ("open", "os.mkdir", "os.rename", "os.symlink", "os.link"):
            return
        path, flags = arguments[0], arguments[2] if event == "open" else os.O_WRONLY
        if not isinstance(path, str | bytes | os.PathLike) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        place = str(Path.cwd() / os.fsdecode(path))
        if not place.startswith((self.inside, *NOWHERE)):
            self.found.append(f"{event} {place}")


ELSEWHERE = Elsewhere()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with everything that the lines name; caches and temporary files go beside it."""
    base = tmp_path_factory.mktemp("hostile").resolve()
    work = base / "inner" / "work"
    work.mkdir(parents=True)
    invocations.furnish(work)
    with pytest.MonkeyPatch.context() as patch:
        for variable, place in (("SMOOTHCERT_CACHE", "cache"), ("TMPDIR", "temporary"), ("HOME", "home")):
            (base / place).mkdir()
            patch.setenv(variable, str(base / place))
        patch.setattr("tempfile.tempdir", str(base / "temporary"))
        patch.chdir(work)
        small_run.write_data(work / "good.npz")
        for line in PREPARED:
            assert run(shlex.split(line)) == 0, line
        yield base


DRAWN = invocations.DRAWN.replace("--max 3", "")
PREPARED = (
    f"certify linear:score {DRAWN} --out run",
    f"certify linear:score {DRAWN} --out runs/a",
    f"certify linear:score {DRAWN} --memory memory --out remembered",
    f"certify linear:score {DRAWN} --split train --out seen",
    f"certify linear:score {DRAWN.replace('0.25', '0.5')} --split train --out wide",
    f"aces certify --certify switches:steep --core switches:core {DRAWN} --look 100 --max 6 --out aces",
    f"aces certify --certify switches:steep --core switches:core {DRAWN} --look 100 --start 6 --out others",
    f"route certify --branch lines:a@0.25 --branch lines:b@0.5 --select linear:score {DRAWN} --out route",
    f"certify linear:score {DRAWN} --out signed",
    "sign --new-key key",
    "serve linear:score --sigma 0.25 --shape 4 --port 0 --check --state service",
    "keys add alice --scope certify --file keys.toml",
    "export run --out log.tsv --full",
    "report run --plot picture.svg",
    "train --data good.npz --arch mlp --epochs 1 --set width=4 --device cpu --threads 1 --out net",
    "export-onnx net --data good.npz --out net.onnx",
)


@pytest.fixture
def attempt(world: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Invocation], str]:
    """What is wrong with how a bad line was refused; nothing if nothing is."""

    def once(bad: Invocation) -> tuple[float, str]:
        capsys.readouterr()
        before, begun = listing(world), time.monotonic()
        try:
            code: Any = guarded(bad.words, str(world))
        except BaseException as error:
            code = f"{type(error).__name__}: {str(error)[:200]}"
        seconds, after = time.monotonic() - begun, listing(world)
        captured = capsys.readouterr()
        faults = [
            f"ended with {code}: {captured.err!r:.200}" if code != 2 else ill_said(captured.err, bad),
            f"took {seconds:.1f} s" if seconds > SECONDS else "",
            f"changed {sorted(after ^ before)[:4]}" if after != before else "",
            f"wrote elsewhere: {ELSEWHERE.found[:3]}" if ELSEWHERE.found else "",
        ]
        cleared(path for path, *_ in after - before)
        return seconds, "; ".join(fault for fault in faults if fault)

    def wrong(bad: Invocation) -> str:
        seconds, faults = once(bad)
        return faults if seconds <= SECONDS else once(bad)[1]  # a busy machine is slow once, a hang hangs again

    return wrong


def cleared(paths: Iterable[str]) -> None:
    """Away with what a line left, so that the next one finds what it should."""
    for path in map(Path, paths):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def guarded(words: tuple[str, ...], inside: str) -> int:
    """The exit code of a line that may neither hang, nor fill the memory, nor write outside a folder unseen."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Hang(f"no end after {SECONDS} s")))
    signal.alarm(SECONDS + 1)
    ELSEWHERE.inside = inside
    ELSEWHERE.found.clear()
    try:
        return run(list(words))
    finally:
        ELSEWHERE.inside = None
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def listing(world: Path) -> set[tuple[str, int, int]]:
    """Every file with its size and age, except caches."""
    found = set()
    for folder, folders, files in os.walk(world):
        if Path(folder) == world:
            folders.remove("cache")
        for name in (*folders, *files):
            state = (Path(folder) / name).lstat()
            if not name.endswith(("-shm", "-wal")):  # SQLite's own, beside a run that is read
                found.add((f"{folder}/{name}", state.st_size, 0 if name in folders else state.st_mtime_ns))
    return found


def ill_said(said: str, bad: Invocation) -> str:
    """What is wrong with the line: there must be one, without control characters, about the option or its value."""
    lines = [line for line in said.split("\n") if line and not any(words in line for words in REMARKS)]
    if len(lines) != 1 or not lines[0].startswith("smoothcert: "):
        return f"said {said!r:.300}"
    (line,) = lines
    if not line.isprintable() or len(line) > 700:
        return f"said unprintably or at length {line!r:.300}"
    option, value = bad.option.strip("-"), in_one_line(bad.value)
    names = {option, option.replace("-", "_"), value[:20] or "got '", value.partition("=")[0][:20] or "="}
    names |= {"radii"} if option == "radius" else {value.rpartition(".")[0][:20] or option}  # a picture is two files
    if not any(name.lower() in line.lower() for name in names):
        return f"does not name {bad.option}: {line}"
    return ""


def told(bad: Invocation, fault: str) -> str:
    return (
        f"smoothcert {' '.join(word if len(word) < 80 else f'{word[:30]}…' for word in map(repr, bad.words))}: {fault}"
    )


def test_every_command_has_a_good_line_and_every_option_bad_values() -> None:
    assert set(invocations.GOOD) == set(COMMANDS)
    assert all(invocations.bad_values(name, param) for name in COMMANDS for param in invocations.options(name))
    assert len({bad.words for name in COMMANDS for bad in invocations.few(name)}) >= 500


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_good_lines_are_good(command: str, world: Path, tmp_path: Path) -> None:
    """Or the bad ones would be refused for another reason."""
    assert run(invocations.good(command, str(tmp_path / "new"))) == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_lines_are_refused_in_one_line(command: str, attempt: Callable[[Invocation], str]) -> None:
    faults = {bad: fault for bad in invocations.few(command) if (fault := attempt(bad))}
    assert not faults, "\n".join(told(*item) for item in faults.items())


@pytest.mark.study
@pytest.mark.parametrize("command", COMMANDS)
def test_every_bad_line_is_refused_in_one_line(command: str, attempt: Callable[[Invocation], str]) -> None:
    faults = {bad: fault for bad in invocations.invocations(command) if (fault := attempt(bad))}
    assert not faults, "\n".join(told(*item) for item in faults.items())
