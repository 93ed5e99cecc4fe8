"""Bad command lines, generated: each command's good line with one value that its option cannot mean.

The commands are walked, so a new option is attacked as soon as it exists. What is bad for an option follows from its
type and, where the type is text, from the kind of thing that the text stands for (KINDS): a name out of a list, a
place to write to, a run, numbers between commas. Numbers that an option does take are left out (FINE).
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer

from smoothcert.cli.main import app

LONG = "x" * 5000
DRAWN = "--data good.npz --sigma 0.25 --max 3 --n 100 --n0 10 --alpha 0.05"
COMPOSED = f"{DRAWN} --look 100"

# A line of each command that works in the folder of `furnish`; {} is a place where nothing is yet.
GOOD: Mapping[str, str] = {
    "demo": "--out {} --n 100 --max 2",
    "zoo": "cifar10-resnet8-gaussian-0",
    "train": "--out {} --data good.npz --arch mlp --epochs 1 --set width=4 --device cpu --threads 1",
    "denoise": "linear:score --with denoisers:halve --out {}",
    "plan": "--sigma 0.25",
    "certify": f"linear:score {DRAWN} --out {{}}",
    "predict": "linear:score --data good.npz --sigma 0.25 --max 3 --n 100 --alpha 0.05 --out {}",
    "verify": "run",
    "sign": "signed --key key",
    "audit": "run --inputs 1 --n 100 --draws 8 --steps 1",
    "report": "run",
    "compare": "run run",
    "history": "runs",
    "certificate": "run 0",
    "export": "run --out {}",
    "export-onnx": "net --data good.npz --out {}.onnx",
    "quantise": "net --data good.npz --split test --max 8 --compare 4 --sigma 0.25 --out {}.onnx",
    "data get": "digits",
    "data list": "",
    "data digest": "digits",
    "data scale": "good.npz --out {}.json",
    "ensemble make": "lines:a lines:b --out {}",
    "ensemble forecast": "lines:a lines:b lines:c --data good.npz --sigma 0.25 --max 3 --draws 8 --sizes 1,2 --n 1000",
    "memory create": "{} linear:score --shape 4",
    "memory stats": "memory",
    "memory check": "memory",
    "memory query": "memory --data good.npz",
    "memory copy": "memory {}",
    "aces certify": f"--certify switches:steep --core switches:core {COMPOSED} --out {{}}",
    "aces select": f"switches:steep {COMPOSED} --out {{}}",
    "aces combine": "--certify aces",
    "aces labels": "seen --eta 0.8 --out {}.npz",
    "route labels": "seen wide --out {}.npz",
    "route certify": f"--branch lines:a@0.25 --branch lines:b@0.5 --select linear:score {DRAWN} --out {{}}",
    "route show": "route",
    "serve start": "linear:score --sigma 0.25 --shape 4 --n 1000 --port 0 --check --state {}",
    "serve reveal": "service",
    "keys add": "bob --scope predict,evidence --file {}",
    "keys list": "--file keys.toml",
    "keys revoke": "alice --file keys.toml",
}

# What an option needs beside it to mean anything.
SEARCH, HOLDOUT = "--sigma-per-input --sigma-search votes", "--data good.npz --sigma 0.25 --skip 2"
BESIDE: Mapping[str, Mapping[str, str]] = {
    **{command: {"split": "--data=digits"} for command in ("memory query", "ensemble forecast")},
    "quantise": {"split": "--data=digits", "held_out": "--data=digits"},
    "train": dict.fromkeys(("sigma_warmup", "sigma_step", "sigma_draws"), "--sigma-per-example"),
    "plan": {
        "cap": "--radius 0.25", "beta": "--radius 0.25", "like_n": "--like log.tsv", "like_alpha": "--like log.tsv",
        "norm": "--like log.tsv",
    },
    "certify": {
        "split": "--data=digits", "scale_data": "--scale standard",
        **dict.fromkeys(("steps", "draws", "step_size", "sigma_bounds", "evaluations"), SEARCH),
        **dict.fromkeys(("sigma_search", "steps_in"), "--sigma-per-input"),
        "order": "--memory memory", "ray_workers": "--ray local",
        "patch": "--noise band --set width=2 --data=digits",
    },
    **{
        command: {"ray_workers": "--ray local", "split": "--data=digits", "scale_data": "--scale standard"}
        for command in ("predict", "aces certify", "aces select", "route certify")
    },
    "ensemble make": {
        **dict.fromkeys(("noise", "start", "max", "seed", "range", "threads", "image_size"), HOLDOUT),
        "split": "--data digits --sigma 0.25", "data": "--sigma 0.25", "sigma": "--data good.npz",
        "skip": "--data good.npz --sigma 0.25",
        "level": "--early-exit", "threshold": "--early-exit", "best": HOLDOUT,
    },
    "aces combine": {
        "holdout": "--theta-for acr=0.1", "holdout_core": "--theta-for acr=0.1 --holdout others", "log": "--theta 0.3",
        "holdout_select": "--theta-for acr=0.1 --holdout others", "theta_for": "--holdout others",
    },
}  # fmt: skip

# What an option cannot stand beside.
APART = {"radius": ("--n",), "radii": ("--n",), "shape": ("--data",), "patch": ("--sigma", "--n")}

# Text by what it stands for; an option of a command, or of any.
KINDS: Mapping[str, str] = {
    "model": "model", "certify": "model", "core": "model", "select": "model", "denoisers": "model",
    "members": "model", "start": "model", "data": "data", "out": "folder", "memory": "memory", "file": "memory",
    "run": "run", "runs": "run", "first": "run", "second": "run", "like": "log", "baseline": "log",
    "holdout": "run", "holdout_core": "core", "holdout_select": "core", "folder": "runs", "labels": "labels",
    "html": "file", "plot": "picture", "plots": "parent", "log": "file", "radii": "numbers", "sizes": "numbers",
    "drops": "numbers", "seeds": "numbers", "range": "numbers", "sigma_bounds": "numbers", "shape": "numbers",
    "theta": "numbers", "theta_for": "settings", "fail_below": "settings", "set_": "settings", "weights": "numbers",
    "names": "few", "branch": "branch", "ensemble": "name", "ray": "address", "device": "name",
    "classes": "classes", "scale_data": "training", "training": "training", "hold_out": "hold_out",
    "patch": "patch",
}  # fmt: skip
DRAWING = ("certify", "predict", "aces certify", "aces select", "route certify")
KINDS_IN: Mapping[tuple[str, str], str] = {
    ("export", "run"): "log", ("report", "runs"): "log", ("compare", "first"): "log", ("compare", "second"): "log",
    ("export", "out"): "file", ("certificate", "out"): "file", ("export-onnx", "out"): "onnx",
    ("quantise", "out"): "onnx", ("aces labels", "out"): "npz", ("route labels", "out"): "npz",
    ("aces combine", "certify"): "run", ("aces combine", "core"): "core", ("aces combine", "select"): "core",
    ("ensemble forecast", "out"): "picture", ("memory create", "file"): "new memory",
    ("memory copy", "source"): "memory", ("memory copy", "target"): "new memory", ("report", "members"): "name",
    ("verify", "memory"): "", ("verify", "redraw"): "redraws", ("verify", "trust"): "key", ("sign", "key"): "key",
    ("sign", "new_key"): "taken", ("certificate", "key"): "key",
    **{(command, "seed"): "seed" for command in DRAWING}, ("audit", "memory"): "",
    ("audit", "model"): "callable", ("verify", "model"): "callable",  # another file is a finding
    ("certificate", "data"): "data", ("verify", "run"): "run",
    ("serve start", "memory"): "new memory", ("serve start", "evidence"): "evidence",
    ("serve start", "state"): "parent", ("serve start", "keys"): "key", ("serve start", "name"): "client",
    ("serve start", "allowed_host"): "client", ("serve reveal", "state"): "run",
    ("serve reveal", "evidence"): "evidence", ("serve start", "ssl_certfile"): "key",
    ("serve start", "ssl_keyfile"): "key",
    ("data scale", "out"): "json", ("keys add", "name"): "client", ("keys add", "file"): "file",
    ("predict", "memory"): "memory", ("certify", "memory"): "new memory", ("demo", "out"): "parent",
}  # fmt: skip

STRANGE = ("", " ", "much", LONG, "a\nb", "nul\0", "\x1b[31mred\x1b[0m", "\udcff\udcfe", "#", "?", "%", "../x", "-1")
UNREADABLE = ("", "no/such", LONG, "nul\0", "\udcff", "fifo", "/dev/full", "/dev/zero", "empty", "bytes", "a\nb#?%41")
UNWRITABLE = ("nul\0", "/proc/no", "/dev/full/no", "bytes/no")
BAD_TEXT: Mapping[str, Sequence[str]] = {
    "name": STRANGE,
    "model": (*UNREADABLE, "hollow", ":", "linear:", ":score", "linear:nothing", "no_such:model",
              "linear:not_callable"),
    "callable": ("no/such", "fifo", "/dev/zero", ":", "linear:", "linear:nothing", "linear:not_callable"),
    "data": (*UNREADABLE, "hollow", "mnsit", "empty.npz", "bytes.npz", "fifo.npz", "hollow.npz"),
    "classes": (*UNREADABLE, "hollow"),
    "hold_out": ("", " ", "much", "0", "1.5", "-1", "-0.5", "nan", "9999999", "9" * 40, LONG, "nul\0", "\udcff",
                 "no/such.npz", "empty.npz", "bytes.npz", "fifo.npz", "hollow.npz", "good.npz"),
    "training": (*UNREADABLE, "hollow", "empty.npz", "bytes.npz", "fifo.npz", "hollow.npz", "digits"),
    "json": (*(f"{place}.json" for place in (*UNWRITABLE, LONG)), "", "/dev/full", "x.txt", "no/a.json"),
    "run": (*UNREADABLE, "hollow", "../x"),
    "key": (*UNREADABLE, "hollow", "good.npz"),
    "taken": ("key", "hollow", "no/such", *UNWRITABLE),
    "redraws": ("", "-1", "some", "1.5", "1e3", "9" * 20, "nan"),
    "seed": ("", "-1", "2.5", "comit", "1e3", str(2**64), "9" * 30, "nan"),
    "log": (*UNREADABLE, "hollow", "../x"),
    "core": (*UNREADABLE[1:], "hollow"),
    "runs": (*UNREADABLE, "hollow"),
    "memory": (*UNREADABLE, "hollow"),
    "new memory": (*UNWRITABLE, "", LONG, "fifo", "/dev/full", "/dev/zero", "bytes", "hollow", "no/such/place"),
    "evidence": (*UNWRITABLE, "", LONG, "fifo", "/dev/full", "/dev/zero", "hollow", "bytes", "no/such/place"),
    "labels": (*UNREADABLE, "hollow", "empty.npz", "bytes.npz", "fifo.npz", "hollow.npz", "good.npz"),
    "folder": (*UNWRITABLE, LONG, "fifo", "/dev/full", "/dev/zero", "bytes", "runs"),
    "parent": (*UNWRITABLE, LONG, "fifo", "/dev/full", "/dev/zero", "bytes"),
    "file": (*UNWRITABLE, "", LONG, "fifo", "/dev/full", "/dev/zero", "hollow", "no/such/place"),
    "picture": (*(f"{place}.svg" for place in (*UNWRITABLE, LONG)), "a.jpg", "/dev/full", "taken.svg", "no/a.png"),
    "onnx": (*(f"{place}.onnx" for place in (*UNWRITABLE, LONG)), "", "/dev/full", "x.txt", "taken.onnx", "no/a.onnx"),
    "npz": (*(f"{place}.npz" for place in (*UNWRITABLE, LONG)), "", "/dev/full", "x.txt", "hollow.npz", "fifo.npz"),
    "numbers": ("", " ", "much", "1,,2", "nan", "inf", "-inf", "-1", "1;2", LONG, "\x1b[1m", "\udcff", "1e999"),
    "settings": ("", "=", "much", "no_such=1", "=1", LONG, "\x1b[1m=2", "\udcff=1", "a\nb=1", "nul\0=1"),
    "few": ("a,b,c", "", ",", " "),
    "client": tuple(word for word in STRANGE if word != "much"),
    "patch": ("", " ", "much", "0", "-1", "1.5", "nan", "3x", "x7", "3x0", "3x7x2", "3×7", "٣x٣", "9" * 30, LONG),
    "branch": ("", "@", "lines:a", "lines:a@", "@0.25", "lines:a@much", "lines:a@-1", "lines:a@nan", f"{LONG}@1"),
    "address": ("", "much", "host", "host:", ":1", "host:port", "a/b:1", LONG, "nul\0:1", "\udcff:1"),
    "": ("no/such", "empty", "bytes", "fifo", "/dev/zero"),
}  # fmt: skip

WORDS = ("", " ", "much", "1.5e", "0x", LONG, "1\n2", "nul\0", "\udcff", "\x1b[1m1")
WHOLE = ("-1", "0", str(10**23), str(2**63), "1.5", "nan", *WORDS)
REAL = ("-1", "0", "nan", "inf", "-inf", "1e308", str(10**400), *WORDS)
# Numbers that are no mistake there.
FINE: Mapping[str, Sequence[str]] = {
    "max": ("-1", str(10**23), str(2**63)), "skip": (str(10**23), str(2**63)), "start": ("0",), "index": ("0",),
    "seed": ("0", str(2**63)), "warmup": ("0",), "sigma_warmup": ("0",), "clip": ("0",), "ema": ("0",),
    "weight_decay": ("0",), "workers": ("0",),
    "redraw": ("0", str(10**23), str(2**63)), "radius": ("0",), "inputs": ("-1", str(10**23), str(2**63)),
    "port": ("0",), "notice": ("0",), "requests_per_minute": ("0",), "draws_per_minute": ("0",),
    "theta": ("0",), "eta": ("0",), "level": ("0",), "threshold": ("0",), "compare": (str(10**23), str(2**63)),
}  # fmt: skip
FINE_IN: Mapping[tuple[str, str], Sequence[str]] = {
    ("plan", "inputs"): (),
    ("certificate", "index"): ("0",), ("demo", "n"): (),
    ("ensemble make", "start"): ("0",), ("quantise", "max"): ("-1", str(10**23), str(2**63)),
}  # fmt: skip


class Invocation(NamedTuple):
    """A command line, and the option in it that is bad."""

    words: tuple[str, ...]
    option: str
    value: str


def furnish(folder: Path) -> None:
    """What good lines name, and what bad ones do."""
    for name in ("hollow", "hollow.npz", "taken.svg", "taken.onnx", "runs"):
        (folder / name).mkdir()
    for name in ("empty", "empty.npz"):
        (folder / name).touch()
    for name in ("bytes", "bytes.npz"):
        (folder / name).write_bytes(hashlib.shake_256(b"nonsense").digest(3000))
    for name in ("fifo", "fifo.npz"):
        os.mkfifo(folder / name)


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that has no others below it."""
    inner = getattr(command, "commands", {})
    for name in inner:
        yield from leaves(inner[name], (*words, name))
    if not inner:
        yield " ".join(words), command


COMMANDS: Mapping[str, Any] = dict(leaves(typer.main.get_command(app)))


def good(command: str, free: str) -> list[str]:
    """A line of a command that works, writing to a free place."""
    return [*command.split(), *GOOD[command].format(free).split()]


def options(command: str) -> list[Any]:
    """What of a command takes a value."""
    return [param for param in COMMANDS[command].params if not getattr(param, "is_flag", False)]


def kind(param: Any) -> type:
    """Whole number, number, or text; that of the items of a list."""
    found = param.type_descriptor.annotation
    while get_args(found):
        found = next(item for item in get_args(found) if item is not type(None))
    return found if found in (int, float) else str


def bad_values(command: str, param: Any) -> Sequence[str]:
    """Values that this option cannot mean."""
    name = param.name
    if (which := kind(param)) is not str:
        fine = FINE_IN.get((command, name), FINE.get(name, ()))
        return [value for value in (WHOLE if which is int else REAL) if value not in fine]
    return BAD_TEXT[KINDS_IN.get((command, name), KINDS.get(name, "name"))]


def invocations(command: str) -> list[Invocation]:
    """Every bad line of a command: its good one with one value replaced or added."""
    made = []
    for param in options(command):
        for value in bad_values(command, param):
            made.append(Invocation(tuple(_with(command, param, value)), param.opts[0], value))
    return made


def few(command: str, each: int = 2) -> list[Invocation]:
    """So many of every option, chosen once and for all by their own hash."""
    found = sorted(invocations(command), key=lambda one: hashlib.sha256(repr(one).encode()).digest())
    grouped = itertools.groupby(sorted(found, key=lambda one: one.option), key=lambda one: one.option)
    return [one for _, group in grouped for one in itertools.islice(group, each)]


def _with(command: str, param: Any, value: str) -> list[str]:
    """The good line with this value in the place of the good one."""
    words = GOOD[command].format("free").split()
    first = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    arguments, given = words[:first], words[first:]
    if param.param_type_name == "argument":
        places = [each.name for each in COMMANDS[command].params if each.param_type_name == "argument"]
        arguments[places.index(param.name)] = value
        return [*command.split(), *given, "--", *arguments]
    beside = BESIDE.get(command, {}).get(param.name, "").split()
    for option in {*param.opts, *APART.get(param.name, ())} & set(given):
        at = given.index(option)
        del given[at : at + 2]
    return [*command.split(), *given, *beside, f"{param.opts[0]}={value}", "--", *arguments]
