"""`smoothcert ensemble`: several models as one, written as a small folder that loads like a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli import forecast
from smoothcert.errors import ModelError, OptionError

if TYPE_CHECKING:
    from smoothcert.classifiers.composite import Part
    from smoothcert.contracts import Classifier
    from smoothcert.data import Subset
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.ensembles.spec import EnsembleChoice, EnsembleSpec


class Group(TyperGroup):
    """`smoothcert ensemble A B …` is short for `smoothcert ensemble make A B …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, ["make", *args] if args and args[0] not in known else args)


app = typer.Typer(cls=Group, help="Ensembles: make one of several models, or forecast what more members will bring.")


@app.command("make")
def make(
    members: Annotated[
        list[str],
        typer.Argument(metavar="MEMBERS...", help="Models: folders, files, zoo names, package.module:callable."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write composite.json into.")],
    vote: Annotated[
        str | None, typer.Option(help="soft (default), softmax, hard, max_margin; weighted (with --weights).")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="0.2,0.8, or fitted on hold-out data: learned, optimal.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="name=value, an option of learned or optimal, or of the noise.")
    ] = None,
    consensus: Annotated[int | None, typer.Option(help="Where the first K agree, they answer for all.")] = None,
    early_exit: Annotated[bool, typer.Option("--early-exit", help="Ask member after member until sure.")] = False,
    threshold: Annotated[float, typer.Option(help="Early exit: how sure the first must be alone.")] = 0.999,
    level: Annotated[float, typer.Option(help="Early exit: of the interval around the mean of several.")] = 0.05,
    data: Annotated[str | None, typer.Option(help="Hold-out data, for weights and order.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Noise on hold-out data: that of the certification.")] = None,
    noise: o.NoiseName = "gaussian",
    split: o.Split = "test",
    start: Annotated[int, typer.Option(help="First index of the hold-out data.")] = 1,
    skip: Annotated[int, typer.Option(help="Take every SKIP-th; what is taken cannot be certified later.")] = 20,
    max: o.Max = -1,
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    threads: o.Threads = None,
) -> None:
    """Make an ensemble: a folder that every command takes as MODEL.

    smoothcert ensemble models/a models/b models/c --consensus 2 --data cifar10 --sigma 0.25 --out models/abc
    """
    from smoothcert.classifiers import composite, load
    from smoothcert.ensembles.spec import EnsembleSpec

    # Everything that can be refused is refused before anything is loaded or written.
    exit_at = {"threshold": threshold, "level": level} if early_exit else False
    numbers, kind = _numbers(weights), vote or ("soft" if weights is None else "weighted")
    own, rest = p.settings_of("noise", noise, set_) if data is not None else ([], set_)
    spec = EnsembleSpec(len(members), kind, numbers, consensus, exit_at, p.named(rest))
    composite.refuse_strangers(out, "ensemble")
    subset = o.subset(data, split, skip, max, range, image_size, start) if data is not None else None
    holdout = _holdout(subset, (noise, sigma, own), seed, spec)
    loaded = [load(member) for member in members]
    facts = composite.facts(members)
    fast = _met(loaded, members, holdout, threads)
    choice = _choose(spec, loaded, fast, holdout)
    composed = composite.compose([fast[number] for number in choice.order], choice.vote, spec.cascade)
    kept = _kept(holdout, choice, composed, members)
    parts = tuple(composite.described(out, members[number]) for number in choice.order)
    made = composite.Composite("ensemble", parts, choice.vote, spec.cascade, {}, choice.reason, facts, kept)
    composite.write(out, made)
    if left := [member for number, member in enumerate(members) if number not in choice.order]:
        typer.echo(f"left out, with weight 0: {', '.join(left)}")
    typer.echo(f"{out}: {_words(choice.vote, spec.cascade, len(parts))}; order: {choice.reason}")


app.command("forecast")(forecast.command)


def _numbers(weights: str | None) -> Any:
    """`0.2,0.8` as numbers; a name as it is."""
    if weights is None or weights[:1].isalpha():
        return weights
    value = p.parse_value(weights)
    return value if isinstance(value, list) else [value]


def _holdout(
    subset: Subset | None, asked: tuple[str, float | None, list[str]], seed: int, spec: EnsembleSpec
) -> HoldoutInputs | None:
    """The hold-out inputs, where they are needed or given."""
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.streams import check_seed

    name, sigma, settings = asked
    if subset is None and spec.fitting is not None:
        raise OptionError(f"--weights {spec.weights} needs hold-out inputs; give --data and --sigma")
    if (subset is None) == (sigma is not None or bool(settings) or name != "gaussian"):
        raise OptionError("--data and --sigma of an ensemble must be given together; got one of them")
    if subset is None:
        return None
    noise = p.only_noise(name, sigma, settings, "ensemble")
    return HoldoutInputs(subset.load(), noise, check_seed(seed))


def _met(
    loaded: list[Classifier], names: list[str], holdout: HoldoutInputs | None, threads: int | None
) -> tuple[Classifier, ...]:
    """The members made fast for the hold-out inputs, and found to go together."""
    from smoothcert.classifiers import ready
    from smoothcert.ensembles.soft_vote import SoftVote
    from smoothcert.ensembles.spec import refuse_unlike

    if holdout is None:
        return tuple(loaded)
    example = holdout.inputs.tensor(0)
    refuse_unlike(loaded, names, example)
    together: Any = ready(SoftVote(tuple(loaded)), example, threads=threads).classifier
    members: tuple[Classifier, ...] = together.members
    return members


def _choose(
    spec: EnsembleSpec, loaded: list[Classifier], fast: tuple[Classifier, ...], holdout: HoldoutInputs | None
) -> EnsembleChoice:
    """Weights and order, under a progress bar."""
    from smoothcert.cli._progress import bar

    total = spec.work(len(holdout.inputs)) if holdout is not None else 0
    with bar("ensemble", "evaluations") as update:
        done = 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            update(done, total)

        return spec.choose(loaded, fast, holdout and holdout._replace(advance=advance))


def _kept(
    holdout: HoldoutInputs | None, choice: EnsembleChoice, composed: Any, names: list[str]
) -> dict[str, Any] | None:
    """What the folder remembers of the hold-out inputs, and what the user is told of them."""
    if holdout is None or choice.accuracy is None:
        return None
    (together,) = holdout.accuracy([composed])
    inputs, tally = holdout.inputs, composed.tally
    typer.echo(
        f"{len(inputs)} hold-out inputs of {Path(inputs.name).name} ({inputs.split}), {p.say_noise(holdout.noise)}; "
        "these are not for certification"
    )
    weights = choice.vote.get("weights", [])
    for place, number in enumerate(choice.order):
        weight = f"  weight {weights[place]:.4f}" if weights else ""
        typer.echo(f"  accuracy {choice.accuracy[number]:.3f}{weight}  {names[number]}")
    asked = f"{tally.asked / tally.rows:.2f} of {len(choice.order)} members asked a draw"
    typer.echo(f"  accuracy {together:.3f}  together; {asked}")
    for name, value in choice.report.items():
        typer.echo(f"  {name} {value:.6g}")
    _say_kin(choice.report, names)
    accuracy = [choice.accuracy[number] for number in choice.order]
    return {**holdout.record(), "accuracy": accuracy, "ensemble_accuracy": together, "report": dict(choice.report)}


def _say_kin(report: Mapping[str, float], names: list[str]) -> None:
    """How alike members err, by whether they were made alike; optimal weights tell."""
    from smoothcert.ensembles.weights.optimal import by_kind

    if "covariance_0_0" not in report:
        return
    kinds = [_kind(name) for name in names]
    for relation, kin in by_kind(report, kinds).items():
        told = f"covariance {kin.covariance:.4g}, correlation {kin.correlation:.3f}"
        typer.echo(f"  margins of a member with {relation}: {told}")
    if len(set(kinds)) > 1:
        typer.echo(f"  kinds: {', '.join(dict.fromkeys(kinds))}")


def _kind(name: str) -> str:
    """Architecture and objective of a training; anything else is of a kind of its own."""
    from smoothcert.training.checkpoints import read_config
    from smoothcert.zoo import located

    try:
        config = read_config(located(name))
        return f"{config['arch']} {config['settings']['objective']}"
    except (ModelError, KeyError):
        return name


def _words(vote: Part, cascade: Part | None, members: int) -> str:
    """An ensemble in a few words."""
    given = [(key, value) for part in (vote, cascade or {}) for key, value in part.items() if key != "name"]
    options = [f"{key} {_short(value)}" for key, value in given]
    names = " in ".join(str(part["name"]) for part in (vote, cascade) if part is not None)
    return f"{names} of {members} members" + (f" ({', '.join(options)})" if options else "")


def _short(value: Any) -> str:
    return " ".join(f"{number:.4f}" for number in value) if isinstance(value, list) else str(value)
