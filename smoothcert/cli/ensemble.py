"""`smoothcert ensemble`: several models as one, or what more of them will bring; `smoothcert denoise`: a classifier
behind denoisers. What is made is a small folder that loads like a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import DefaultCommandGroup, Json, columns, print_json, put, say
from smoothcert.errors import ModelError, OptionError
from smoothcert.progress import counting, remark

if TYPE_CHECKING:
    from smoothcert.classifiers.composite import Part
    from smoothcert.contracts import Noise
    from smoothcert.data import Subset
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.ensembles.making import MadeEnsemble
    from smoothcert.ensembles.spec import EnsembleSpec

SEEM = "one that was would look better than it is, and get too much weight or too early a place"


class EnsembleCommands(DefaultCommandGroup):
    """To make one, or to forecast what more members bring."""

    default = "make"


app = typer.Typer(cls=EnsembleCommands, help="Make an ensemble, or forecast what more members bring.")


@app.command("make")
def make(
    members: Annotated[
        list[str], typer.Argument(metavar="MEMBERS...", help="Combine these models, named as for certify.")
    ],
    out: Annotated[Path, panels.means(help="Write composite.json to this folder.")],
    vote: Annotated[
        str | None, panels.what(help="Vote by soft, softmax, hard, max_margin or weighted.", show_default="soft")
    ] = None,
    weights: Annotated[
        str | None, panels.what(help="Weight by 0.2,0.8,… or fit learned, optimal or signed weights.")
    ] = None,
    set_: Annotated[
        list[str] | None, panels.what("--set", help="Set another option of the weights or the noise, as name=value.")
    ] = None,
    best: Annotated[int | None, panels.what(help="Take only the K most accurate on hold-out data.")] = None,
    consensus: Annotated[int | None, panels.what(help="Let the first K answer for all where they agree.")] = None,
    early_exit: Annotated[
        bool, panels.what("--early-exit", help="Ask one member after another until the answer is sure.")
    ] = False,
    threshold: Annotated[float, panels.what(help="Exit after one member if it is this sure.")] = 0.999,
    level: Annotated[
        float, panels.what(help="Exit after several by an interval of this level around their mean.")
    ] = 0.05,
    data: Annotated[str | None, panels.data(help="Fit weights and order on this hold-out data.")] = None,
    held_out: Annotated[
        bool, panels.data("--held-out", help="Fit them instead on the inputs that all members held out.")
    ] = False,
    sigma: Annotated[float | None, panels.noise(help="Set the noise level sigma at which you will certify.")] = None,
    noise: o.NoiseName = "gaussian",
    split: o.Split = "test",
    start: Annotated[int, panels.data(help="Start the hold-out data at this index.")] = 1,
    skip: Annotated[int, panels.data(help="Hold out every SKIP-th input; never certify those later.")] = 20,
    max: o.Max = -1,
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    threads: o.Threads = None,
) -> None:
    """Make an ensemble that every command takes as MODEL.

    smoothcert ensemble models/a models/b models/c --out models/abc
    smoothcert ensemble models/a models/b models/c --consensus 2 --data cifar10 --sigma 0.25 --out models/abc
    """
    from smoothcert.ensembles.making import make_ensemble
    from smoothcert.ensembles.spec import EnsembleSpec

    # Everything that can be refused is refused before anything is loaded or written.
    exit_at = {"threshold": threshold, "level": level} if early_exit else False
    numbers, kind = _numbers(weights), vote or ("soft" if weights in (None, "signed") else "weighted")
    given = data is not None or held_out
    if best is not None and not 1 <= best <= len(members):
        raise OptionError(f"--best must be from 1 to the {len(members)} members; got {best}")
    if data is not None and held_out:
        raise OptionError("give --held-out or --data, not both")
    own, rest = o.settings_of("noise", noise, set_) if given else ([], set_)
    spec = EnsembleSpec(best or len(members), kind, numbers, consensus, exit_at, o.named(rest), best)
    chosen = _noise((noise, sigma, own), given, spec)
    subset = o.subset(data, split, skip, max, range, image_size, start) if data is not None else None
    holdout, unknown = (None, []) if chosen is None else _holdout(members, subset, chosen, seed)
    work = spec.work(len(holdout.inputs), len(members)) if holdout is not None else 0
    with counting("ensemble", "evaluations", work) as advance:
        made = make_ensemble(out, members, spec, holdout and holdout._replace(advance=advance), threads)
    if holdout is not None:
        _say_holdout(holdout, made, list(made.members))
    _say_left_out(members, made)
    if unknown:
        remark(f"WARNING: these members may have been trained on the hold-out inputs: {', '.join(unknown)}; {SEEM}")
    order = made.choice.order
    say(f"{out}: {_words(made.choice.vote, spec.cascade, len(order))}; order: {made.choice.reason}")


def _numbers(weights: str | None) -> Any:
    """`0.2,0.8` as numbers; a name as it is."""
    if weights is None or weights[:1].isalpha():
        return weights
    value = o.parse_value(weights)
    return value if isinstance(value, list) else [value]


def _noise(asked: tuple[str, float | None, list[str]], given: bool, spec: EnsembleSpec) -> Noise | None:
    """The noise on hold-out inputs, where they are needed or given."""
    name, sigma, settings = asked
    if not given and (spec.fitting is not None or spec.best is not None):
        what = f"--weights {spec.weights}" if spec.fitting is not None else f"--best {spec.best}"
        raise OptionError(f"{what} needs hold-out inputs; give --data, or --held-out, and --sigma")
    if given != (sigma is not None or bool(settings) or name != "gaussian"):
        raise OptionError("--data (or --held-out) and --sigma of an ensemble must be given together; got only one")
    return o.only_noise(name, sigma, settings, "ensemble") if given else None


def _holdout(members: list[str], subset: Subset | None, noise: Noise, seed: int) -> tuple[HoldoutInputs, list[str]]:
    """These inputs, or those that all members kept back; and the members that may have learned from them."""
    from smoothcert.classifiers.trained_on import held_by_all, refuse_trained
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.streams import check_seed

    asked, inputs = held_by_all(members) if subset is None else (subset, subset.load())
    unknown = refuse_trained(members, asked, inputs)
    return HoldoutInputs(inputs, noise, check_seed(seed)), unknown


def _say_left_out(members: list[str], made: MadeEnsemble) -> None:
    names = list(members)
    for member in made.members:
        names.remove(member)
    if names:
        say(f"left out, less accurate: {', '.join(names)}")
    if left := [member for number, member in enumerate(made.members) if number not in made.choice.order]:
        say(f"left out, with weight 0: {', '.join(left)}")


def _say_holdout(holdout: HoldoutInputs, made: MadeEnsemble, names: list[str]) -> None:
    """What hold-out inputs say of the members, and of all together."""
    choice, inputs = made.choice, holdout.inputs
    say(
        f"{len(inputs)} hold-out inputs of {Path(inputs.name).name} ({inputs.split}), {o.say_noise(holdout.noise)}; "
        "these are not for certification"
    )
    weights = choice.vote.get("weights", [])
    for place, number in enumerate(choice.order):
        weight = f"  weight {weights[place]:.4f}" if weights else ""
        say(f"  accuracy {(choice.accuracy or ())[number]:.3f}{weight}  {names[number]}")
    say(f"  accuracy {made.accuracy:.3f}  together; {made.asked:.2f} of {len(choice.order)} members asked a draw")
    for name, value in choice.report.items():
        say(f"  {name} {value:.6g}")
    _say_kin(choice.report, names)


def _say_kin(report: Mapping[str, float], names: list[str]) -> None:
    """How alike members err, by whether they were made alike; optimal weights tell."""
    from smoothcert.ensembles.weights.optimal import by_kind

    if "covariance_0_0" not in report:
        return
    kinds = [_kind(name) for name in names]
    for relation, kin in by_kind(report, kinds).items():
        told = f"covariance {kin.covariance:.4g}, correlation {kin.correlation:.3f}"
        say(f"  margins of a member with {relation}: {told}")
    if len(set(kinds)) > 1:
        say(f"  kinds: {', '.join(dict.fromkeys(kinds))}")


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


@app.command("forecast")
def forecast(
    members: Annotated[
        list[str], typer.Argument(help="Use models that differ only in their seeds, best three or more.")
    ],
    data: o.Data,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    sizes: Annotated[str, panels.what(help="Forecast ensembles of these sizes.")] = "1,3,5,10,50",
    fit: Annotated[int | None, panels.what(help="Fit to the first members only and check with the others.")] = None,
    draws: Annotated[int, panels.draws(help="Draw this many noisy copies of each input.")] = 200,
    n: Annotated[
        int, panels.draws("--n", "--N", help="Forecast a certification with this many draws per input.")
    ] = 100_000,
    alpha: o.Alpha = 0.001,
    radii: Annotated[
        str | None, panels.what(help="Forecast these radii.", show_default="0, sigma, 2 and 3 sigma")
    ] = None,
    clean: Annotated[
        str, panels.what(help="Take a member's clean score as its mean under noise, or at the point.")
    ] = "mean",
    skip: o.Skip = 1,
    max: o.Max = -1,
    start: o.Start = 0,
    split: o.Split = "test",
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    as_json: Json = False,
    out: Annotated[
        Path | None, panels.means(help="Write the pictures OUT, OUT-fit and OUT-maps, as .svg and .png.")
    ] = None,
    set_: o.NoiseSet = None,
) -> None:
    """Forecast the radii of larger ensembles from a few members.

    The forecast rests on the variance of the members' scores.

    smoothcert ensemble forecast models/a models/b models/c --data cifar10 --skip 20 --start 1 --sigma 0.25
    """
    from smoothcert.ensembles.forecast import Forecast
    from smoothcert.ensembles.holdout import HoldoutInputs
    from smoothcert.ensembles.variance import member_alone, sample, work
    from smoothcert.report.forecast_plots import save_forecast
    from smoothcert.report.forecast_text import forecast_text

    numbers = tuple(sorted(set(o.numbers(sizes, int, "--sizes must be whole numbers with commas between"))))
    asked = Forecast(numbers, n, alpha, o.parse_radii(None, radii) or None, clean, fit, seed)
    asked.check_members(len(members))
    chosen = o.only_noise(noise, sigma, set_, "forecast")
    if out is not None:
        o.check_file(out, ".svg", ".png")
    inputs = o.subset(data, split, skip, max, range, image_size, start).load()
    chosen = chosen.fitted(inputs.shape)
    ready = [member_alone(spec, inputs, engine, threads, remark) for spec in members]
    with counting("forecast", "member evaluations", work(len(members), len(inputs), draws)) as advance:
        drawn = sample(ready, HoldoutInputs(inputs, chosen, seed, advance), draws)
    found = asked.result(drawn, chosen)
    if out is not None:
        save_forecast(found, out)
    if as_json:
        print_json(found.as_json())
    else:
        put(forecast_text(found, columns() or 120), end="")


def denoise(
    model: o.Model,
    denoisers: Annotated[
        list[str],
        typer.Option(
            "--with", metavar="DENOISER", help="Put this denoiser first; repeat for an ensemble of denoisers."
        ),
    ],
    out: Annotated[Path, panels.means(help="Write composite.json to this folder.")],
    vote: Annotated[
        str | None,
        typer.Option(help="Combine denoisers by soft, softmax, hard or max_margin vote.", show_default="soft"),
    ] = None,
) -> None:
    """Put a denoiser before a classifier, without training.

    The folder written is one that every command takes as MODEL.

    smoothcert train --arch dncnn17 --objective denoise --data cifar10 --sigma 0.25 --out models/d
    smoothcert denoise clean.safetensors --with models/d --out models/clean-d
    """
    from smoothcert.ensembles.making import make_denoised

    made, checked = make_denoised(out, model, denoisers, vote)
    behind = denoisers[0] if made.vote is None else f"{made.vote['name']} of {len(denoisers)} denoisers"
    unchecked = "" if checked else " (no part says its inputs' shape: whether they fit is seen when used)"
    say(f"{out}: {model} behind {behind}{unchecked}")
