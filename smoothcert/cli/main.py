"""`smoothcert`: finds the commands, and turns every failure into one line and an exit code.

Exit codes: 0 done, 2 bad input (one line), 1 anything else, 130 interrupted (what was done is kept).
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import io
import os
import signal
import sys
import time
from typing import Annotated, Any

import typer

from smoothcert import __version__
from smoothcert.errors import SmoothcertError
from smoothcert.foreign import one_line

# In the order a newcomer meets them. A command is a file of this folder, or a function beside another command; the
# function of a file is `command`, and its group, where it has several, is `app`.
COMMANDS = (
    "demo", "data", "zoo", "train", "ensemble", "ensemble:denoise", "plan", "certify", "certify:predict", "memory",
    "verify", "audit", "report", "compare", "compare:history", "verify:certificate", "export", "export:export-onnx",
    "quantise", "aces", "route",
)  # fmt: skip

INTERRUPTED = 130
QUIET = ("--quiet", "-q")
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
    help="Classifiers that are provably robust, by randomized smoothing. Inputs and sigma are on the scale [0,1].",
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    quiet: Annotated[bool, typer.Option(*QUIET, help="Errors only. May stand anywhere.")] = False,
) -> None:
    if quiet:  # remarks go nowhere until the command ends; an error is said after that
        context.with_resource(contextlib.redirect_stderr(io.StringIO()))
    if context.invoked_subcommand is None and not version:
        typer.echo(STORY)
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


def _keep_examples(group: typer.Typer) -> None:
    """Help wraps every paragraph but those marked by a backspace: examples, one command a line, are."""
    for each in group.registered_commands:
        paragraphs = (inspect.getdoc(each.callback) or "").split("\n\n")
        each.help = "\n\n".join(f"\b\n{text}" if text.startswith("smoothcert ") else text for text in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _keep_examples(inner.typer_instance)


_keep_examples(app)


def main() -> None:
    """The console script."""
    # Threads that spin while they wait take the cores from those that work: ruinous as soon as a core is busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        for number in (signal.SIGINT, signal.SIGTERM):  # while Python ends, the default would be a death by signal
            signal.signal(number, signal.SIG_IGN)
        _say("smoothcert: interrupted; what was finished is kept, and the same command continues it")
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    try:
        result: Any = app(_quiet_first(arguments), prog_name="smoothcert", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SmoothcertError as error:
        return _fail(str(error))
    except typer.Exit as end:
        return int(end.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has had enough; nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except typer.exceptions.TyperException as error:
        return _fail(_usage(error))


def _quiet_first(arguments: list[str]) -> list[str]:
    """--quiet belongs to no command and may stand anywhere; what follows `--` is left alone."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest = arguments[:end], arguments[end:]
    return [*(word for word in words if word in QUIET), *(word for word in words if word not in QUIET), *rest]


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
    _say(f"smoothcert: {one_line(message)}")
    return 2


def _say(line: str) -> None:
    print(line, file=sys.stderr)


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
