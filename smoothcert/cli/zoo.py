"""`smoothcert zoo`: the small networks that come with smoothcert."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.console import Json, print_grid, print_json, say
from smoothcert.errors import unknown

if TYPE_CHECKING:
    from smoothcert.zoo import CertifiedFigures, Network

RADII = ("0", "0.25", "0.5", "0.75")


def command(
    name: Annotated[str | None, typer.Argument(help="Tell all about this one.")] = None, as_json: Json = False
) -> None:
    """List the small networks that come with smoothcert, or tell all about one. Any command takes their names as MODEL.

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

    heads, lines = ("name", "data", "σ", "objective", *(f"% at {radius}" for radius in RADII), "ACR", "size"), []
    for network in networks:
        settings, measured = network.config["settings"], network.measured
        figures = [*(_percent(measured, radius) for radius in RADII), decimal(measured.acr)] if measured else []
        cells = figures or [UNKNOWN] * (len(RADII) + 1)
        about = settings["data"], f"{settings['sigma']:g}", settings["objective"]
        lines.append((network.name, *about, *cells, f"{network.size / 1e3:,.0f} kB"))
    print_grid(140, heads, lines, words=("data", "objective"))
    for line in dict.fromkeys(_protocol(network.measured) for network in networks if network.measured):
        say(f"certified accuracy in % at l2 radii (inputs in [0,1]) and ACR: {line}")
    say("smoothcert zoo NAME tells how one was made and measured; any command takes a name as MODEL")


def _tell(network: Network) -> None:
    network.verify()
    config, settings = network.config, network.config["settings"]
    options = ", ".join(f"{option} {value}" for option, value in config["objective"].items() if value is not None)
    facts = {
        "about": network.about,
        "network": f"{config['arch']} for {config['shape']}, {config['classes']} classes; {network.size:,} bytes",
        "trained on": f"{settings['data']} (train), sigma {settings['sigma']:g}, seed {settings['seed']}",
        "objective": f"{settings['objective']} ({options})",
        "made by": network.command,
    }
    if (measured := network.measured) is not None:
        from smoothcert.report.tables import decimal

        low, high = measured.acr_interval
        shares = ", ".join(f"{_percent(measured, r)} % at {r}" for r in measured.certified_accuracy)
        facts |= {
            "certified": f"{shares} (l2, inputs in [0,1])",
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


def _percent(measured: CertifiedFigures, radius: str) -> str:
    from smoothcert.report.metrics import Share
    from smoothcert.report.tables import percent

    share = measured.certified_accuracy[radius]
    return percent(Share(round(share * measured.inputs), measured.inputs))


def _protocol(measured: CertifiedFigures) -> str:
    every = f"every {measured.skip}th " if measured.skip > 1 else ""
    return (
        f"{every}of {measured.data} ({measured.split}), {measured.inputs} inputs, "
        f"n0 = {measured.n0}, n = {measured.n:,}, alpha = {measured.alpha:g}"
    )
