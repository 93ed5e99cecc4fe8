"""`smoothcert verify`: check a run, or one certificate, with nothing else; `smoothcert certificate`: write one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import Json, print_json, problems, put, say, wrote
from smoothcert.errors import OptionError
from smoothcert.progress import bar, remark

if TYPE_CHECKING:
    from smoothcert.runs.sign import TrustedKey
    from smoothcert.runs.verify import Findings, Places


def command(
    run: Annotated[Path, typer.Argument(help="Verify the run in this folder, or one certificate (JSON).")],
    redraw: Annotated[
        str | None,
        panels.draws(
            help="Redraw this many inputs from their seeds, or all.", show_default="the square root of their number"
        ),
    ] = None,
    seed: Annotated[
        int | None, panels.draws(help="Choose the inputs to redraw by this seed.", show_default="random")
    ] = None,
    trust: Annotated[
        list[Path] | None, panels.what(help="Require a signature by this public key; repeat for several.")
    ] = None,
    model: o.ModelNow = None,
    data: o.DataNow = None,
    memory: o.MemoryNow = None,
    secret: Annotated[
        str | None, panels.what(help="Use the service's revealed secret: a file or hexadecimal digits.")
    ] = None,
    threads: o.Threads = None,
    as_json: Json = False,
) -> None:
    """Recompute a run from its counts, and redraw some inputs.

    It exits with 1 if anything differs from the record. Answers of a memory are replayed, by other code, from the
    counts and the regions that it held then. What this cannot show is listed as left open: above all, without a
    signature, who made the run.

    smoothcert verify runs/a
    smoothcert verify runs/a --redraw all --trust alice.pub
    """
    from smoothcert.runs.sign import read_trusted
    from smoothcert.runs.verify import Places
    from smoothcert.streams import check_seed

    number, keys = _redraws(redraw), [read_trusted(path) for path in trust or []]
    if seed is not None:
        check_seed(seed)
    check = RunCheck(Places(model, data, memory, _secret(secret)), keys, threads, as_json)
    if run.is_dir() or not run.exists():
        if secret is not None:
            raise OptionError("--secret is for a certificate of a service; got a run")
        findings = check.of_run(run, number, seed)
    else:
        findings = check.of_certificate(run, number != 0)
    if findings.problems:
        raise typer.Exit(1)


def _secret(given: str | None) -> str | None:
    """The secret that a service has told: in a file that `smoothcert serve reveal` wrote, or as it is."""
    from smoothcert import foreign

    if given is None:
        return None
    text = given
    if foreign.is_there(Path(given)):
        table = foreign.parse_json(foreign.content(Path(given), "the secret of a service"), f"'{given}'")
        text = str(table.get("secret", "")) if isinstance(table, dict) else ""
    if not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise OptionError(
            f"--secret must be a file of `smoothcert serve reveal`, or 64 hexadecimal digits; got '{given}'"
        )
    return text


def _redraws(text: str | None) -> int | None:
    """How many rows are drawn again: None for the usual number."""
    from smoothcert.runs.verify import ALL

    if text is None:
        return None
    if text == "all":
        return ALL
    if not text.isdecimal() or len(text) > 12:
        raise OptionError(f"--redraw must be all, or a whole number of at least 0; got '{text}'")
    return int(text)


class RunCheck(NamedTuple):
    """By which means something is verified, and how it is told."""

    places: Places
    keys: Sequence[TrustedKey]
    threads: int | None
    as_json: bool

    def of_run(self, folder: Path, redraw: int | None, seed: int | None) -> Findings:
        """A whole run."""
        from smoothcert.runs.sign import signature_of, statement_of_run
        from smoothcert.runs.store import read
        from smoothcert.runs.verify import verify_run

        run = read(folder)
        spec = run.asked
        with bar(f"verify {folder.name}", "draws") as update:
            found = verify_run(run, self.places, redraw, seed, update, self.threads)
        _add_signature(found, signature_of(run), lambda: statement_of_run(run), self.keys)
        if self.as_json:
            print_json({"run": str(folder), "inputs": spec.inputs, **asdict(found)})
            return found
        remark(spec.uncovered)
        problems(found.problems, "NOT AS RECORDED")
        again = f"{found.votes} draws, {found.explained} votes moved within rounding"
        if found.redrawn and found.attempts > 1:
            again += f"; from {found.redrawn_attempts} of {found.attempts} attempts"
        say(
            f"{found.rows} of {spec.inputs} inputs recomputed from their counts; {found.redrawn} drawn again ({again})"
            + (f"; {found.settled} answers of the memory replayed: " if found.settled else ": ")
            + ("all as recorded" if not found.problems else f"{len(found.problems)} problems")
        )
        if spec.commitment is not None and spec.revealed:
            say(f"the seed was drawn in secret and committed to: attempt {spec.commitment.attempt} at this question")
        _say_origin(found)
        return found

    def of_certificate(self, path: Path, again: bool) -> Findings:
        """One certificate."""
        from smoothcert.report.certificate import with_words
        from smoothcert.report.tables import class_name
        from smoothcert.runs.certificate import read_document, verify_document
        from smoothcert.runs.sign import statement_of_document

        document = read_document(path)
        row, label = document.row, class_name(document.run, document.row.predicted)
        with bar(f"verify {path.name}", "draws") as update:
            found = verify_document(document, self.places, again, update, with_words, self.threads)
        _add_signature(found, document.signature, lambda: statement_of_document(document.given), self.keys)
        if self.as_json:
            print_json({"certificate": str(path), "index": row.index, **document.given["answer"], **asdict(found)})
            return found
        remark(document.run.asked.uncovered)
        problems(found.problems, "NOT AS STATED")
        drawn = f"{found.votes:,} draws drawn again, {found.explained} votes moved within rounding"
        left = "" if document.x is not None or not again else " (the input's values are not in it)"
        say(
            f"input {row.index}: label {label}, radius {row.radius}; recomputed from its "
            f"counts, {drawn if found.redrawn else f'nothing drawn again{left}'}: "
            + ("all as stated" if not found.problems else f"{len(found.problems)} problems")
        )
        _say_origin(found)
        return found


def _add_signature(
    found: Findings, envelope: Any, statement: Callable[[], Mapping[str, Any]], keys: Sequence[TrustedKey]
) -> None:
    """What a signature adds to the findings."""
    from smoothcert.runs.sign import checked
    from smoothcert.runs.verify import UNTOLD

    wrong, left, found.signers = checked(envelope, statement, keys)
    found.problems[:0] = wrong
    found.left_open += left
    if found.signers:  # who vouches for all that was written down
        found.left_open.remove(UNTOLD)


def _say_origin(found: Findings) -> None:
    for signer in found.signers:
        say(f"signed by {signer}")
    for line in found.left_open:
        say(f"left open: {line}")


def certificate(
    run: o.RunFolder,
    index: Annotated[int, typer.Argument(metavar="INDEX", help="Show the input with this index in the data.")],
    out: Annotated[Path | None, typer.Option(help="Write JSON to this file, for `smoothcert verify`.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page to this file.")] = None,
    as_json: Json = False,
    data: o.DataNow = None,
    without_input: Annotated[bool, typer.Option("--without-input", help="Leave out the input itself.")] = False,
    key: Annotated[Path | None, typer.Option(help="Sign it with this Ed25519 private key.")] = None,
) -> None:
    """Show one input's certificate and all that it rests on.

    It has the counts, bound, significance, seed and hashes, and says in words what they prove.

    smoothcert certificate runs/a 20 --out certificate.json --html certificate.html
    smoothcert verify certificate.json --model models/a
    """
    from smoothcert.files import write_whole
    from smoothcert.report import certificate as words
    from smoothcert.report.inputs import Album
    from smoothcert.runs import sign
    from smoothcert.runs.certificate import document
    from smoothcert.runs.store import read
    from smoothcert.runs.verify import Places

    o.check_place("--out", out)
    o.check_place("--html", html)
    found, signing = read(run), None if key is None else sign.read_private(key)
    inputs = Places(data=data).inputs(found)
    made = document(found, index, inputs, values=not without_input)
    remark(found.asked.uncovered)
    table: dict[str, Any] = json.loads(json.dumps(words.with_words(made), allow_nan=False))
    if signing is not None:
        table["signature"] = sign.signed(sign.statement_of_document(table), signing)
    lines = (f' "{name}": {json.dumps(part, ensure_ascii=False, allow_nan=False)}' for name, part in table.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    pages = {} if out is None else {out: text}
    if html is not None:
        pages[html] = words.page(made, None if without_input else Album.of_input(found.asked, inputs, index))
    for path, content in pages.items():
        write_whole(path, content.encode())
        wrote(path)
    if as_json:
        put(text, end="")
    elif not pages:
        say(words.text(made))
