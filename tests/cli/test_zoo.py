"""`smoothcert zoo`, and its names as models of other commands."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from smoothcert import zoo
from smoothcert.cli.main import run
from smoothcert.spec import Recipe

NAMES = list(zoo.networks())


@pytest.fixture
def smoothcert(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_json_tells_what_the_words_do(smoothcert):
    every = json.loads(smoothcert("zoo", "--json")[1])
    assert [one["name"] for one in every] == NAMES
    assert json.loads(smoothcert("zoo", NAMES[-1], "--json")[1]) == every[-1]
    assert every[-1]["settings"]["sigma"] == 0.25


def test_the_list_has_a_line_for_each_with_its_figures(smoothcert):
    code, out, _ = smoothcert("zoo")
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert code == 0 and set(NAMES) <= set(lines)
    for name, network in zoo.networks().items():
        settings, counted = network.config["settings"], network.config["settings"]["sigma"] is None
        level, (*shares, acr, inputs, size, unit) = lines[name][1:][: 1 + counted], lines[name][2 + counted :]
        assert unit == "kB" and abs(float(size.replace(",", "")) - network.size / 1000) <= 0.5
        assert name.startswith(f"{settings['data']}-{settings['arch']}-")
        assert level == ["band", "4"] if counted else [float(sigma) for sigma in level] == [settings["sigma"]]
        if network.measured is None:
            assert {inputs, acr, *shares} == {"–"}
            continue
        assert int(inputs.replace(",", "")) == network.measured.inputs
        shown = ("0", "1", "3", "5") if counted else ("0", "0.25", "0.5", "0.75")
        assert 0.0 <= network.measured.acr - float(acr) < 0.001  # rounded down
        assert [float(share) for share in shares] == pytest.approx(
            [100 * network.measured.certified_accuracy[radius] for radius in shown], abs=0.1
        )


def test_one_network_is_told_whole(smoothcert):
    network = zoo.networks()[NAMES[0]]
    code, out, _ = smoothcert("zoo", NAMES[0])
    assert code == 0 and all(digest in out for digest in network.sha256.values())
    told = [network.measured.command] if network.measured else ["not measured"]
    for words in (network.about, network.command, *told, str(network.folder)):
        assert words in out.splitlines()[[words in line for line in out.splitlines()].index(True)]


def test_an_unknown_name_is_one_line_with_a_suggestion(smoothcert):
    typo = NAMES[-1].replace("resnet8", "resnet")
    code, _, err = smoothcert("zoo", typo)
    assert code == 2 and "did you mean 'cifar10-resnet8-" in err and err.count("\n") == 1
    code, _, err = smoothcert("predict", typo, "--data", "digits", "--sigma", "0.25", "--out", "run")
    assert code == 2 and "did you mean 'cifar10-resnet8-" in err.splitlines()[-1]


def test_a_zoo_name_is_certified_and_verified(smoothcert, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", x=rng.random((3, 3, 32, 32), dtype=np.float32), y=np.array([0, 1, 2]))
    options = ["--data", "few.npz", "--sigma", "0.25", "--n", "50", "--threads", "1", "--out", "run"]
    assert smoothcert("certify", NAMES[-1], *options)[0] == 0
    assert Recipe.read(tmp_path / "run" / "recipe.toml").spec.model == NAMES[-1]
    code, out, _ = smoothcert("verify", "run")
    assert code == 0 and "all as recorded" in out


def test_the_list_does_not_wait_for_torch():
    code = (
        "import sys; from smoothcert.cli.main import run; assert run(['zoo']) == 0;"
        "heavy = {'torch', 'numpy', 'scipy', 'onnxruntime'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
