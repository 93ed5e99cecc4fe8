"""`smoothcert`: finds the commands, and turns every failure into one line and an exit code.

Exit codes:
    0    done
    1    done, and something was found: `verify`, `audit`, `memory check`: not as recorded; `compare`: below a limit
    2    bad input, or a machine without room for it (one line)
    70   a defect of smoothcert (one line; SMOOTHCERT_TRACEBACK=1 adds where)
    130  interrupted (what was done is kept)
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import io
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert import __version__
from smoothcert.cli.console import say
from smoothcert.cli.panels import PanelCommand
from smoothcert.errors import OptionError, SmoothcertError
from smoothcert.foreign import special
from smoothcert.progress import in_one_line

# In the order a newcomer meets them. A command is a file of this folder, or a function beside another command; the
# function of a file is `command`, and its group, where it has several, is `app`.
COMMANDS = (
    "demo", "data", "zoo", "train", "ensemble", "ensemble:denoise", "plan", "certify", "certify:predict", "memory",
    "verify", "sign", "audit", "report", "compare", "compare:history", "verify:certificate", "export",
    "export:export-onnx", "quantise", "aces", "route", "serve", "keys",
)  # fmt: skip

DEFECT = 70  # EX_SOFTWARE of sysexits.h: never to be taken for "verify found something"
INTERRUPTED = 130
TRACEBACK = "SMOOTHCERT_TRACEBACK"
QUIET, TRUST = ("--quiet", "-q"), ("--trust-code",)
ANYWHERE = (*QUIET, *TRUST)
PATIENCE = 1.0  # seconds after an interruption in which another one is taken for the same
_interrupted: list[float] = []  # when

STORY = """\
smoothcert: classifiers that are provably robust, by randomized smoothing; inputs and sigma are on the scale [0,1]
  smoothcert demo                                                                  the whole story, in minutes
  smoothcert train   --data cifar10 --arch resnet20 --sigma 0.25 --out models/a    a network that withstands noise
  smoothcert certify models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a   label and radius, with evidence
  smoothcert verify  runs/a                                                        recompute it, and draw again
  smoothcert report  runs/a runs/b --html report.html                              figures and curves, side by side
  smoothcert compare runs/a runs/b                                                 which is better, and how surely
`smoothcert --help` lists all commands, `smoothcert COMMAND --help` explains one; an ONNX file or a callable will do"""

app = typer.Typer(
    name="smoothcert",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train, certify, verify and serve provably robust classifiers.\n\nInputs and sigma are on the scale [0,1].",
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    quiet: Annotated[bool, typer.Option(*QUIET, help="Print errors only; this option may stand anywhere.")] = False,
    trust_code: Annotated[
        bool, typer.Option(*TRUST, help="Run code that models, runs and certificates bring; also anywhere.")
    ] = False,
) -> None:
    if trust_code:
        from smoothcert.classifiers.module import trusting

        context.with_resource(trusting())
    if quiet:  # remarks go nowhere until the command ends; an error is said after that
        context.with_resource(contextlib.redirect_stderr(io.StringIO()))
    if context.invoked_subcommand is None and not version:
        say(STORY)
    if version:
        typer.echo(f"smoothcert {__version__}")
        raise typer.Exit()


for _place in COMMANDS:
    _file, _, _name = _place.partition(":")
    _module = importlib.import_module(f"smoothcert.cli.{_file}")
    if not _name and hasattr(_module, "app"):
        app.add_typer(_module.app, name=_file)
    else:
        app.command(_name or _file)(getattr(_module, _name.replace("-", "_") or "command"))


def _lay_out_help(group: typer.Typer) -> None:
    """A docstring's last paragraph, if it is of commands, is the examples at the end of help."""
    for each in group.registered_commands:
        text, _, last = (inspect.getdoc(each.callback) or "").rpartition("\n\n")
        if last.startswith("smoothcert "):
            each.help, each.epilog = text, last
        each.cls = PanelCommand
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _lay_out_help(inner.typer_instance)


_lay_out_help(app)


def main() -> None:
    """The console script."""
    # Threads that spin while they wait take the cores from those that work: ruinous as soon as a core is busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        for number in (signal.SIGINT, signal.SIGTERM):  # while Python ends, the default would be a death by signal
            signal.signal(number, signal.SIG_IGN)
        _say("interrupted; finished work is kept, and the same command resumes it")
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    try:
        _refuse_unusable(arguments)
        result: Any = _whole_command()(_anywhere_first(arguments), prog_name="smoothcert", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SmoothcertError as error:
        return INTERRUPTED if _interrupted else _fail(str(error))
    except typer.Exit as end:
        return int(end.exit_code)
    except (KeyboardInterrupt, typer.Abort) as end:
        if isinstance(end.__cause__, EOFError):  # a file that ends too early, which click takes for the user's Ctrl-D
            raise end.__cause__ from None
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has had enough; nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except typer.exceptions.TyperException as error:
        return _fail(_usage(error))
    except Exception as error:
        return _unforeseen(error)


@functools.cache
def _whole_command() -> Any:
    """All commands as typer carries them out; making this anew would take most of the time of a short line."""
    return typer.main.get_command(app)


def _refuse_unusable(arguments: list[str]) -> None:
    """What no command can use: nothing at all, what no recipe can keep, and files that may never end."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        option, equals, after = word.partition("=")
        name, value = (option, after) if equals and word.startswith("--") else (before, word)
        whose = name if name.startswith("--") and name != "--" else "an argument"
        if not value.strip():
            raise OptionError(f"{whose} must have a value; got '{value}'")
        if "\0" in value or any("\ud800" <= mark <= "\udfff" for mark in value):
            raise OptionError(f"{whose} must be UTF-8 text without zero bytes; got '{value}'")
        if (kind := special(value)) is not None:
            raise OptionError(f"{whose} must be a file or folder, not {kind}; got '{value}'")


def _unforeseen(error: Exception) -> int:
    """What no part foresaw: the machine's refusals are the user's matter, all else is a defect."""
    if TRACEBACK in os.environ:
        traceback.print_exception(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return _fail("this machine has too little memory for that; ask for less at a time")
    if isinstance(error, RecursionError):
        return _fail("a file or an option is nested too deeply")
    if isinstance(error, UnicodeEncodeError):
        return _fail(f"names of files and folders must be UTF-8 text; got '{error.object}'")
    if isinstance(error, OSError):
        whose = "output" if error.filename is None else f"'{os.fsdecode(error.filename)}'"
        return _fail(f"cannot read or write {whose}: {error.strerror or error}")
    last = traceback.extract_tb(error.__traceback__)[-1]
    _say(
        f"a bug in smoothcert {__version__}, not in your command: {type(error).__name__} in "
        f"{Path(last.filename).name}, line {last.lineno} ({error}); please report it with what {TRACEBACK}=1 prints"
    )
    return DEFECT


def _anywhere_first(arguments: list[str]) -> list[str]:
    """--quiet and --trust-code belong to no command and may stand anywhere; what follows `--` is left alone."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest = arguments[:end], arguments[end:]
    return [*(word for word in words if word in ANYWHERE), *(word for word in words if word not in ANYWHERE), *rest]


def _usage(error: Exception) -> str:
    """A misused command line in one line: what is wrong, what may have been meant, where help is."""
    text = str(error.format_message() if hasattr(error, "format_message") else error)
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "smoothcert"
    if hasattr(error, "possibilities"):
        given = str(getattr(error, "option_name", ""))
        near = difflib.get_close_matches(given, error.possibilities or (), n=1)
        text = f"{where} has no option {given}" + (f"; did you mean {near[0]}?" if near else "")
    return f"{text.rstrip('.')}{'' if text.endswith('?') else ';'} see {where} --help"


def _fail(message: str) -> int:
    _say(message)
    return 2


def _say(message: str) -> None:
    print(f"smoothcert: {in_one_line(message)}", file=sys.stderr)


def _interrupt(number: int, frame: object) -> None:
    """The first signal ends the work in order; a second one at the same moment adds nothing, a later one ends at once.

    What is on the disk is whole at any moment.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt_again)
    _interrupted.append(time.monotonic())
    raise KeyboardInterrupt


def _interrupt_again(number: int, frame: object) -> None:
    if time.monotonic() - _interrupted[0] > PATIENCE:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
