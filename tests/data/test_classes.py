"""Classes by name: lists of them in every form, and labels that become the model's numbers or are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from smoothcert.data import Subset, class_lines, load, renamed, unnamed
from smoothcert.errors import DataError, OptionError

IMAGENET = ("n01440764 tench, Tinca tinca", "n02012849 crane", "n02119789 kit fox", "n03126707 crane")


def listed(tmp_path, text):
    path = tmp_path / "labels.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def folders(root, *names):
    for number, name in enumerate(names):
        (root / name).mkdir(parents=True)
        Image.new("RGB", (2, 2), (number, 0, 0)).save(root / name / "a.png")
    return str(root)


def numbers(tmp_path, names, lines):
    """The label of each class folder."""
    found = Subset(folders(tmp_path / "images", *names), classes=lines).load()
    return dict(zip(sorted(names), found.labels.tolist(), strict=True))


@pytest.mark.parametrize("text", [
    "cat\ndog\n", "cat\r\n dog \n\n\n", '["cat", "dog"]', '{"1": "dog", "0": "cat"}', '\n{"0": ["cat"], "1": ["dog"]}',
])  # fmt: skip
def test_lists_are_read_in_every_form(tmp_path, text):
    assert class_lines(listed(tmp_path, text)) == ("cat", "dog")


def test_the_table_that_torchvision_users_have_is_read(tmp_path):
    table = {"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}
    assert class_lines(listed(tmp_path, json.dumps(table))) == ("n01440764 tench", "n01443537 goldfish")


@pytest.mark.parametrize(("text", "words"), [
    ("cat\n\ndog\n", "got none for class 1"),
    ("cat", "2 to 100000 classes; got 1"),
    ("", "2 to 100000 classes; got 0"),
    (b"\xff\xfe\x00", "no UTF-8"),
    ('{"0": "cat", "2": "dog"}', "a table without 1"),
    ('{"cat": 0, "dog": 1}', "a table without 0"),
    ('["cat", 3]', "got 3"),
    ('["cat", ', "must be JSON"),
])  # fmt: skip
def test_other_lists_get_one_line(tmp_path, text, words):
    with pytest.raises(DataError, match=words) as error:
        class_lines(listed(tmp_path, text))
    assert "\n" not in str(error.value)


def test_labels_become_the_models_numbers(tmp_path):
    assert numbers(tmp_path, ["ant", "bee"], ("wasp", "bee", "ant")) == {"ant": 2, "bee": 1}


@pytest.mark.parametrize(("folder", "number"), [("n01440764", 0), ("Tench", 0), ("kit_fox", 2), ("n03126707", 3)])
def test_a_folder_is_found_by_id_or_by_name(tmp_path, folder, number):
    assert numbers(tmp_path, [folder], IMAGENET) == {folder: number}


@pytest.mark.parametrize(("names", "lines", "words"), [
    (["crane"], IMAGENET, "'crane' is more than one: got classes 1 and 3"),
    (["tench", "shark"], IMAGENET, "'shark' is none: got 'n01440764 tench, Tinca tinca', 'n02012849 crane'"),
    (["kit"], IMAGENET, "'kit' is none"),  # no part of a name counts
    (["tiger"], ("tiger cat", "dog"), "'tiger' is none"),
    (["cat", "Cat"], ("cat", "dog"), "'Cat' and 'cat' do"),
])  # fmt: skip
def test_a_class_that_is_not_found_once_is_refused(tmp_path, names, lines, words):
    with pytest.raises(DataError, match=words):
        numbers(tmp_path, names, lines)


def test_the_whole_line_counts_before_its_parts(tmp_path):
    assert numbers(tmp_path, ["a1", "a1 b"], ("a1 b", "a1")) == {"a1": 1, "a1 b": 0}


def test_names_travel_with_the_inputs(tmp_path):
    root = folders(tmp_path / "images", "ant", "bee")
    assert load(root).class_names == ("ant", "bee")
    found = Subset(root, classes=("n1 bee, Apis", "n2 ant")).load()
    assert found.classes == 2 and found.class_names == ("n1 bee, Apis", "n2 ant")
    assert Subset(root, classes=("n1 bee, Apis", "n2 ant")).class_names == ("bee", "ant")
    assert Subset("cifar10").class_names[3] == "cat" and Subset("digits").class_names == ()


def test_numbers_stay_where_labels_have_no_names(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=[0, 2, 1])
    found = Subset(str(tmp_path / "a.npz"), classes=("a", "b", "c")).load()
    assert found.labels.tolist() == [0, 2, 1] and found.class_names == ("a", "b", "c")
    with pytest.raises(DataError, match="every label, up to 2; got 2 names"):
        Subset(str(tmp_path / "a.npz"), classes=("a", "b")).load()


def test_what_are_no_names():
    assert unnamed(("LABEL_0", "LABEL_1")) and unnamed(("0", "1")) and not unnamed(("0", "cat"))


@pytest.mark.parametrize("classes", [(), ("a", ""), ("a", 3)])
def test_a_recipe_holds_names(classes):
    with pytest.raises(OptionError, match="classes of the data must be names"):
        Subset("digits", classes=classes)


def test_other_labels_have_no_names(tmp_path):
    inputs = load(folders(tmp_path / "images", "ant", "bee"))
    assert inputs.chosen(np.array([1]), np.array([7])).class_names == ()
    assert renamed(inputs, ("bee", "ant")).chosen(np.array([1])).labels.tolist() == [0]
