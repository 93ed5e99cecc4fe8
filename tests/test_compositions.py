"""Compositions a user holds: true radii of linear networks are kept, and a saved one is the same again."""

from __future__ import annotations

import json

import linear
import numpy as np
import pytest
import switches
import torch
from scipy.stats import binom

import smoothcert
from smoothcert.classifiers import load
from smoothcert.errors import ModelError, OptionError

INPUTS, N, ALPHA, SIGMA = 1000, 600, 0.05, 0.25
MOST_WRONG = int(binom.ppf(1 - 1e-6, INPUTS, ALPHA))
NOISE = smoothcert.Gaussian(SIGMA)


@pytest.fixture(scope="module")
def x():
    return torch.rand(INPUTS, 4, generator=torch.Generator().manual_seed(0))


def columns(certificates):
    return np.array([c.label for c in certificates]), np.array([c.radius for c in certificates])


def test_aces_keeps_to_the_true_radius(x):
    """Selector and classifier are planes: smoothing leaves them as they are, θ = 0.5 is the selector's own."""
    aces = smoothcert.Aces(linear.score, switches.core, NOISE, 0.5, switches.select)
    labels, radii = columns(aces.certify_all(list(x), n=N, alpha=ALPHA))
    plane, chosen = linear.margin(x).numpy(), switches.margin(x).numpy()
    right = np.where(chosen > 0, plane > 0, plane <= 0).astype(int)
    reach = np.where(chosen > 0, np.minimum(np.abs(plane), np.abs(chosen)), 0.0)
    said = labels != smoothcert.ABSTAIN
    assert (said & ((labels != right) | (radii > reach))).sum() <= MOST_WRONG
    clear = (chosen > 0.1) & (np.abs(plane) > 0.1)
    assert clear.sum() > 150 and (labels[clear] == right[clear]).all()
    inside = clear & (reach < 0.4)
    assert np.median(radii[inside] / reach[inside]) > 0.8
    core = chosen < -0.1
    assert core.sum() > 100 and (labels[core] == right[core]).all() and (radii[core] == 0).all()
    both = [binding(c) for c in aces.certify_all(list(x[clear][:60]), n=N, alpha=ALPHA)]
    assert {0, 1} <= set(both)  # the selection binds for some, the class for others


def binding(certificate):
    return int(np.argmin([part.radius for part in certificate.parts]))


def test_entropy_selects_what_is_far_from_the_plane(x):
    aces = smoothcert.Aces(switches.steep, switches.core, NOISE, 0.3)
    plane = linear.margin(x).numpy()
    some = np.flatnonzero(np.abs(plane) > 0.45)[:10].tolist() + np.flatnonzero(np.abs(plane) < 0.01)[:10].tolist()
    labels, radii = columns(aces.certify_all([x[i] for i in some], n=N, alpha=ALPHA))
    assert (labels[:10] == (plane[some[:10]] > 0)).all() and (radii[:10] > 0.2).all()
    # Even close to the plane, most noisy copies are far from it: the entropy rarely hands such an input to the core.
    assert (radii[10:] == 0).all()
    never, always = (smoothcert.Aces(switches.steep, switches.core, NOISE, theta) for theta in (0.0, 1.0))
    assert never.certify(x[0], n=N).label == int(plane[0] <= 0) and never.certify(x[0], n=N).radius == 0.0
    smoothed = smoothcert.Smoothed(switches.steep, NOISE).certify(x[0], n=N, alpha=ALPHA / 2)
    assert always.certify(x[0], n=N, alpha=ALPHA).radius == smoothed.radius > 0


def test_predict_is_right_as_often_as_alpha_says(x):
    aces = smoothcert.Aces(linear.score, switches.core, NOISE, 0.5, switches.select)
    for i in range(20):
        plane, chosen = float(linear.margin(x[i])), float(switches.margin(x[i]))
        assert aces.predict(x[i], n=3000) in (int((plane > 0) == (chosen > 0)), smoothcert.ABSTAIN)


def test_route_keeps_to_the_true_radius(x):
    """Branches at two levels of noise: near the selector's plane its radius binds, elsewhere that of the branch."""
    route = smoothcert.Route([(switches.core, smoothcert.Gaussian(0.12)), (linear.score, smoothcert.Gaussian(0.5))],
                         switches.select, NOISE)  # fmt: skip
    certificates = route.certify_all(list(x), n=N, alpha=ALPHA)
    labels, radii = columns(certificates)
    plane, chosen = linear.margin(x).numpy(), switches.margin(x).numpy()
    right = np.where(chosen > 0, plane > 0, plane <= 0).astype(int)
    reach = np.minimum(np.abs(plane), np.abs(chosen))
    said = labels != smoothcert.ABSTAIN
    assert (said & ((labels != right) | (radii > reach))).sum() <= MOST_WRONG
    clear = reach > 0.1
    assert clear.sum() > 300 and (labels[clear] == right[clear]).mean() > 0.99
    taken = [c.parts[0].label for c in certificates if not c.abstained]
    assert 0.1 < np.mean(taken) < 0.9
    assert all(len(c.parts) == 2 for c in certificates if not c.abstained)
    assert route.predict(x[0], n=3000) in (int(right[0]), smoothcert.ABSTAIN)


def test_a_saved_composition_is_the_same_again(tmp_path, x):
    aces = smoothcert.Aces("linear:score", "switches:core", NOISE, 0.4, "switches:select")
    aces.save(tmp_path / "aces")
    again = smoothcert.Aces.load(tmp_path / "aces")
    assert again.theta == 0.4 and smoothcert.Aces.load(tmp_path / "aces", theta=0.8).theta == 0.8
    assert again.certify(x[0], n=200) == aces.certify(x[0], n=200)
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "composite.json").read_bytes() == (tmp_path / "aces" / "composite.json").read_bytes()
    route = smoothcert.Route(
        [("linear:score", NOISE), ("switches:core", None)], "switches:select", smoothcert.Gaussian(0.5)
    )
    route.save(tmp_path / "route")
    assert smoothcert.Route.load(tmp_path / "route").certify(x[3], n=200) == route.certify(x[3], n=200)
    with pytest.raises(ModelError, match="must be a composition of kind aces; got route"):
        smoothcert.Aces.load(tmp_path / "route")
    with pytest.raises(ModelError, match="must be one network here; got a composition"):
        load(tmp_path / "aces")(x[:1])
    with pytest.raises(ModelError, match="must be one network here; got a composition"):
        smoothcert.Smoothed(load(tmp_path / "aces"), NOISE).certify(x[0], n=100)


def test_what_cannot_be_saved_or_loaded_is_said(tmp_path):
    with pytest.raises(ModelError, match="certify of a composition must be a folder, file or name to be saved"):
        smoothcert.Aces(linear.score, switches.core, NOISE).save(tmp_path / "a")
    with pytest.raises(OptionError, match="theta of aces must be one of"):
        smoothcert.Aces(linear.score, switches.core, NOISE, 0.305)
    with pytest.raises(ModelError, match="at least two branches; got 1"):
        smoothcert.Route([(linear.score, NOISE)], switches.select, NOISE)
    with pytest.raises(ModelError, match="must be the folder of a composition"):
        smoothcert.Aces.load(tmp_path)
    aces = smoothcert.Aces("linear:score", "switches:core", NOISE)
    aces.save(tmp_path / "a")
    with pytest.raises(smoothcert.SmoothcertError, match="got another composition"):
        smoothcert.Aces("linear:score", "switches:core", NOISE, 0.9).save(tmp_path / "a")
    path = tmp_path / "a" / "composite.json"
    table = json.loads(path.read_text())
    table["members"][1]["digest"] = "0" * 64
    path.write_text(json.dumps(table))
    with pytest.raises(ModelError, match=r"member switches:core of .* its hash differs"):
        smoothcert.Aces.load(tmp_path / "a")
    path.write_text("{")
    with pytest.raises(ModelError, match="must be JSON"):
        smoothcert.Aces.load(tmp_path / "a")


def test_a_route_is_asked_about_a_radius_as_on_the_command_line(x):
    route = smoothcert.Route([(linear.score, NOISE), (switches.core, NOISE)], switches.select, NOISE)
    found = route.certify_all(list(x[:20]), radius=0.05)
    assert {c.radius for c in found} <= {0.0, 0.05} and any(not c.abstained for c in found)
    with pytest.raises(OptionError, match="sampling of ACES must be fixed, without radius"):
        smoothcert.Aces(linear.score, switches.core, NOISE).certify(x[0], radius=0.05)
