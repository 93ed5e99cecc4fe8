"""`smoothcert memory`: make a memory of certified regions, look at it, check it, ask it, copy it."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import Json, print_grid, print_json, problems, say

app = typer.Typer(help="Make, check, query and copy memories of certified regions.")

File = Annotated[str, typer.Argument(metavar="FILE", help="Open this memory: a file or postgresql://…?memory=NAME.")]


@app.command("create")
def create(
    file: File,
    model: o.Model,
    shape: o.Shape,
    norm: Annotated[str, typer.Option(help="Measure radii in l2 or l1.")] = "l2",
) -> None:
    """Make an empty memory for one classifier, norm and shape.

    `smoothcert certify --memory FILE` fills it.

    smoothcert memory create m.sqlite models/a --shape 3,32,32
    """
    from smoothcert.classifiers import digest, load
    from smoothcert.memory import Memory, named

    sizes = o.parse_shape(shape)
    load(model)  # a memory for what is no classifier would be refused by everybody
    Memory.create(file, digest(model).hex, cast(Any, norm), sizes).close()  # what is no norm is refused there
    say(f"{named(file)} is an empty memory for {model}, {norm}, inputs {sizes}")


@app.command("stats")
def stats(file: File, as_json: Json = False) -> None:
    """Show a memory's classifier, and its regions by label.

    smoothcert memory stats m.sqlite
    """
    from smoothcert.memory import Memory

    with Memory.open(file, frozen=True) as memory:
        found = memory.stats()
        identity = memory.identity
    if as_json:
        labels = [label._asdict() for label in found.labels]
        owner = {"classifier": found.owner.classifier, "norm": found.owner.norm, "shape": list(found.owner.shape)}
        print_json({"identity": identity, **owner, "regions": found.regions, "bytes": found.size, "labels": labels})
        return
    say(f"memory {identity[:8]} of classifier {found.owner.classifier[:12]}, {found.owner.norm}, "
               f"inputs {found.owner.shape}: {found.regions} regions, {found.size:,} bytes")  # fmt: skip
    if found.labels:
        lines = [
            (str(part.label), str(part.regions), str(part.shrunk), _radius(part.smallest), _radius(part.largest))
            for part in found.labels
        ]
        print_grid(100, ("label", "regions", "made room", "smallest radius", "largest radius"), lines)


@app.command("check")
def check(file: File) -> None:
    """Check that no two regions of different labels meet.

    It exits with 1 if any do.

    smoothcert memory check m.sqlite
    """
    from smoothcert.memory import Memory

    with Memory.open(file, frozen=True) as memory:
        wrong, regions = memory.check(), len(memory)
    problems(wrong, "WRONG")
    say(f"{regions} regions: " + (f"{len(wrong)} things are wrong" if wrong else "no two of different labels meet"))
    if wrong:
        raise typer.Exit(1)


@app.command("query")
def query(
    file: File,
    data: o.Data,
    skip: o.Skip = 1,
    max: o.Max = -1,
    start: o.Start = 0,
    split: o.Split = "test",
    range: o.Range = None,
    image_size: o.ImageSize = None,
    as_json: Json = False,
) -> None:
    """Ask a memory which region each input lies in.

    The answer is the label and number of the region that an input lies deepest in, and how far it holds.

    smoothcert memory query m.sqlite --data cifar10 --start 17 --max 18
    """
    from smoothcert.memory import Memory

    inputs = o.subset(data, split, skip, max, range, image_size, start).load()
    with Memory.open(file, frozen=True) as memory:
        answers = [memory.query(inputs.tensor(position)) for position, _ in enumerate(inputs.indices)]
    found = [(int(index), answer) for index, answer in zip(inputs.indices, answers, strict=True)]
    if as_json:
        nothing = {"label": None, "number": None, "radius": 0.0}
        print_json([{"input": i, **(a._asdict() if a else nothing)} for i, a in found])
        return
    lines = [(str(i), str(a.label), str(a.number), _radius(a.radius)) for i, a in found if a]
    if lines:
        print_grid(100, ("input", "label", "region", "radius"), lines)
    say(f"{len(lines)} of {len(inputs)} inputs of {inputs.name} ({inputs.split}) lie in a region")


@app.command("copy")
def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="Open this memory: a file or postgresql://…?memory=NAME.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Write the copy here: a file or postgresql://…?memory=NAME.")
    ],
) -> None:
    """Copy a memory between files and databases.

    The copy is exact, keeps its identity, and is checked before it counts.

    smoothcert memory copy m.sqlite postgresql://user@host/database
    """
    from smoothcert.memory import Memory, named

    regions = Memory.copy(source, target)
    say(f"{named(target)} is a copy of {named(source)}: {regions} regions; go on with one of the two only")


def _radius(radius: float) -> str:
    from smoothcert.report.tables import decimal

    return decimal(radius)
