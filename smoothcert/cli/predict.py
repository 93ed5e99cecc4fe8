"""`smoothcert predict`: the smoothed classifier's label for every input, without a radius."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from smoothcert.cli import _arithmetic as a
from smoothcert.cli import _memory as m
from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli._drawing import Drawing, draws


@draws
def command(
    drawing: Drawing,
    model: o.Model,
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: a.Option = None,
    n: Annotated[int, typer.Option("--n", "--N", help="Draws for each input.")] = 1000,
    alpha: o.Alpha = 0.001,
    memory: m.Asked = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the noise.")] = None,
) -> None:
    """Predict with the smoothed classifier; abstain where n draws cannot tell the two leading classes apart.

    smoothcert predict models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a-predict
    """
    from smoothcert.procedures.predict import Predict

    chosen = p.only_noise(noise, sigma, set_, "predict")
    a.check(arithmetic, chosen)
    procedure = Predict(n, alpha)
    m.check(memory, None, memory is not None, chosen, False, "guess")
    drawing.check()
    inputs = drawing.load()
    chosen = a.settled(chosen, arithmetic, inputs, drawing.out).noise
    print(f"smoothcert: {p.say_noise(chosen)}", file=sys.stderr)
    prepared = drawing.prepare(model, inputs)
    question = drawing.question(model, inputs, chosen, procedure)
    remember = m.recall(memory, question, inputs, chosen, alone=False)
    drawing.carry_out(question, inputs, prepared, "predict", remember)
    o.say_summary(drawing.out)
