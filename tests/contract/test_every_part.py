"""What every part of every folder must do, so that catalogue, recipe and command line find it by its name."""

from __future__ import annotations

import dataclasses

import pytest

from smoothcert import catalog
from smoothcert.errors import OptionError
from smoothcert.testing import check_part

FOLDERS = ("noise", "sampling", "procedures", "architectures", "data", "training.objectives")
PARTS = [(folder, name) for folder in FOLDERS for name in catalog.names(folder)]


@pytest.mark.parametrize(("folder", "name"), PARTS)
def test_a_part_is_found_by_its_file_name_and_says_what_it_is(folder, name):
    part, carried = catalog.find(folder, name)
    assert carried == {}
    check_part(part)


@pytest.mark.parametrize(("folder", "name"), PARTS)
def test_an_unknown_option_is_refused_with_the_known_ones(folder, name):
    with pytest.raises(OptionError, match=f"option of {name} must be one of"):
        catalog.build(folder, name, {"no_such_option": 1})


def test_unknown_names_get_a_suggestion():
    with pytest.raises(OptionError, match=r"noise must be one of .*; got 'gausian' \(did you mean 'gaussian'\?\)"):
        catalog.build("noise", "gausian")


def test_a_trailing_number_is_the_first_option():
    assert catalog.build("architectures", "resnet20").depth == 20
    with pytest.raises(OptionError, match="architecture must be one of"):
        catalog.build("architectures", "resnext20")


def test_missing_options_are_named():
    with pytest.raises(OptionError, match="gaussian needs a value for sigma; got none"):
        catalog.build("noise", "gaussian")


@pytest.mark.parametrize("name", catalog.names("sampling"))
def test_every_sampling_says_what_it_asks(name):
    part = catalog.find("sampling", name)[0]
    tests_radii = "radii" in {field.name for field in dataclasses.fields(part)}
    sampling = part(radii=[0.25, 0.5]) if tests_radii else part()
    assert sampling.radii == ((0.25, 0.5) if tests_radii else None) and sampling.cap > 0
    assert sampling.counts_all == (sampling.alpha == 0.0) == (name == "exhaustive")


@pytest.mark.parametrize("name", catalog.names("procedures"))
def test_every_procedure_says_what_it_answers(name):
    procedure = catalog.build("procedures", name)
    kind = "select" if name == "select" else "predict" if name.endswith("predict") else "certify"
    assert (procedure.kind, procedure.test_class, procedure.labelled) == (kind, "guess", name != "select")
    assert procedure.alpha == 0.001 and procedure.cap > 0
    assert (procedure.sampling is not None) == (name in ("certify", "route"))


def test_variants_of_a_part_are_in_its_file_and_stored_names_are_options():
    for name in ("aces_predict", "route_predict"):
        part, carried = catalog.find("procedures", name)
        assert carried == {} and (part.kind, part.labelled) == ("predict", True)
        procedure = catalog.build("procedures", name, {"n": 20_000})
        assert procedure.cap in (20_000, 40_000) and catalog.describe(procedure)["name"] == name
    assert catalog.build("procedures", "certify", {"against": "labels"}).test_class == "labels"
    assert catalog.build("procedures", "aces", {"look": 500}).n_predict == 500
    with pytest.raises(OptionError, match="procedure must be one of aces, certify, predict"):
        catalog.build("procedures", "aces_guess")


@pytest.mark.parametrize("name", catalog.names("procedures"))
def test_a_part_described_is_found_again(name):
    procedure = catalog.build("procedures", name)
    assert catalog.describe(procedure)["name"] == name
