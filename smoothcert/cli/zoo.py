"""`smoothcert zoo`: the small networks that come with smoothcert."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.console import Json, print_grid, print_json, say
from smoothcert.errors import unknown

if TYPE_CHECKING:
    from smoothcert.zoo import CertifiedFigures, Network

RADII = {"l2": ("0", "0.25", "0.5", "0.75"), "patch": ("0", "1", "3", "5")}
UNITS = {"l2": "l2, inputs in [0,1]", "patch": "patch, side in pixels"}


def command(
    name: Annotated[str | None, typer.Argument(help="Show everything about this network.")] = None,
    as_json: Json = False,
) -> None:
    """List the small networks that come with smoothcert.

    Every command takes their names as MODEL.

    smoothcert zoo cifar10-resnet8-gaussian-0
    smoothcert certify cifar10-resnet8-gaussian-0 --data cifar10 --skip 20 --sigma 0.25 --out runs/zoo
    """
    from smoothcert.zoo import networks

    known = networks()
    if name is not None and name not in known:
        raise unknown("name of a network in the zoo", name, known)
    if as_json:
        print_json([_facts(network) for network in known.values()] if name is None else _facts(known[name]))
    elif name is None:
        _list(list(known.values()))
    else:
        _tell(known[name])


def _facts(network: Network) -> dict[str, Any]:
    return {**asdict(network), "settings": network.config["settings"], "bytes": network.size}


def _list(networks: list[Network]) -> None:
    from smoothcert.report.tables import UNKNOWN, decimal

    for norm, radii in RADII.items():
        group, lines = [network for network in networks if _norm(network) == norm], []
        for network in group:
            measured = network.measured
            cells = [UNKNOWN] * (len(radii) + 2)
            if measured:
                shares = [_percent(measured, radius) for radius in radii]
                cells = [*shares, decimal(measured.acr), f"{measured.inputs:,}"]
            lines.append((network.name, _level(network.config["settings"]), *cells, f"{network.size / 1e3:,.0f} kB"))
        heads = ("name", "σ" if norm == "l2" else "noise", *(f"% at {r}" for r in radii))
        if group:
            print_grid(140, (*heads, "ACR", "inputs", "size"), lines)
        for line in dict.fromkeys(_protocol(network.measured) for network in group if network.measured):
            say(f"certified accuracy in % at radii ({UNITS[norm]}) and ACR: {line}")
    say("smoothcert zoo NAME tells how one was made and measured; any command takes a name as MODEL")


def _tell(network: Network) -> None:
    network.verify()
    config, settings = network.config, network.config["settings"]
    options = ", ".join(f"{option} {value}" for option, value in config["objective"].items() if value is not None)
    facts = {
        "about": network.about,
        "network": f"{config['arch']} for {config['shape']}, {config['classes']} classes; {network.size:,} bytes",
        "trained on": f"{settings['data']} (train), {_trained_under(settings)}, seed {settings['seed']}",
        "objective": f"{settings['objective']} ({options})",
        "made by": network.command,
    }
    if (measured := network.measured) is not None:
        from smoothcert.report.tables import decimal

        low, high = measured.acr_interval
        shares = ", ".join(f"{_percent(measured, r)} % at {r}" for r in measured.certified_accuracy)
        facts |= {
            "certified": f"{shares} ({UNITS[measured.norm]})",
            "ACR": f"{decimal(measured.acr)} ({decimal(low)} to {decimal(high)} at 95 %, for inputs drawn like these)",
            "measured on": _protocol(measured),
            "measured by": measured.command,
        }
    else:
        facts["measured by"] = "nobody yet: not measured"
    facts |= {f"sha256 of {file}": f"{digest} (verified)" for file, digest in network.sha256.items()}
    facts["lies in"] = str(network.folder)
    say(network.name)
    for fact, words in facts.items():
        say(f"  {fact}: {words}")


def _norm(network: Network) -> str:
    """Of the radii that it is measured at."""
    return "patch" if network.config["settings"].get("noise") in ("band", "block") else "l2"


def _level(settings: dict[str, Any]) -> str:
    """The noise in few words: its σ, or its name and options."""
    if settings["sigma"] is not None:
        return f"{settings['sigma']:g}"
    return " ".join([settings["noise"], *(str(value) for value in settings["noise_options"].values())])


def _trained_under(settings: dict[str, Any]) -> str:
    return f"{'sigma ' if settings['sigma'] is not None else ''}{_level(settings)}"


def _percent(measured: CertifiedFigures, radius: str) -> str:
    from smoothcert.report.metrics import Share
    from smoothcert.report.tables import percent

    share = measured.certified_accuracy[radius]
    return percent(Share(round(share * measured.inputs), measured.inputs))


def _protocol(measured: CertifiedFigures) -> str:
    every = f"every {measured.skip}th of " if measured.skip > 1 else ""
    return (
        f"{every}{measured.data} ({measured.split}), {measured.inputs} inputs, "
        f"n0 = {measured.n0}, n = {measured.n:,}, alpha = {measured.alpha:g}"
    )
