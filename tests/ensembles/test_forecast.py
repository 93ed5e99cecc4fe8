"""Forecasts: probabilities exactly, the model on members made to fit it, then the command on real networks."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from ensemble_cases import Family, inputs_of, linear_network
from scipy.special import ndtr

from smoothcert.bounds import lower_bound, proven_radii
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Evidence, Stream
from smoothcert.ensembles.forecast import Forecast, probabilities
from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.ensembles.variance import (
    RIVALS,
    MarginSample,
    VarianceModel,
    distance,
    estimate,
    fit,
    least_p,
    missed,
    ratio,
    root_of,
    sample,
    work,
    zeta_by_input,
)
from smoothcert.errors import ModelError, OptionError
from smoothcert.noise.gaussian import Gaussian

NOISE = Gaussian(0.25)


def uniforms(*shape, seed=0):
    return 1 - np.random.default_rng(seed).random(shape)


# ---- the probability that all margins are positive


def test_one_rival_is_the_normal_distribution():
    means = np.linspace(-3, 5, 9)[:, None]
    assert missed(means, np.array([[2.0]]), uniforms(9, 1, 0)) == pytest.approx(ndtr(-means[:, 0] / 2), rel=1e-9)


def test_independent_rivals_multiply_also_far_out():
    means, scale = np.array([[4.5, 5.0, 5.5]]), np.diag([1.0, 1.1, 0.9])
    exact = -np.expm1(np.log1p(-ndtr(-means[0] / np.diag(scale))).sum())
    assert exact < 1e-5
    assert missed(means, scale, uniforms(1, 4, 2)) == pytest.approx([exact], rel=1e-9)


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.5, 0.95])
def test_two_correlated_rivals_have_the_arcsine_law(rho):
    root = root_of(np.array([[1.0, rho], [rho, 1.0]]))
    found = missed(np.zeros((1, 2)), root, uniforms(1, 40_000, 1))[0]
    exact = 0.75 - math.asin(rho) / (2 * math.pi)
    # One sample is in [½, 1]: its standard deviation is at most a quarter.
    assert found == pytest.approx(exact, abs=4 * 0.25 / 200)


def test_a_covariance_without_full_rank_has_a_root():
    for covariance in (np.ones((3, 3)), np.zeros((3, 3)), np.diag([1.0, 0.0, 2.0])):
        root = root_of(covariance)
        assert root @ root.T == pytest.approx(covariance, abs=1e-9)
    # Three rivals in one: the probability is that of one.
    found = missed(np.full((1, 3), 1.0), root_of(np.ones((3, 3))), uniforms(1, 500, 2))[0]
    assert found == pytest.approx(ndtr(-1.0), abs=1e-3)


# ---- the variance model


def test_the_ratio_is_the_variance_of_a_mean():
    for k, zeta in itertools.product((1, 2, 5, 50), (0.0, 0.3, 1.0)):
        joint = np.full((k, k), zeta) + (1 - zeta) * np.eye(k)
        assert ratio(zeta, k) == pytest.approx(joint.mean())


def family(inputs=60, zeta=0.6, clean=0.7, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    centre = np.sort(rng.normal(2.5, 1.5, (inputs, 1)) + rng.normal(0, 1.0, (inputs, 3)), axis=1)
    mix = np.array([[1.0, 0.0, 0.0], [0.5, 0.9, 0.0], [0.4, 0.2, 0.8]])
    return Family(centre, clean * mix, noise * mix, zeta)


def test_variances_of_the_vote_are_those_of_the_estimates_exactly():
    seen = family().sample(4, 30, np.random.default_rng(1))
    parts = estimate(seen)
    vote = seen.noisy.mean(axis=1)
    observed = np.stack([np.cov(one.T) for one in vote])
    assert (parts.noise + 3 * parts.shared) / 4 == pytest.approx(observed)
    assert parts.centre == pytest.approx(vote.mean(axis=1))
    spread = np.stack([np.cov(one.T) for one in seen.noisy.mean(axis=2)])
    assert parts.clean == pytest.approx(spread)


def test_estimates_come_out_as_the_members_were_made():
    inputs, members, draws = 60, 5, 300
    made = family(inputs)
    parts = estimate(made.sample(members, draws, np.random.default_rng(2)))
    sigma_p, sigma_c = made.noise_root @ made.noise_root.T, made.clean_root @ made.clean_root.T
    # A covariance entry from f degrees of freedom has standard deviation ≤ √(2/f) of the product of deviations.
    # Noise parts of members share ζ: count no more than one member's draws for them.
    size = np.sqrt(np.outer(np.diag(sigma_p), np.diag(sigma_p)))
    assert (np.abs(parts.noise.mean(axis=0) - sigma_p) <= 5 * math.sqrt(2 / (inputs * (draws - 1))) * size).all()
    # The mean of the draws leaves (1−ζ)Σ_p/draws in the clean part.
    expected = sigma_c + (1 - made.zeta) * sigma_p / draws
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(parts.clean.mean(axis=0) - expected) <= 5 * math.sqrt(2 / (inputs * (members - 1))) * size).all()
    # ζ is a ratio of two such averages.
    assert parts.zeta_p == pytest.approx(made.zeta, abs=5 * 2 * math.sqrt(2 / (inputs * (draws - 1))))
    deviation = np.sqrt(np.diag(sigma_c) / members + ratio(made.zeta, members) * np.diag(sigma_p) / draws)
    assert (np.abs(parts.centre - made.centre) <= 5 * deviation).all()


def test_what_members_share_at_an_input_cannot_be_seen_and_does_not_matter():
    # ζ_c = ½: half of each clean part's variance is common to all members. It moves c, and halves what is seen as Σ_c.
    rng = np.random.default_rng(3)
    inputs, members = 4000, 3
    common, own = rng.standard_normal((inputs, 1, 1)), rng.standard_normal((inputs, members, 1))
    clean = math.sqrt(0.5) * common + math.sqrt(0.5) * own
    parts = estimate(MarginSample(clean, np.repeat(clean[:, :, None], 2, axis=2)))
    assert float(parts.clean.mean()) == pytest.approx(0.5, abs=5 * 0.5 * math.sqrt(2 / (inputs * (members - 1))))
    shifted = estimate(MarginSample(clean + 7 * common, np.repeat((clean + 7 * common)[:, :, None], 2, axis=2)))
    assert shifted.clean == pytest.approx(parts.clean)


def test_the_clean_part_can_be_taken_at_the_point():
    seen = family(5).sample(3, 10, np.random.default_rng(4))
    moved = MarginSample(seen.clean, seen.noisy + 1.0)
    at_point, at_mean = estimate(moved, "point"), estimate(moved, "mean")
    assert at_point.centre == pytest.approx(seen.clean.mean(axis=1))
    assert at_mean.centre == pytest.approx(seen.noisy.mean(axis=(1, 2)) + 1.0)
    assert at_point.noise == pytest.approx(at_mean.noise)


def test_identical_members_promise_nothing_more():
    one = family(20).sample(1, 50, np.random.default_rng(5))
    same = one.of([0, 0, 0])
    parts = estimate(same)
    assert parts.zeta_p == pytest.approx(1.0) and np.abs(parts.apart).max() < 1e-12
    few, many = (probabilities(parts, size, 0) for size in (1, 50))
    assert few == pytest.approx(many, abs=1e-9)
    assert zeta_by_input(parts) == pytest.approx(1.0)


def test_members_that_noise_does_not_move_promise_certainty():
    still = MarginSample(np.full((2, 3, 2), 1.0), np.full((2, 3, 4, 2), 1.0))
    assert probabilities(estimate(still), 5, 0) == pytest.approx(1.0)
    assert distance(fit(still, estimate(still), "mean").noise) == 0.0


def test_independent_members_gain_as_the_root_of_their_number():
    inputs = 5
    centre = np.linspace(-1.0, 2.0, inputs)[:, None]
    parts = VarianceModel(centre, np.zeros((inputs, 3, 1)), np.full((inputs, 1, 1), 4.0), np.zeros((inputs, 1, 1)), 0.0)
    for size in (1, 4, 9):
        exact = ndtr(math.sqrt(size) * centre[:, 0] / 2)
        assert probabilities(parts, size, 0).mean(axis=1) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("size", [1, 5])
def test_the_forecast_is_what_fresh_members_bring(size):
    # Fitted to many members, so that c is known well; checked on ensembles of other members of the family.
    made, inputs, n, rounds = family(150), 150, 400, 20
    parts = estimate(made.sample(60, 60, np.random.default_rng(6)))
    told = probabilities(parts, size, 0).mean(axis=1)
    hits = np.stack([made.hits(size, n, np.random.default_rng(100 + i)) for i in range(rounds)])
    # Spread over rounds of the mean over inputs, and that of ENSEMBLES clean parts behind each forecast.
    error = math.sqrt(hits.mean(axis=1).std(ddof=1) ** 2 / rounds) / n
    error += math.sqrt((hits / n).var(axis=0, ddof=1).mean() / (32 * inputs))
    # What is left of c's error, √(Σ_c/60), moves p by at most the density at zero.
    error += 0.4 * math.sqrt(np.diag(parts.clean.mean(axis=0)).max() / 60 / inputs)
    assert told.mean() == pytest.approx(hits.mean() / n, abs=4 * error)
    radii = np.maximum(proven_radii(hits, n, 0.001, NOISE, 0), 0.0)
    forecast = Forecast((size,), n=n).outlooks(parts, n, NOISE, 1)[0]
    sd = radii.mean(axis=1).std(ddof=1) / math.sqrt(rounds) + radii.std(axis=0).mean() / math.sqrt(32 * inputs)
    assert forecast.certify.acr == pytest.approx(radii.mean(), abs=4 * sd + 0.02 * radii.mean())


def test_the_distribution_free_bound_is_chebyshevs_and_below_the_normal_one():
    parts = estimate(family(40).sample(4, 100, np.random.default_rng(7)))
    for size in (1, 3, 20):
        bound = least_p(parts, size)
        for i in range(40):
            variance = np.diag(parts.clean[i]) / size + ratio(parts.zeta_p, size) * np.diag(parts.noise[i])
            wins = (parts.centre[i] > 0).all()
            expected = max(0.0, 1 - (variance / parts.centre[i] ** 2).sum()) if wins else 0.0
            assert bound[i] == pytest.approx(expected)
        assert (bound <= probabilities(parts, size, 0).mean(axis=1) + 1e-3).all()


# ---- radii, and what is measured


def test_radii_are_those_of_certificates():
    hits, n, alpha = np.array([[0, 50, 61], [90, 99, 100]]), 100, 0.001
    radii = proven_radii(hits, n, alpha, NOISE, 0)
    for count, radius in zip(hits.ravel(), radii.ravel(), strict=True):
        low = lower_bound(int(count), n, alpha)
        proven = Evidence(0, ((int(count), n - int(count)),), n, low, 1 - low, alpha).certificate(NOISE, 4)
        assert max(radius, 0.0) == pytest.approx(proven.radius, abs=1e-12) and (radius < 0) == proven.abstained


def test_measured_is_the_count_of_every_ensemble():
    seen = family(30).sample(4, 80, np.random.default_rng(8))
    found = {entry.size: entry for entry in Forecast((1, 2, 4, 9), radii=(0.0, 0.1)).measured(seen, NOISE)}
    assert found.keys() == {1, 2, 4} and [found[k].ensembles for k in (1, 2, 4)] == [4, 6, 1]
    hits = (seen.noisy.mean(axis=1) > 0).all(axis=2).sum(axis=1)
    radii = np.maximum(proven_radii(hits, 80, 0.001, NOISE, 0), 0.0)
    assert found[4].p == pytest.approx(hits / 80)
    assert found[4].check.acr == pytest.approx(radii.mean())
    assert found[4].check.certified == pytest.approx({0.0: (radii > 0).mean(), 0.1: (radii >= 0.1).mean()})
    pairs = [(seen.noisy[:, list(s)].mean(axis=1) > 0).all(axis=2).mean() for s in itertools.combinations(range(4), 2)]
    assert found[2].p.mean() == pytest.approx(np.mean(pairs))
    low, high = found[1].acr_range
    assert low <= found[1].check.acr <= high


def test_many_members_are_put_together_by_chance_but_by_the_seed():
    seen = family(4).sample(12, 20, np.random.default_rng(9))
    first, again, other = (Forecast((6,), seed=seed).measured(seen, NOISE)[0] for seed in (0, 0, 1))
    assert first.ensembles == 30
    assert first.check == again.check and first.p.tolist() == again.p.tolist() != other.p.tolist()


def test_a_sample_holds_the_members_margins_under_the_same_noise():
    labels, draws, seed = [2, 0], 70, 4
    inputs = inputs_of(2, 5, labels, np.random.default_rng(0).random((2, 5)))
    members = [Module(linear_network(np.random.default_rng(i).standard_normal((3, 5)))) for i in (1, 2)]
    told = []
    seen = sample(members, HoldoutInputs(inputs, NOISE, seed, told.append), draws)
    assert sum(told) == work(2, 2, draws) and seen.noisy.shape == (2, 2, draws, 2) and seen.left_out == 0
    for position, label in enumerate(labels):
        x = torch.empty(draws, 5)
        NOISE.fill(x, inputs.tensor(position), Stream(seed, int(inputs.indices[position]), "forecast"), 0)
        scores = torch.stack([member(x) for member in members]).double().numpy()
        rivals = sorted((c for c in range(3) if c != label), key=lambda c: -scores[:, :, c].mean())
        assert seen.noisy[position] == pytest.approx(scores[:, :, [label]] - scores[:, :, rivals], abs=1e-5)
        clean = np.stack([member(inputs.tensor(position)[None])[0].double().numpy() for member in members])
        assert seen.clean[position] == pytest.approx(clean[:, [label]] - clean[:, rivals], abs=1e-5)
        wins = (SoftVote(tuple(members))(x).argmax(1) == label).sum()
        assert Forecast((2,)).measured(seen, NOISE)[0].p[position] == pytest.approx(int(wins) / draws)


def test_of_many_classes_the_nearest_rivals_are_kept():
    inputs = inputs_of(1, 30, [3], [np.linspace(0, 1, 30)])
    seen = sample([lambda x: x, lambda x: 2 * x], HoldoutInputs(inputs, Gaussian(0.01), 0, lambda rows: None), 3)
    assert seen.noisy.shape[3] == RIVALS and seen.left_out == 30 - 1 - RIVALS
    assert seen.clean[0, 0, 0] == pytest.approx(3 / 29 - 1.0, abs=1e-6)


# ---- the sheet and the command


def test_the_result_says_what_was_found_and_holds_the_model_against_members_it_has_not_seen():
    made = family(60)
    found = Forecast((1, 20), n=1000, fit=3).result(made.sample(5, 200, np.random.default_rng(10)), NOISE)
    said = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert [size["members"] for size in said["sizes"]] == [1, 3, 5, 20]
    assert said["fitted_to"] == 3 and said["members"] == 5
    assert said["zeta_p"] == pytest.approx(0.6, abs=0.05)
    by_size = {size["members"]: size for size in said["sizes"]}
    assert by_size[20]["measured"] is None and by_size[5]["measured"]["ensembles"] == 1
    assert by_size[3]["acr_gain"] == 0.0 and by_size[1]["acr_gain"] < 0.0 < by_size[20]["acr_gain"]
    assert said["noise_part_distance_to_normal"]["mean"] < 0.02
    values = 60 * 3 * 200
    assert said["noise_part_below_3_deviations"] == pytest.approx(0.00135, abs=5 * math.sqrt(3 * 0.00135 / values))
    told = by_size[5]["forecast_with_the_draws_of_the_sample"]["acr"]
    assert told == pytest.approx(by_size[5]["measured"]["acr"], rel=0.1)


def test_bad_input_is_refused_in_one_line():
    for options, text in (
        ({"sizes": ()}, "sizes of forecast must hold at least one number; got none"),
        ({"sizes": (0,)}, "sizes of forecast must be a positive whole number; got 0"),
        ({"n": 0}, "n of forecast must be a positive whole number; got 0"),
        ({"radii": (0.0, -1.0)}, "radii of forecast must be numbers of at least 0; got -1.0"),
        ({"radii": (math.nan,)}, "radii of forecast must be numbers of at least 0; got nan"),
        ({"alpha": 1.0}, "alpha of forecast must be between 0 and 1"),
        ({"clean": "median"}, "clean of forecast must be one of mean, point; got 'median'"),
    ):
        with pytest.raises(OptionError, match=text):
            Forecast(**options)
    with pytest.raises(OptionError, match="fit of forecast must be from 2 to the number of members, 3; got 4"):
        Forecast(fit=4).check_members(3)
    with pytest.raises(OptionError, match="members of forecast must be at least 2; got 1"):
        Forecast().check_members(1)
    inputs = inputs_of(1, 2, [0])
    with pytest.raises(OptionError, match="draws of forecast must be at least 2; got 1"):
        sample([lambda x: x] * 2, HoldoutInputs(inputs, NOISE, 0, lambda rows: None), 1)
    with pytest.raises(ModelError, match="scores of every member must be finite; got infinity"):
        sample([lambda x: x / 0] * 2, HoldoutInputs(inputs, NOISE, 0, lambda rows: None), 2)
    with pytest.raises(ModelError, match="must return scores for at least 2 classes; got one column"):
        sample([lambda x: x[:, :1]] * 2, HoldoutInputs(inputs, NOISE, 0, lambda rows: None), 2)


MEMBERS = """
import torch

def member(number):
    weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(number)) * 0.5
    weight[0] += 2.0
    weight[1] -= 2.0
    return lambda x: (x - 0.5) @ weight.T

a, b, c, d = map(member, range(4))
"""


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """Run `smoothcert ensemble forecast` in a folder with members and data; its output, or its one line of refusal."""
    from smoothcert.cli.main import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_members.py").write_text(MEMBERS)
    x = np.random.default_rng(0).random((12, 4), dtype=np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.where(x.mean(axis=1) > 0.5, 0, 1))

    def call(words, members="abcd", code=0):
        given = [f"made_members:{name}" for name in members]
        options = "--data data.npz --sigma 0.25 --draws 30 --n 1000 " + words
        assert run(["ensemble", "forecast", *given, *options.split()]) == code
        captured = capsys.readouterr()
        if code:
            assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("smoothcert: ")
            return captured.err
        return json.loads(captured.out) if "--json" in words else captured.out

    return call


def test_the_command_prints_a_table_json_and_pictures(command, tmp_path):
    said = command("--sizes 1,8 --fit 3 --json --out picture.svg")
    assert [size["members"] for size in said["sizes"]] == [1, 3, 4, 8] and said["inputs"] == 12
    assert 0.0 < said["zeta_p"] < 1.0
    made = {path.name for path in tmp_path.iterdir() if path.suffix in (".svg", ".png")}
    assert made == {f"picture{part}.{kind}" for part in ("", "-fit", "-maps") for kind in ("svg", "png")}
    text = command("--sizes 1,8 --fit 3")
    assert "model fitted to 3 of 4 members: 12 inputs, 30 draws each" in text and "gain over 3" in text
    assert said == command("--sizes 8,1 --fit 3 --json")
    assert said["zeta_p"] != command("--sizes 1,8 --fit 3 --json --seed 1")["zeta_p"]
    assert command("--start 1 --skip 2 --json")["inputs"] == 6


@pytest.mark.parametrize(
    ("words", "members", "line"),
    [
        ("", "a", "members of forecast must be at least 2; got 1"),
        ("--fit 5", "abcd", "fit of forecast must be from 2 to the number of members, 4; got 5"),
        ("--sizes 1,x", "abcd", "--sizes must be whole numbers with commas between; got '1,x'"),
        ("--sizes 0", "abcd", "sizes of forecast must be a positive whole number; got 0"),
        ("--sigma -1", "abcd", "sigma of gaussian must be a positive number"),
        ("--draws 1", "abcd", "draws of forecast must be at least 2; got 1"),
        ("--out picture.pdf", "abcd", "--out must be a file name that ends in .svg or .png; got 'picture.pdf'"),
        ("--clean raw", "abcd", "clean of forecast must be one of mean, point; got 'raw'"),
        ("--radii 0,z", "abcd", "--radii must be numbers with commas between; got '0,z'"),
        ("", ["a", "none"], "model must name a callable that can be imported"),
    ],
)
def test_the_command_refuses_nonsense_in_one_line(command, tmp_path, words, members, line):
    before = sorted(tmp_path.iterdir())
    assert line in command(words, members, code=2)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before
