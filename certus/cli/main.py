"""`certus`: finds the commands, and turns every failure into one line and an exit code.

Exit codes: 0 done, 2 bad input (one line), 1 anything else, 130 interrupted (what was done is kept).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Annotated, Any

import typer

from certus import __version__
from certus.errors import CertusError

# In the order a newcomer meets them. A command is a file of this folder: `command` is its function, `app` its group.
COMMANDS = (
    "demo", "data", "zoo", "train", "ensemble", "plan", "certify", "predict", "verify", "report", "export",
    "export-onnx", "quantise", "aces", "route",
)  # fmt: skip

INTERRUPTED = 130

app = typer.Typer(
    name="certus",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Classifiers that are provably robust, by randomized smoothing. Inputs and sigma are on the scale [0,1].",
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())
    if version:
        typer.echo(f"certus {__version__}")
        raise typer.Exit()


for _name in COMMANDS:
    _module = importlib.import_module(f"certus.cli.{_name.replace('-', '_')}")
    if hasattr(_module, "app"):
        app.add_typer(_module.app, name=_name)
    else:
        app.command(_name)(_module.command)


def main() -> None:
    """The console script."""
    # Threads that spin while they wait take the cores from those that work: ruinous as soon as a core is busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    signal.signal(signal.SIGTERM, _interrupt)
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        _say("certus: interrupted; what was finished is kept, and the same command continues it")
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    try:
        result: Any = app(arguments, prog_name="certus", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except CertusError as error:
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
        return _fail(error.format_message() if hasattr(error, "format_message") else str(error))


def _fail(message: str) -> int:
    _say(f"certus: {' '.join(message.split())}")
    return 2


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
