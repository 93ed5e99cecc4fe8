"""The tampering table: what a forger does to a run, and the sentence that names it.

Every tampering is tried four times. *bare*: nothing else is touched, so that the chain is broken. Then the forger also
writes the chain anew, and the reader *counts* (`verify --redraw 0`) or *draws* (`verify --redraw all`); empty: that
does not show it, which the docs say. At last the run was *signed* before: whatever was done then shows.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forging
from forging import answers, recipe, sql

from smoothcert.bounds import lower_bound
from smoothcert.contracts import Evidence
from smoothcert.noise.gaussian import Gaussian

CHAIN = "the run's chain is broken"
JOURNAL = "is not what the run's journal says"
ROW = "the row of input 3 is not as it was written"
CHANGED = "must be the one its rows were made with; it has been changed"
UNREADABLE = "cannot be read"
DAMAGED = "are damaged"


@dataclass(frozen=True)
class Tampering:
    """An act upon the folder of a run, and what verify says of it."""

    name: str
    kind: str  # the row of the table in docs/audit.md
    act: Callable[[Path], None]
    bare: str = ""
    counts: str = ""
    draws: str = ""
    victim: str = "plain"


def column(name: str, value: Any) -> Callable[[Path], None]:
    return lambda run: sql(run, f"UPDATE certificates SET {name} = ? WHERE idx = 3", value)


def raised(by: Callable[[float], float]) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        radius = forging.value(run, "SELECT radius FROM certificates WHERE idx = 3")
        sql(run, "UPDATE certificates SET radius = ? WHERE idx = 3", by(radius))

    return act


def stored(change: Callable[[list[Any]], Any]) -> Callable[[Path], None]:
    """Change the answers of input 3; text is written as it is."""

    def act(run: Path) -> None:
        held = answers(run, 3)
        made = change(held)
        text = made if isinstance(made, str) else json.dumps(held)
        sql(run, "UPDATE certificates SET answers = ? WHERE idx = 3", text)

    return act


def perfect(run: Path) -> None:
    """All votes for the label, with the bound and the radius that follow."""
    held = answers(run, 3)
    n = held[1][1]
    label = max(held[1][3][0], key=lambda pair: pair[1])[0]
    held[0][3][0], held[1][3][0] = [[label, held[0][1]]], [[label, n]]
    low = lower_bound(n, n, 0.05)
    radius = Evidence(label, ((n,),), n, low, 1 - low, 0.05).certificate(Gaussian(0.25), 4).radius
    values = (json.dumps(held), radius, low, label)
    sql(run, "UPDATE certificates SET answers = ?, radius = ?, low = ?, predicted = ? WHERE idx = 3", *values)


def question(**changes: Any) -> Callable[[Path], None]:
    """Settings of the question, by name, or by part and name: `noise__sigma=1`. The journal follows."""

    def change(table: dict[str, Any]) -> None:
        for name, value in changes.items():
            part, _, key = name.rpartition("__")
            (table["question"][part] if part else table["question"])[key] = value

    return lambda run: recipe(run, change)


def means(**changes: Any) -> Callable[[Path], None]:
    return lambda run: recipe(run, lambda table: table["means"].update(changes))


def alone(act: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Change recipe.toml, and nothing else."""
    return lambda run: recipe(run, act, journal=False)


def fit(run: Path, alpha: float, sigma: float, dim: int) -> None:
    """Labels, bounds and radii that follow from the stored votes, at this α and σ."""
    with contextlib.closing(sqlite3.connect(run / "certificates.sqlite")) as base, base:
        for index, text in base.execute("SELECT idx, answers FROM certificates").fetchall():
            held = json.loads(text)
            guess, votes = dict(held[0][3][0]), dict(held[1][3][0])
            label = max(range(2), key=lambda each: guess.get(each, 0))
            low = lower_bound(votes.get(label, 0), held[1][1], alpha)
            made = Evidence(label, ((0,),), held[1][1], low, 1 - low, alpha).certificate(Gaussian(sigma), dim)
            values = (made.label, made.radius, low or None, index)
            base.execute("UPDATE certificates SET predicted=?, radius=?, low=? WHERE idx=?", values)


def at_alpha(alpha: float) -> Callable[[Path], None]:
    """Another α, with all bounds and radii that follow: an honest run that asks for less."""

    def act(run: Path) -> None:
        question(sampling__alpha=alpha)(run)
        fit(run, alpha, 0.25, 4)

    return act


def swapped(run: Path) -> None:
    """Two rows of one label exchange their inputs."""
    with contextlib.closing(sqlite3.connect(run / "certificates.sqlite")) as base:
        pairs = base.execute(
            "SELECT a.idx, b.idx FROM certificates a JOIN certificates b ON a.idx < b.idx AND a.label = b.label "
            "AND a.answers != b.answers"
        ).fetchall()
    one, other = pairs[0]
    for old, new in ((one, 999), (other, one), (999, other)):
        sql(run, "UPDATE certificates SET idx = ? WHERE idx = ?", new, old)


def copied(run: Path) -> None:
    columns = "label, predicted, radius, draws, seconds, clean, low, sigma, answers, attempt"
    best = forging.value(run, "SELECT idx FROM certificates WHERE label = predicted ORDER BY radius DESC LIMIT 1")
    same = "(SELECT label FROM certificates WHERE idx = ?)"
    sql(
        run,
        f"UPDATE certificates SET ({columns}) = (SELECT {columns} FROM certificates WHERE idx = ?) WHERE idx = "
        f"(SELECT min(idx) FROM certificates WHERE idx != ? AND label = {same})",
        best, best, best,
    )  # fmt: skip


def deleted(where: str, changed: int | None = 1) -> Callable[[Path], None]:
    return lambda run: sql(run, f"DELETE FROM {where}", changed=changed)


def worst_deleted(inputs: bool) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        sql(run, "DELETE FROM certificates WHERE idx = (SELECT idx FROM certificates ORDER BY radius LIMIT 1)")
        if inputs:
            recipe(run, lambda table: table["question"].update(inputs=table["question"]["inputs"] - 1))

    return act


def invented(index: int) -> Callable[[Path], None]:
    return lambda run: sql(
        run,
        "INSERT INTO certificates SELECT ?, label, predicted, radius, draws, seconds, clean, low, sigma, answers, "
        "attempt, place + 1000, link FROM certificates WHERE idx = 3",
        index,
    )


def schema(*statements: str) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        with contextlib.closing(sqlite3.connect(run / "certificates.sqlite")) as base, base:
            for statement in statements:
                base.execute(statement)

    return act


def view(body: str) -> Callable[[Path], None]:
    """A view where the table was."""
    return schema("ALTER TABLE certificates RENAME TO kept", f"CREATE VIEW certificates AS {body}")


ENDLESS = (
    "WITH RECURSIVE more(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM more) "
    "SELECT i AS idx, 0 AS label, 0 AS predicted, 9.0 AS radius, 1 AS draws, 0.0 AS seconds, 0 AS clean, 0.9 AS low, "
    "NULL AS sigma, '[]' AS answers, 0 AS attempt, i AS place, x'00' AS link FROM more"
)
PLAIN_ONLY = (
    "DELETE FROM settlements", "UPDATE certificates SET sigma = NULL", "DELETE FROM journal WHERE kind = 'memory'",
)  # fmt: skip


def passed_off(run: Path) -> None:
    """Own-σ rows as plain certificates: preparation, memory and settlements gone."""
    schema(*PLAIN_ONLY)(run)
    recipe(run, lambda table: table["question"].pop("preparation"))


def passed_off_fitting(run: Path) -> None:
    passed_off(run)
    fit(run, 0.05, 0.02, 2)


def memory_sql(*statements: str) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        with contextlib.closing(sqlite3.connect(run.parent / "m")) as base, base:
            for statement in statements:
                base.execute(statement)

    return act


def settlement(change: str) -> Callable[[Path], None]:
    """Of the first input that holds a promise."""
    return lambda run: sql(
        run, f"UPDATE settlements SET {change} WHERE idx = (SELECT min(idx) FROM settlements WHERE radius > 0)"
    )


def commitment(**changes: Any) -> Callable[[Path], None]:
    return lambda run: recipe(run, lambda table: table["question"]["commitment"].update(changes))


ROWS = [
    Tampering(
        "radius raised", "a radius", raised(lambda r: r * 1.0001), ROW, "counts give radius", "counts give radius"
    ),
    Tampering(
        "radius raised by one digit in ten",
        "a radius",
        raised(lambda r: r * (1 + 5e-10)),
        ROW,
        "give radius",
        "give radius",
    ),
    Tampering(
        "radius raised by its last bit",
        "a radius",
        raised(lambda r: math.nextafter(r, 9)),
        ROW,
        "give radius",
        "give radius",
    ),
    Tampering("radius lowered", "a radius", raised(lambda r: r * 0.9), ROW, "counts give radius", "counts give radius"),
    Tampering(
        "radius infinite",
        "a radius",
        column("radius", math.inf),
        *["radius of input 3 must be a number from 0 to 1e+12; got inf"] * 3,
    ),
    Tampering(
        "radius negative", "a radius", column("radius", -1.0), *["radius of input 3 must be a number from 0"] * 3
    ),
    Tampering("radius huge", "a radius", column("radius", 1e300), *["radius of input 3 must be a number from 0"] * 3),
    Tampering("another answer", "a label", column("predicted", 7), ROW, "counts give label", "counts give label"),
    Tampering("an answer below abstention", "a label", column("predicted", -2), *["must be a class, or -1"] * 3),
    Tampering(
        "another true label",
        "a label",
        column("label", 7),
        ROW,
        "label 7 is not the data's",
        "label 7 is not the data's",
    ),
    Tampering("a negative label", "a label", column("label", -3), *["it is damaged"] * 3),
    Tampering(
        "draws", "numbers beside them", column("draws", 7), ROW, "draws; the row says 7", "draws; the row says 7"
    ),
    Tampering("draws beyond belief", "numbers beside them", column("draws", 2**62), *["draws of input 3 must be"] * 3),
    Tampering(
        "the label without noise",
        "numbers beside them",
        column("clean", 5),
        ROW,
        "without noise; the row says 5",
        "says 5",
    ),
    Tampering(
        "the bound raised",
        "numbers beside them",
        column("low", 0.999999),
        ROW,
        "counts give the bound",
        "give the bound",
    ),
    Tampering(
        "the bound lowered", "numbers beside them", column("low", 0.5), ROW, "counts give the bound", "give the bound"
    ),
    Tampering(
        "the bound removed", "numbers beside them", column("low", None), ROW, "counts give the bound", "give the bound"
    ),
    Tampering("a bound above 1", "numbers beside them", column("low", 1.5), *["it is damaged"] * 3),
    Tampering(
        "a noise level invented",
        "a noise level",
        column("sigma", 0.5),
        ROW,
        "it has a noise level of its own",
        "noise level",
    ),
    Tampering(
        "a noise level of nothing", "a noise level", column("sigma", 0.0), *["sigma of input 3 must be a positive"] * 3
    ),
    Tampering("seconds", "what nobody can draw again", column("seconds", 1e-6), ROW),
    Tampering(
        "seconds negative", "what nobody can draw again", column("seconds", -1.0), *["seconds of input 3 must be"] * 3
    ),
    Tampering("attempt", "what nobody can draw again", column("attempt", 4), ROW),
    Tampering(
        "votes made perfect, all consistent", "votes, all consistent", perfect, ROW, "", "votes differ when drawn again"
    ),
    Tampering(
        "two rows swapped",
        "votes, all consistent",
        swapped,
        "is not as it was written",
        "",
        "votes differ when drawn again",
    ),
    Tampering(
        "a row copied over another",
        "votes, all consistent",
        copied,
        "is not as it was written",
        "",
        "votes differ when drawn again",
    ),
    Tampering(
        "one vote moved",
        "votes",
        stored(lambda a: a[1][3].__setitem__(0, [[0, 51], [1, 49]])),
        ROW,
        "counts give",
        "counts give",
    ),
    Tampering(
        "more votes than draws",
        "votes",
        stored(lambda a: a[1][3].__setitem__(0, [[0, 500]])),
        ROW,
        "500 votes in 100",
        "500 votes",
    ),
    Tampering(
        "another class guessed",
        "votes",
        stored(lambda a: a[0][3].__setitem__(0, [[1, 10], [0, 10]])),
        ROW,
        "counts give",
        "counts give",
    ),
    Tampering(
        "a look without noise more", "votes", stored(lambda a: a.append(a[-1])), ROW, "without noise", "without noise"
    ),
    Tampering(
        "an answer more",
        "votes",
        stored(lambda a: a.insert(2, a[1])),
        ROW,
        "answers are stored where",
        "are stored where",
    ),
    Tampering("an answer less", "votes", stored(lambda a: a.pop(1)), ROW, "draws should follow", "draws should follow"),
    Tampering(
        "answers in another order", "votes", stored(lambda a: a.reverse()), ROW, "are stored where", "are stored where"
    ),
    Tampering("other classes", "votes", stored(lambda a: a[1].__setitem__(2, 1)), *[DAMAGED] * 3),
    Tampering(
        "votes below nothing", "votes", stored(lambda a: a[1][3].__setitem__(0, [[0, -5], [1, 105]])), *[DAMAGED] * 3
    ),
    Tampering(
        "an outcome beyond the last", "votes", stored(lambda a: a[1][3].__setitem__(0, [[9, 100]])), *[DAMAGED] * 3
    ),
    Tampering("votes as text", "votes", stored(lambda a: a[1][3].__setitem__(0, [[0, "100"]])), *[DAMAGED] * 3),
    Tampering("answers that are no JSON", "votes", stored(lambda a: "votes"), *[DAMAGED] * 3),
    Tampering("answers nested without end", "votes", stored(lambda a: "[" * 100_000), *[DAMAGED] * 3),
    Tampering(
        "a number of thirty digits",
        "votes",
        stored(lambda a: json.dumps(a).replace("100", "1" + "0" * 30)),
        *[DAMAGED] * 3,
    ),
    Tampering("NaN for a vote", "votes", stored(lambda a: json.dumps(a).replace("100", "NaN")), *[DAMAGED] * 3),
    Tampering("ten billion classes", "votes", stored(lambda a: a[1].__setitem__(2, 10**10)), *[DAMAGED] * 3),
    Tampering("a table for answers", "votes", stored(lambda a: "{}"), ROW, "answers end where", "answers end where"),
    Tampering(
        "worst row deleted",
        "rows",
        worst_deleted(False),
        "missing",
        "the run is unfinished: 1 of 8 inputs",
        "unfinished: 1 of 8",
    ),
    Tampering(
        "worst row deleted, inputs lowered",
        "rows",
        worst_deleted(True),
        "missing",
        "unfinished: 1 of 8",
        "the data has 8",
    ),
    Tampering(
        "every row deleted", "rows", deleted("certificates", None), "missing", "the run is unfinished: 8 of 8", "8 of 8"
    ),
    Tampering(
        "the last entries deleted",
        "rows",
        deleted("certificates WHERE place > 6", None),
        "missing",
        "is unfinished",
        "is unfinished",
    ),
    Tampering(
        "a row invented", "rows", invented(99), CHAIN, "input 99: it is not among those", "input 99: it is not among"
    ),
    Tampering("a row before the first", "rows", invented(-5), *["it is damaged"] * 3),
]

QUESTION = [
    Tampering("alpha alone", "the question", question(sampling__alpha=0.5), CHAIN, "counts give", "counts give"),
    Tampering("alpha, with all radii that follow", "the question, all consistent", at_alpha(0.5), CHAIN),
    Tampering("sigma", "the question", question(noise__sigma=0.5), CHAIN, "counts give radius", "counts give radius"),
    Tampering(
        "the noise",
        "the question",
        question(noise={"name": "uniform", "sigma": 0.25}),
        CHAIN,
        "counts give",
        "counts give",
    ),
    Tampering(
        "n",
        "the question",
        question(sampling__n=200),
        CHAIN,
        "are stored where 200 test draws belong",
        "200 test draws",
    ),
    Tampering("n0", "the question", question(procedure__n0=30), CHAIN, "where 30 guess draws belong", "30 guess draws"),
    Tampering(
        "the class that was tested",
        "the question",
        question(procedure__against="labels"),
        CHAIN,
        "are stored where",
        "are stored",
    ),
    Tampering("the seed", "the question, all consistent", question(seed=1), CHAIN, "", "votes differ when drawn again"),
    Tampering(
        "the model's hash",
        "the question, all consistent",
        question(model_digest="0" * 64),
        CHAIN,
        "",
        "is not the one that was certified",
    ),
    Tampering("what that covers", "the question, all consistent", question(model_covers="weights"), CHAIN),
    Tampering(
        "the data's hash",
        "the question",
        question(data_digest="0" * 64),
        CHAIN,
        "is not what was certified",
        "is not what was",
    ),
    Tampering(
        "which inputs", "the question", question(skip=2), CHAIN, "not what was certified", "it is not among those"
    ),
    Tampering(
        "where they end", "the question", question(max=4), CHAIN, "it is not among those", "it is not among those"
    ),
    Tampering(
        "how many", "the question", question(inputs=7), CHAIN, "the question says 7 inputs; the data has 8", "has 8"
    ),
    Tampering(
        "their shape", "the question", question(shape=[2, 2]), CHAIN, "the question says inputs of shape", "of shape"
    ),
    Tampering(
        "places of a window that are not there",
        "the question",
        question(noise__image=[6, 24]),
        *[UNREADABLE] * 3,
        victim="patches",
    ),
    Tampering(
        "narrower bands, which fewer patches meet",
        "the question",
        question(noise__width=1),
        CHAIN,
        "counts give radius",
        "counts give radius",
        victim="patches",
    ),
    Tampering(
        "smaller patches",
        "the question",
        question(noise__patch=[1, 2], sampling__radii=[1.0]),
        CHAIN,
        "counts give radius",
        "counts give radius",
        victim="patches",
    ),
    Tampering(
        "the votes of a rival left out",
        "votes",
        stored(lambda held: held[0][3].pop(0)),
        CHAIN,
        "counts give",
        "classes, as when the run was made",
        victim="patches",
    ),
    Tampering("a noise that does not exist", "the question", question(noise={"name": "loud"}), *[UNREADABLE] * 3),
    Tampering("sigma of nothing", "the question", question(noise__sigma=0), *[UNREADABLE] * 3),
    Tampering("sigma as text", "the question", question(noise__sigma="much"), *[UNREADABLE] * 3),
    Tampering("alpha of one", "the question", question(sampling__alpha=1.0), *[UNREADABLE] * 3),
    Tampering("draws as text", "the question", question(sampling__n="many"), *[UNREADABLE] * 3),
    Tampering("a seed of 65 bits", "the question", question(seed=2**64), *["64 bits"] * 3),
    Tampering("a seed below nothing", "the question", question(seed=-1), *[UNREADABLE] * 3),
    Tampering("a shape as text", "the question", question(shape="4"), *[UNREADABLE] * 3),
    Tampering("a shape of nothing", "the question", question(shape=[0]), *[UNREADABLE] * 3),
    Tampering("a shape beyond belief", "the question", question(shape=[10**9, 10**9]), *[UNREADABLE] * 3),
    Tampering("a model that is no text", "the question", question(model=["a"]), *[UNREADABLE] * 3),
    Tampering("data as a number", "the question", question(data=7), *[UNREADABLE] * 3),
    Tampering("a hash that is none", "the question", question(model_digest="short"), *[UNREADABLE] * 3),
    Tampering("a setting that does not exist", "the question", question(robust=True), *[UNREADABLE] * 3),
    Tampering(
        "recipe.toml alone: the seed", "the question", alone(lambda t: t["question"].update(seed=1)), *[CHANGED] * 3
    ),
    Tampering(
        "recipe.toml alone: the model's name",
        "the question",
        alone(lambda t: t["question"].update(model="x")),
        JOURNAL,
        JOURNAL,
        "there is no 'x'",
    ),
    Tampering("recipe.toml: another format", "the question", alone(lambda t: t.update(format=9)), *["format of"] * 3),
    Tampering("recipe.toml: a table more", "the question", alone(lambda t: t.update(robust={})), *[UNREADABLE] * 3),
    Tampering("command", "what nobody can draw again", means(command="smoothcert certify honest"), CHAIN),
    Tampering("versions", "what nobody can draw again", means(versions={"torch": "9"}), CHAIN),
    Tampering("notes", "what nobody can draw again", means(notes=["all is well"]), CHAIN),
    Tampering("when it began", "what nobody can draw again", means(started="2001-01-01T00:00:00+00:00"), CHAIN),
    Tampering("engine", "what nobody can draw again", means(engine="torch:cuda"), CHAIN),
    Tampering(
        "recipe.toml alone: command",
        "what nobody can draw again",
        alone(lambda t: t["means"].update(command="x")),
        *[JOURNAL] * 3,
    ),
    Tampering("means of other types", "what nobody can draw again", means(batch="large"), *[UNREADABLE] * 3),
    Tampering("a note that is no text", "what nobody can draw again", means(notes=[1]), *[UNREADABLE] * 3),
    Tampering("means that do not exist", "what nobody can draw again", means(robust=True), *[UNREADABLE] * 3),
    Tampering("journal emptied", "the journal", deleted("journal", None), *[CHANGED] * 3),
    Tampering(
        "journal of no JSON",
        "the journal",
        lambda run: sql(run, "UPDATE journal SET about = '{'", changed=None),
        *["must be JSON"] * 3,
    ),
]

DATABASE = [
    Tampering(
        "a view for the rows", "the database", view("SELECT * FROM kept"), *["must hold the tables of a run"] * 3
    ),
    Tampering("an endless view", "the database", view(ENDLESS), *["must hold the tables of a run"] * 3),
    Tampering(
        "a view that changes with time",
        "the database",
        view("SELECT * FROM kept WHERE random() > 0"),
        *["must hold the tables"] * 3,
    ),
    Tampering(
        "a trigger",
        "the database",
        schema("CREATE TRIGGER t AFTER INSERT ON journal BEGIN SELECT 1; END"),
        *["'t' is a trigger"] * 3,
    ),
    Tampering("a table more", "the database", schema("CREATE TABLE extra (a)"), *["'extra' is a table"] * 3),
    Tampering("an index", "the database", schema("CREATE INDEX i ON certificates (radius)"), *["'i' is a index"] * 3),
    Tampering(
        "a column more",
        "the database",
        schema("ALTER TABLE certificates ADD COLUMN robust INTEGER"),
        *["is another table"] * 3,
    ),
    Tampering("a table less", "the database", schema("DROP TABLE settlements"), *["'settlements' is missing"] * 3),
    Tampering(
        "another program's mark",
        "the database",
        schema("PRAGMA application_id = 7"),
        *["must be a database of smoothcert"] * 3,
    ),
]

MEMORY = [
    Tampering(
        "a settlement deleted",
        "a memory",
        deleted("settlements WHERE idx = 3"),
        "missing",
        "is unfinished",
        "is unfinished",
        "memory",
    ),
    Tampering(
        "a promise raised",
        "a memory",
        settlement("radius = radius * 1.01"),
        "not as it was written",
        "the memory's rule gives",
        "rule gives",
        "memory",
    ),
    Tampering(
        "a promise infinite", "a memory", settlement("radius = 9e999"), *["must be a number from 0"] * 3, "memory"
    ),
    Tampering(
        "a label switched",
        "a memory",
        settlement("predicted = 1 - predicted"),
        "not as it was written",
        "rule gives",
        "rule gives",
        "memory",
    ),
    Tampering(
        "a conflict invented",
        "a memory",
        settlement("conflict = 'switched'"),
        "not as it was written",
        "rule gives",
        "rule gives",
        "memory",
    ),
    Tampering(
        "regions not seen",
        "a memory",
        settlement("seen = 10000"),
        "not as it was written",
        "must be asked in the order",
        "in the order",
        "memory",
    ),
    Tampering(
        "a region that is not there",
        "a memory",
        settlement("stored = 1 - stored"),
        "not as it was written",
        "no region holds the ball",
        "no region holds the ball",
        "memory",
    ),
    Tampering(
        "another level for a row", "a noise level", column("sigma", 0.05), ROW, "counts give", "counts give", "memory"
    ),
    Tampering(
        "a level out of bounds",
        "a noise level",
        column("sigma", 3.0),
        ROW,
        "its noise level must be from",
        "noise level must be",
        "memory",
    ),
    Tampering(
        "a level removed",
        "a noise level",
        column("sigma", None),
        ROW,
        "it must have a noise level of its own",
        "it has none",
        "memory",
    ),
    Tampering(
        "own levels passed off as plain", "a noise level", passed_off, CHAIN, "counts give", "counts give", "memory"
    ),
    Tampering(
        "own levels passed off as plain, radii made to fit",
        "votes, all consistent",
        passed_off_fitting,
        CHAIN,
        "",
        "differ when drawn again",
        "memory",
    ),
    Tampering(
        "the memory's classifier",
        "a memory",
        memory_sql("UPDATE memory SET classifier = 'x'"),
        *["classifier, norm and shape; got another's"] * 3,
        "memory",
    ),
    Tampering(
        "the memory's norm",
        "a memory",
        memory_sql("UPDATE memory SET norm = 'l1'"),
        *["classifier, norm and shape; got another's"] * 3,
        "memory",
    ),
    Tampering(
        "another memory's name",
        "a memory",
        memory_sql("UPDATE memory SET identity = 'x'"),
        *["must be the memory that answered"] * 3,
        "memory",
    ),
    Tampering(
        "a region's radius",
        "a memory",
        memory_sql("UPDATE regions SET radius = 0.5 WHERE id = 1"),
        *["the memory's rule gives"] * 3,
        "memory",
    ),
    Tampering(
        "a region's label",
        "a memory",
        memory_sql("UPDATE regions SET label = 1 - label WHERE id = 1"),
        *["region"] * 3,
        "memory",
    ),
    Tampering(
        "regions deleted",
        "a memory",
        memory_sql("DELETE FROM regions", "DELETE FROM vectors"),
        *["region"] * 3,
        "memory",
    ),
    Tampering(
        "a view for the regions",
        "a memory",
        memory_sql("ALTER TABLE regions RENAME TO kept", "CREATE VIEW regions AS SELECT * FROM kept"),
        *["must be a whole memory"] * 3,
        "memory",
    ),
    Tampering(
        "the memory's name in the journal",
        "a memory",
        lambda run: sql(
            run,
            "UPDATE journal SET about = replace(about, '\"identity\": \"', '\"identity\": \"x') WHERE kind = 'memory'",
        ),
        *["must be the memory that answered"] * 3,
        "memory",
    ),
]

COMMITTED = [
    Tampering(
        "a committed seed",
        "a committed seed",
        question(seed=7),
        CHAIN,
        "the seed is not the one that the run was committed to",
        "the seed is not the one",
        "committed",
    ),
    Tampering(
        "its nonce",
        "a committed seed",
        commitment(nonce="0" * 64),
        CHAIN,
        "the seed is not the one",
        "the seed is not the one",
        "committed",
    ),
    Tampering(
        "its attempt",
        "a committed seed",
        commitment(attempt=77),
        CHAIN,
        "the seed is not the one",
        "the seed is not the one",
        "committed",
    ),
    Tampering(
        "its hash",
        "a committed seed",
        commitment(digest="0" * 64),
        CHAIN,
        "the seed is not the one",
        "the seed is not the one",
        "committed",
    ),
    Tampering("an attempt of nothing", "a committed seed", commitment(attempt=0), *[UNREADABLE] * 3, "committed"),
    Tampering(
        "a commitment as text", "a committed seed", question(commitment="trust me"), *[UNREADABLE] * 3, "committed"
    ),
]

TABLE = [*ROWS, *QUESTION, *DATABASE, *MEMORY, *COMMITTED]
assert len({one.name for one in TABLE}) == len(TABLE)


def put(table: Any, keys: tuple[Any, ...], value: Any) -> None:
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value


# Certificate documents: where, what, and the sentence that names it.
DOCUMENTS: Mapping[str, tuple[tuple[Any, ...], Any, str]] = {
    "radius": (("answer", "radius"), 9.0, "it says answer radius 9.0"),
    "radius raised by its last bits": (("answer", "radius"), None, "it says answer radius"),
    "label": (("answer", "label"), 7, "it says answer label 7"),
    "alpha": (("answer", "alpha"), 1e-9, "it says answer alpha 1e-09"),
    "norm": (("answer", "norm"), "linf", 'it says answer norm "linf"'),
    "guarantee": (("answer", "guarantee"), "deterministic", 'guarantee "deterministic"'),
    "tested class": (("answer", "test_class"), "labels", 'test_class "labels"'),
    "an extra field": (("robust",), True, "it says robust true"),
    "an extra field inside": (("answer", "robust"), True, "it says answer robust true"),
    "an extra field of the input": (("input", "robust"), True, "no field of input is called 'robust'"),
    "an extra setting": (("question", "robust"), True, "no setting is called 'robust'"),
    "a claim in words": (("words", "claim"), "It is robust.", "it says words claim"),
    "what it does not say": (("words", "does_not_say"), [], "it says words does_not_say []"),
    "certified radius": (("certificate", "radius"), 9.0, "counts give radius"),
    "certified radius as text": (("certificate", "radius"), "9", "it is damaged"),
    "certified label": (("certificate", "label"), 7, "counts give label"),
    "certified norm": (("certificate", "norm"), "l7", "it is damaged"),
    "certified parts": (("certificate", "parts"), [1], "it is damaged"),
    "evidence: bound": (("certificate", "evidence", "low"), 0.99999, "counts give the bound"),
    "evidence: draws": (("certificate", "evidence", "draws"), 10**6, "it says certificate evidence draws 1000000"),
    "evidence: counts": (("certificate", "evidence", "counts"), [[1, 1]], "it says certificate evidence counts"),
    "evidence: question": (("certificate", "evidence", "question"), [0.5], "it says certificate evidence question"),
    "alpha of the question": (("question", "sampling", "alpha"), 0.5, "counts give"),
    "sigma of the question": (("question", "noise", "sigma"), 0.5, "counts give radius"),
    "seed": (("question", "seed"), 1, "differ when drawn again"),
    "model": (("question", "model_digest"), "0" * 64, "not the one that was certified"),
    "data": (("question", "data_digest"), "0" * 64, "is not what was certified"),
    "number of inputs": (("question", "inputs"), 7, "it says that 7 inputs were asked for; the data has 8"),
    "which inputs": (("question", "skip"), 2, "is not what was certified"),
    "a preparation": (("question", "preparation"), {"name": "per_input_sigma"}, "it must have a noise level"),
    "votes": (("answers", 1, "counts"), [[100, 0]], "counts give"),
    "draws": (("answers", 1, "draws"), 90, "votes in 90 test draws"),
    "draws as text": (("answers", 1, "draws"), "100", "it is damaged"),
    "the look without noise": (("answers", 2, "counts"), [[1, 0]], "without noise the model says"),
    "index": (("input", "index"), 99, "input 99 is not among those that were asked for"),
    "another input's index": (("input", "index"), 4, "input 4 of the data has other values"),
    "true label": (("input", "label"), 5, "it says that the data's label is 5"),
    "hash of the input": (("input", "sha256"), "0" * 64, "it is damaged"),
    "values": (("input", "values"), "AAAA", "it is damaged"),
    "a level": (("sigma",), 0.25, "it has a noise level of its own"),
    "an empty memory": (("memory",), {}, "it is damaged"),
    "a memory": (("memory",), {"predicted": 0, "radius": 1e6, "conflict": None, "by": 1, "stored": True, "seen": 0,
                               "of": {"identity": "x", "place": "m", "order": "index", "regions": None}},
                 "a memory answered, so that the answer cannot be checked without the memory"),
    "means of another type": (("means", "batch"), "many", "it is damaged"),
    "means that do not exist": (("means", "robust"), True, "it is damaged"),
    "format": (("format",), "smoothcert certificate 2", "must be a document of"),
}  # fmt: skip
