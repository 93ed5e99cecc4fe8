"""Every row of the tampering table → the sentence that names it; and the table in the docs says the same."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import forging
import memory_run
import numpy as np
import pytest
import small_run
import stripes
from tamperings import DOCUMENTS, TABLE, Tampering, put

from smoothcert.cli.main import run
from smoothcert.runs import sign

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
MODES = ("bare", "counts", "draws", "signed")
SIGNED = "what was signed is not what is here"
COUNT = 8


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Honest runs, signed: plain, with levels and a memory, with a committed seed, of patches; and a document."""
    place = tmp_path_factory.mktemp("victims")
    data = small_run.write_data(place / "data.npz", COUNT)
    sign.new_key(place / "key")
    asked = ["--data", str(data), "--sigma", "0.25", "--n", "100", "--n0", "20", "--alpha", "0.05"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOOTHCERT_CACHE", str(place / "cache"))  # where attempts at a question are counted
        for name, seed in (("plain", "0"), ("committed", "commit")):
            words = [*asked, "--seed", seed, "--out", str(place / name / "run")]
            assert run(["-q", "certify", "linear:score", *words]) == 0
        np.savez(place / "images.npz", **dict(zip("xy", stripes.images(COUNT), strict=True)))
        bands = ["--data", str(place / "images.npz"), "--noise", "band", "--set", "width=2", "--set", "threshold=0.3"]
        assert run(["-q", "certify", "stripes:a", *bands, "--out", str(place / "patches" / "run")]) == 0
    (place / "memory").mkdir()
    memory_run.make(
        place / "memory" / "run", memory_run.write_data(place / "memory" / "data.npz"), place / "memory" / "m"
    )
    for name in ("plain", "committed", "memory", "patches"):
        assert run(["-q", "sign", str(place / name / "run"), "--key", str(place / "key")]) == 0
    keyed = ["--key", str(place / "key"), "--out", str(place / "signed.json")]
    assert run(["-q", "certificate", str(place / "plain" / "run"), "3", *keyed]) == 0
    return place


@pytest.fixture
def verify(victims: Path, capsys: pytest.CaptureFixture[str]):
    def verified(target: Path, *options: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(["verify", str(target), "--trust-code", *options])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return verified


@pytest.fixture
def copy(victims: Path, tmp_path: Path):
    def of(name: str) -> Path:
        shutil.copytree(victims / name, tmp_path / name)
        return tmp_path / name / "run"

    return of


def options(victims: Path, copied: Path, mode: str) -> list[str]:
    found = ["--redraw", "all" if mode == "draws" else "0"]
    if (copied.parent / "m").exists() and forging.value(copied, "SELECT count(*) FROM journal WHERE kind = 'memory'"):
        found += ["--memory", str(copied.parent / "m")]
    return found + (["--trust", str(victims / "key.pub")] if mode == "signed" else [])


@pytest.mark.parametrize("name", ["plain", "memory", "committed", "patches"])
def test_honest_runs_stand_every_check(victims: Path, verify, copy, name: str) -> None:
    copied = copy(name)
    code, said = verify(copied, *options(victims, copied, "signed"), "--redraw", "all")
    assert code == 0 and "all as recorded" in said and "signed by key" in said, said
    (copied / sign.FILE).unlink()
    code, said = verify(copied, *options(victims, copied, "draws"))
    assert code == 0 and "left open: it is not signed: all this shows that it is consistent, not who made it" in said
    forging.rechain(copied)  # which is no change
    assert verify(copied, *options(victims, copied, "counts"))[0] == 0


def outcome(one: Tampering, mode: str) -> str:
    """The sentence that is due; a signature covers whatever a run can still be read with."""
    if mode != "signed":
        return str(getattr(one, mode))
    return one.bare if one.bare == one.counts else SIGNED


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("one", TABLE, ids=lambda one: one.name.replace(" ", "-"))
def test_tampering_is_named(one: Tampering, mode: str, victims: Path, verify, copy) -> None:
    copied = copy(one.victim)
    one.act(copied)
    if mode != "bare" and one.kind != "the database":
        forging.rechain(copied)
    if mode != "signed":
        (copied / sign.FILE).unlink()
    code, said = verify(copied, *options(victims, copied, mode))
    sentence = outcome(one, mode)
    assert (code != 0) == bool(sentence), said
    assert sentence in said
    assert code in (0, 1, 2) and "Traceback" not in said


def test_there_are_enough() -> None:
    assert len(TABLE) + len(DOCUMENTS) >= 120


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_forged_document_is_named(name: str, victims: Path, verify, tmp_path: Path) -> None:
    keys, value, sentence = DOCUMENTS[name]
    table = json.loads((victims / "signed.json").read_text())
    signature = table.pop("signature")
    if name == "radius raised by its last bits":
        value = math.nextafter(table["answer"]["radius"], 9)
    put(table, keys, value)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(table))
    data = ["--data", str(victims / "data.npz")]
    code, said = verify(path, *data)
    assert code in (1, 2) and sentence in said, said
    path.write_text(json.dumps({**table, "signature": signature}))
    code, said = verify(path, *data, "--trust", str(victims / "key.pub"))
    assert code in (1, 2) and (SIGNED in said or sentence in said)


def test_an_honest_document_is_as_stated_and_its_signer_named(victims: Path, verify, tmp_path: Path) -> None:
    trust = ["--trust", str(victims / "key.pub"), "--data", str(victims / "data.npz")]
    code, said = verify(victims / "signed.json", *trust)
    assert code == 0 and "all as stated" in said and "signed by key" in said
    table = json.loads((victims / "signed.json").read_text())
    del table["signature"]
    (tmp_path / "c.json").write_text(json.dumps(table))
    assert verify(tmp_path / "c.json")[0] == 0
    code, said = verify(tmp_path / "c.json", *trust)
    assert code == 1 and "it must be signed by a trusted key; it is not signed" in said


def seen(kind: str, mode: str) -> str:
    """yes, no, or some: whether tamperings of a kind show."""
    found = {bool(outcome(one, mode)) for one in TABLE if one.kind == kind}
    return {frozenset([True]): "yes", frozenset([False]): "no"}.get(frozenset(found), "some")


def test_the_table_in_the_docs_is_what_the_tests_show() -> None:
    lines = re.findall(r"^\| ([^|]+) \| (yes|no|some) \| (yes|no|some) \| (yes|no|some) \| (yes|no|some) \|$",
                       PAGE.read_text(encoding="utf-8"), re.MULTILINE)  # fmt: skip
    numbers = f"{len(TABLE)} tamperings with runs and memories, {len(DOCUMENTS)} with certificate documents"
    assert numbers in " ".join(PAGE.read_text(encoding="utf-8").split())
    kinds = list(dict.fromkeys(one.kind for one in TABLE))
    assert {line[0]: line[1:] for line in lines} == {kind: tuple(seen(kind, mode) for mode in MODES) for kind in kinds}
