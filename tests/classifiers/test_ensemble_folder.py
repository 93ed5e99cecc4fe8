"""An ensemble's folder: it loads like a model wherever it lies, and refuses members that are not what they were."""

from __future__ import annotations

import hashlib
import json
import shutil

import linear
import lines
import pytest
import torch
from torch import nn

from smoothcert.classifiers import composite, digest, load, ready
from smoothcert.classifiers.composite import Composite, Member
from smoothcert.errors import ModelError, OutputError
from smoothcert.training import checkpoints


def network(seed=0, classes=3, side=4):
    torch.manual_seed(seed)
    return checkpoints.build(config(classes, side), "test").eval()


def config(classes=3, side=4, **settings):
    options = {"hidden": 1, "mean": [0.5], "std": [0.5]}
    shape = {"shape": [1, side, side], "classes": classes, "settings": settings}
    return {"arch": "mlp4", "arch_options": options, **shape}


def save(folder, seed=0, **about):
    about = {"classes": 3, "side": 4, **about}
    folder.mkdir(parents=True)
    checkpoints.publish(folder, checkpoints.plain(network(seed, about["classes"], about["side"])), config(**about))
    return str(folder)


def write(folder, specs, vote=None, cascade=None):
    for spec in specs:
        load(spec)
    members = tuple(composite.described(folder, spec) for spec in specs)
    vote = vote or {"name": "soft_vote"}
    composite.write(folder, Composite("ensemble", members, vote, cascade, facts=composite.facts(specs)))
    return folder


def test_it_loads_like_a_model_and_moves_with_its_members(tmp_path, monkeypatch):
    specs = [save(tmp_path / "models" / name, seed) for seed, name in enumerate("ab")]
    folder = write(tmp_path / "models" / "ab", specs)
    x = torch.rand(9, 1, 4, 4)
    with torch.no_grad():
        expected = (network(0)(x) + network(1)(x)) / 2
    assert torch.allclose(load(folder)(x), expected, atol=1e-6)
    before = digest(folder)
    shutil.move(tmp_path / "models", tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere" / "a")
    moved = tmp_path / "elsewhere" / "ab"
    assert torch.allclose(load(moved)(x), expected, atol=1e-6) and digest(moved) == before
    assert torch.allclose(load("../ab")(x), expected, atol=1e-6)


def test_names_are_members_too(tmp_path):
    folder = write(tmp_path / "e", ["lines:a", "lines:b"], {"name": "hard_vote"}, {"name": "k_consensus", "k": 1})
    x = torch.rand(9, 4)
    assert torch.equal(load(folder)(x), nn.functional.one_hot(linear.score(x).argmax(1)).float())
    assert [member.place for member in composite.read(folder).members] == ["lines:a", "lines:b"]


def test_a_changed_member_is_refused(tmp_path):
    specs = [save(tmp_path / name, seed) for seed, name in enumerate("ab")]
    folder = write(tmp_path / "ab", specs)
    outer = write(tmp_path / "outer", [str(folder), specs[0]])
    load(outer)
    checkpoints.publish(tmp_path / "b", checkpoints.plain(network(7)), config())
    for changed in (folder, outer):
        with pytest.raises(ModelError, match=r"member .*b of '.*ab' must be what it was .* its hash differs"):
            load(changed)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(ModelError, match=r"member .*b of '.*ab' must exist; got no such file or folder"):
        load(folder)


def test_a_changed_ensemble_is_refused_as_a_member(tmp_path):
    specs = [save(tmp_path / name, seed) for seed, name in enumerate("abc")]
    outer = write(tmp_path / "outer", [str(write(tmp_path / "ab", specs[:2]))])
    write(tmp_path / "ab", specs[1:])
    with pytest.raises(ModelError, match="its hash differs"):
        load(outer)


def test_a_changed_callable_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine_for_now.py").write_text("import linear\nf = linear.score\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = write(tmp_path / "e", ["mine_for_now:f"])
    load(folder)
    (tmp_path / "mine_for_now.py").write_text("import linear\nf = linear.score  # changed\n")
    with pytest.raises(ModelError, match=r"member mine_for_now:f of .* its hash differs"):
        load(folder)


def test_the_hash_is_of_the_function(tmp_path):
    specs = [save(tmp_path / name, seed) for seed, name in enumerate("ab")]
    plain = digest(write(tmp_path / "1", specs))
    assert digest(write(tmp_path / "2", specs)) == plain
    others = [
        write(tmp_path / "3", specs[::-1]),
        write(tmp_path / "4", specs, {"name": "hard_vote"}),
        write(tmp_path / "5", specs, None, {"name": "k_consensus", "k": 1}),
        write(tmp_path / "6", specs, {"name": "weighted_vote", "weights": [0.5, 0.5], "values": "scores"}),
        write(tmp_path / "7", [specs[0], specs[0]]),
    ]
    assert len({plain, *map(digest, others)}) == 6


def test_a_folder_that_contains_itself_ends(tmp_path):
    folder = write(tmp_path / "e", ["lines:a"])
    members = (Member(".", digest(folder).hex, path=True),)
    composite.write(folder, Composite("ensemble", members, {"name": "soft_vote"}))
    with pytest.raises(ModelError, match="or it holds itself"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("no json", "composite.json' must be JSON; got something else"),
        ({"format": 2}, r"cannot be read \(its format is not 1\)"),
        ({"members": "a"}, "must describe a model of several networks; it cannot be read"),
        ({"members": []}, "must describe an ensemble: members of an ensemble must be at least one"),
        ({"vote": {}}, "must describe an ensemble: a vote must have a name; got none"),
        ({"vote": {"name": "no_vote"}}, "must describe an ensemble: ensemble must be one of"),
        ({"vote": {"name": "holdout"}}, "must describe an ensemble: ensembles/holdout.py holds no class"),
        (
            {"kind": "choir"},
            r"cannot be read \(kind must be one of ensemble, denoised, aces, route, adapted; got 'choir'\)",
        ),
        ({"colour": "red"}, "must describe a model of several networks; it cannot be read"),
        ({"vote": {"name": "weighted_vote", "weights": [0.5]}}, "weights of an ensemble must be 0 or more"),
        ({"cascade": {"name": "k_consensus", "k": 5}}, "k of k_consensus must be a whole number from 1 to the 1"),
        ({"cascade": {"name": "soft_vote"}}, "must describe an ensemble"),
        (
            {"holdout": {"indices": "1 2", "marks": "ab"}},
            "must describe a model of several networks; it cannot be read",
        ),
    ],
)
def test_damaged_descriptions(tmp_path, change, message):
    folder = write(tmp_path / "e", ["lines:a"])
    path = folder / composite.FILE
    path.write_text(change if isinstance(change, str) else json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelError, match=message) as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_members_must_be_alike_as_far_as_their_files_tell(tmp_path):
    one = save(tmp_path / "one")
    inner = write(tmp_path / "inner", [one])
    for name, about in {"classes": {"classes": 4}, "shape": {"side": 5}, "range": {"value_range": [0, 255]}}.items():
        other = save(tmp_path / name, **about)
        for mine in (one, str(inner)):
            with pytest.raises(ModelError, match=rf"{name} of members must be the same; got .* in {mine} and .*{name}"):
                composite.facts([mine, "lines:a", other])
    assert composite.facts([one, "lines:a"]) == {"shape": [1, 4, 4], "classes": 3, "range": None}


def test_other_folders_are_not_written_into(tmp_path):
    checkpoint = save(tmp_path / "a")
    with pytest.raises(OutputError, match=r"must be a new folder or an ensemble; got .* with"):
        write(tmp_path / "a", [checkpoint])
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="must be a folder; got the file"):
        write(tmp_path / "file", [checkpoint])


def test_members_on_several_engines_are_made_ready_in_their_own_ways(tmp_path):
    class Dynamic(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :3] * (1.0 if x.sum().item() > -1e9 else 2.0)

    from smoothcert.ensembles.spec import Ensemble

    def plain(x):
        return x.flatten(1)[:, 3:6]

    vote = Ensemble([network(0), Dynamic().eval(), plain])
    x = torch.rand(5, 1, 4, 4)
    prepared = ready(vote, x[0])
    assert prepared.engine == "callable" and prepared.workers == 1
    assert prepared.note.startswith("running on torch: not exportable to ONNX (")
    assert torch.allclose(prepared.classifier(x), vote(x), atol=1e-5)
    same = ready(Ensemble([network(0), network(0)]), x[0])
    assert same.engine == "onnxruntime" and {member.threads for member in same.classifier.members} == {
        same.classifier.members[0].threads
    }


def test_lines_differ():
    """Or nothing about undecided rows would be tested with them."""
    x = torch.rand(1000, 4, generator=torch.Generator().manual_seed(0))
    answers = torch.stack([line(x).argmax(1) for line in (lines.a, lines.b, lines.c)])
    assert 0.02 < float((answers != answers[0]).any(0).double().mean()) < 0.5


def test_zoo_names_are_members(tmp_path, monkeypatch):
    from smoothcert import zoo

    save(tmp_path / "zoo" / "tiny-0")
    files = ("config.json", "weights.safetensors")
    sums = {file: hashlib.sha256((tmp_path / "zoo" / "tiny-0" / file).read_bytes()).hexdigest() for file in files}
    table = "".join(f'"{file}" = "{found}"\n' for file, found in sums.items())
    (tmp_path / "zoo" / "zoo.toml").write_text(f'[tiny-0]\nabout = "a"\ncommand = "c"\n[tiny-0.sha256]\n{table}')
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "zoo")
    folder = write(tmp_path / "e", ["tiny-0", save(tmp_path / "other", 1)])
    x = torch.rand(9, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(load(folder)(x), (network(0)(x) + network(1)(x)) / 2, atol=1e-6)
    assert composite.read(folder).members[0].place == "tiny-0" and composite.read(folder).facts["classes"] == 3


@pytest.mark.parametrize("name", ["ensemble.json", "composition.json", "denoised.json"])
def test_a_folder_of_an_older_version_is_refused_in_one_line(tmp_path, name):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / name).write_text("{}")
    with pytest.raises(ModelError, match=rf"'.*old' must be the folder of a composition, with composite\.json.*{name}"):
        load(tmp_path / "old")


def test_what_members_hashes_cover_is_what_the_whole_covers(tmp_path):
    weights = save(tmp_path / "a")
    assert digest(write(tmp_path / "sure", [weights, weights])).covers == "weights"
    inner = write(tmp_path / "inner", ["lines:a"])
    assert digest(inner).covers == digest(write(tmp_path / "outer", [str(inner), weights])).covers == "source"


def test_kinds_are_not_written_over_each_other(tmp_path):
    folder = write(tmp_path / "e", ["lines:a"])
    other = Composite("aces", (composite.described(folder, "lines:a", "certify"),))
    with pytest.raises(OutputError, match=r"must be a new folder or a composition; got .*e' with an ensemble"):
        composite.write(folder, other)


def test_a_folder_cannot_say_that_a_hash_covers_more_than_it_does(tmp_path):
    folder = write(tmp_path / "e", ["lines:a"])
    path = folder / composite.FILE
    path.write_text(path.read_text().replace('"covers": "source"', '"covers": "weights"'))
    with pytest.raises(ModelError, match=r"member lines:a of .* its hash differs"):
        load(folder)
