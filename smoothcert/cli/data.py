"""`smoothcert data`: fetch data sets and see which there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert import catalog
from smoothcert.cli import options as o
from smoothcert.cli.console import Json, print_grid, print_json, say
from smoothcert.errors import unknown
from smoothcert.progress import fitted_progress

app = typer.Typer(help="Fetch, list, scale and digest data sets.")

_PATIENCE = 2.0  # seconds before a download shows its progress


@app.command("get")
def get(name: Annotated[str, typer.Argument(help="Fetch this data set, named as by `smoothcert data list`.")]) -> None:
    """Fetch a data set, verify its checksum and cache it.

    SMOOTHCERT_DATA says where.

    smoothcert data get cifar10
    """
    part = catalog.build("data", name)
    if part.embedded:
        say(f"{name} is embedded; there is nothing to fetch")
        return
    with _Bar() as bar:
        part.get(progress=bar.report)
    say(f"{name} is cached and verified in {part.folder()}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List data sets: sizes, shapes, and where they are cached.

    smoothcert data list
    """
    parts = {name: catalog.build("data", name) for name in catalog.names("data")}
    if as_json:
        print_json([_facts(name, part) for name, part in parts.items()])
        return
    lines = []
    for name, part in parts.items():
        where = (
            "embedded" if part.embedded else str(part.folder()) if part.cached() else f"no: smoothcert data get {name}"
        )
        shape = "×".join(map(str, part.shape))
        lines.append((name, str(part.sizes["train"]), str(part.sizes["test"]), shape, str(part.classes), where))
    print_grid(120, ("name", "train", "test", "shape", "classes", "cached"), lines, words=("cached",))
    say("--data also takes an .npz file (arrays x, y) or a folder of images (<split>/<class>/*.png|jpeg)")


@app.command("digest")
def digest(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Read a named data set, an .npz file or a folder of images.")
    ],
    split: o.Split = "train",
    contents: Annotated[
        bool, typer.Option("--contents", help="Also digest the values, which opens every file.")
    ] = False,
    range: o.Range = None,
    image_size: o.ImageSize = None,
) -> None:
    """Print the digest that checkpoints keep of their data.

    Of a folder it is the sha256 of its listing.

    smoothcert data digest /data/imagenet --split train --image-size 224
    """
    inputs = o.subset(data, split, 1, -1, range, image_size).load()
    listed = "names, sizes, labels and indices" if inputs.decoded else "values, labels and indices"
    say(f"{inputs.listing_digest}  {len(inputs)} inputs of {data} ({split}): {listed}")
    if contents and inputs.decoded:
        say(f"{inputs.digest}  {len(inputs)} inputs of {data} ({split}): values, labels and indices")


@app.command("scale")
def scale(
    training: Annotated[Path, typer.Argument(metavar="TRAIN", help="Read training data, an .npz file with inputs x.")],
    out: Annotated[Path, typer.Option(help="Write this .json file, for `smoothcert certify --scale`.")],
    kind: Annotated[str, typer.Option(help="Fit a minmax or a standard scale.")] = "standard",
    layout: o.Layout = None,
) -> None:
    """Fit a scale to each feature, for `certify --scale`.

    smoothcert data scale train.npz --kind standard --out scale.json
    """
    import json

    from smoothcert.data import FITTED, Subset, scale_of
    from smoothcert.files import write_whole

    if kind not in FITTED:
        raise unknown("--kind", kind, FITTED)
    o.check_file(out, ".json")
    found = scale_of(kind, str(training), o.as_given(Subset(""), layout, None))
    write_whole(out, json.dumps(found.scale.table(), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    say(f"{out}: {kind} scale of {len(found.scale.width)} features" + o.constant_words(found))


def _facts(name: str, part: Any) -> dict[str, Any]:
    there = part.embedded or part.cached()
    cached = str(part.folder()) if there and not part.embedded else None
    return {
        "name": name, "sizes": part.sizes, "shape": part.shape, "classes": part.classes, "there": there,
        "cached": cached,
    }  # fmt: skip


class _Bar:
    """A progress bar on stderr that appears when a fetch takes longer than _PATIENCE."""

    def __init__(self) -> None:
        from rich.console import Console

        self._progress = fitted_progress(Console(stderr=True))
        self._task = self._progress.add_task("", total=None, text="")

    def __enter__(self) -> _Bar:
        import threading

        # A package client reports nothing while it works, so the clock and not a report must open the bar.
        self._timer = threading.Timer(_PATIENCE, self._progress.start)
        self._timer.daemon = True
        self._timer.start()
        return self

    def report(self, what: str, done: int, total: int | None) -> None:
        short = what if len(what) <= 50 else f"…{what[-49:]}"
        told = f"{done / 1e6:.1f}" + (f"/{total / 1e6:.1f}" if total else "") + " MB"
        self._progress.update(self._task, description=short, completed=done, total=total, text=told)

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._progress.live.is_started:  # a bar that never opened would still print an empty line
            self._progress.stop()
