"""Every vote: its algebra, its ties, and that a row's scores are its own."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import smoothcert
from smoothcert import catalog
from smoothcert.classifiers import ready, wrap
from smoothcert.classifiers.onnx import Onnx
from smoothcert.ensembles import Vote
from smoothcert.ensembles.early_exit import EarlyExit
from smoothcert.ensembles.hard_vote import HardVote
from smoothcert.ensembles.k_consensus import KConsensus
from smoothcert.ensembles.max_margin import MaxMargin
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.ensembles.spec import Ensemble
from smoothcert.ensembles.weighted_vote import WeightedVote
from smoothcert.errors import ModelError, OptionError

CLASSES = 4


class Fixed:
    """A member with known scores: the input is the number of a row of its table; it keeps what it was asked."""

    def __init__(self, table):
        self.table = torch.tensor(table, dtype=torch.float32)
        self.asked = []

    def __call__(self, x):
        rows = x[:, 0].long()
        self.asked.append(rows.tolist())
        return self.table[rows]


def rows(number):
    return torch.arange(number, dtype=torch.float32)[:, None]


def random_members(count, number=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [Fixed((3 * torch.randn(number, CLASSES, generator=generator)).tolist()) for _ in range(count)]


def everything(members):
    """One of each kind around the same members."""
    k = len(members)
    weights = [2 * (k - i) / (k * (k + 1)) for i in range(k)]
    plain = [SoftVote(members), SoftVote(members, "softmax"), WeightedVote(members, weights),
             WeightedVote(members, weights, "scores"), HardVote(members), MaxMargin(members)]  # fmt: skip
    partial = [KConsensus(vote, 2) for vote in plain] + [EarlyExit(vote, 0.9) for vote in plain[:4]]
    return plain + partial


def test_every_vote_is_a_frozen_dataclass_found_by_its_file():
    names = ("soft_vote", "weighted_vote", "hard_vote", "max_margin", "k_consensus", "early_exit")
    found = {name: catalog.find("ensembles", name)[0] for name in names}
    for part in found.values():
        assert dataclasses.is_dataclass(part) and part.__dataclass_params__.frozen and part.__doc__
    assert [name for name, part in found.items() if issubclass(part, Vote)] == list(found)[:4]


def test_a_vote_of_equal_members_is_the_member_to_the_last_bit():
    (member,) = random_members(1)
    x = rows(200)
    for count in (1, 2, 3, 5, 7):
        assert torch.equal(SoftVote([member] * count)(x), member(x))
        assert torch.equal(MaxMargin([member] * count)(x), member(x))
        assert torch.equal(SoftVote([member] * count, "softmax")(x), SoftVote([member], "softmax")(x))
        assert torch.equal(HardVote([member] * count)(x), nn.functional.one_hot(member(x).argmax(1), CLASSES).float())
        uneven = [0.5, *[0.5 / (count - 1)] * (count - 1)] if count > 1 else [1.0]
        assert torch.equal(WeightedVote([member] * count, uneven, "scores")(x), member(x))


def test_means_are_the_means():
    members, x = random_members(3), rows(200)
    scores = torch.stack([member(x) for member in members]).double()
    shares, weights = scores.softmax(2), torch.tensor([0.5, 0.3, 0.2]).double()
    cases = [
        (SoftVote(members), scores.mean(0)),
        (SoftVote(members, "softmax"), shares.mean(0)),
        (WeightedVote(members, weights), torch.einsum("k,kbc->bc", weights, shares)),
        (WeightedVote(members, weights, "scores"), torch.einsum("k,kbc->bc", weights, scores)),
    ]
    for vote, expected in cases:
        assert vote(x).dtype == torch.float32
        assert float((vote(x) - expected).abs().max()) <= 2**-24 * float(expected.abs().max()) * 2  # one rounding


def test_hard_ties_go_to_the_higher_mean_score_then_to_the_lower_class():
    # Rows: a clear majority; a tie broken by the mean; the same the other way; a tie in the mean too; a tie of three
    # with a class in between that has a higher mean but fewer votes; infinite scores.
    a = [[5, 0, 0, 0], [3, 0, 0, 0], [1, 0, 0, 0], [0, 2, 0, 0], [9, 8, 0, 0], [-9, 0, -torch.inf, -9]]
    b = [[4, 0, 0, 0], [0, 2, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 8, 9, 0], [-9, -torch.inf, 0, -9]]
    vote = HardVote([Fixed(a), Fixed(b)])
    scores = vote(rows(6))
    assert scores.argmax(1).tolist() == [0, 0, 1, 1, 0, 1]
    assert scores[0].tolist() == [1, 0, 0, 0] and scores[1].tolist() == [0.75, 0.5, 0, 0]
    three = HardVote([Fixed(a), Fixed(b), Fixed([[0, 1, 0, 0]] * 6)])(rows(6))
    assert three[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert three.argmax(1).tolist() == [0, 1, 1, 1, 1, 1]


def test_the_winner_of_a_hard_vote_does_not_depend_on_the_order_of_members():
    members, x = random_members(4), rows(200)
    forward, backward = HardVote(members)(x), HardVote(members[::-1])(x)
    assert torch.equal(forward.argmax(1), backward.argmax(1))
    votes = torch.stack([member(x).argmax(1) for member in members])
    most = torch.stack([torch.bincount(column, minlength=CLASSES).max() for column in votes.T])
    chosen = torch.stack([(column == winner).sum() for column, winner in zip(votes.T, forward.argmax(1), strict=True)])
    assert torch.equal(chosen, most)


def test_the_surest_member_answers():
    sure, torn = Fixed([[9, 0, 0, 0], [2, 1, 0, 0]]), Fixed([[0, 5, 4.9, 0], [0, 0, 30, 0]])
    scores = MaxMargin([torn, sure])(rows(2))
    assert scores.tolist() == [[9, 0, 0, 0], [0, 0, 30, 0]]
    with pytest.raises(ModelError, match="at least 2 classes; got one column"):
        MaxMargin([Fixed([[1.0]]), Fixed([[2.0]])])(rows(1))


def test_consensus_of_all_members_is_the_full_vote():
    members, x = random_members(3), rows(200)
    for vote in everything(members)[:6]:
        assert torch.equal(KConsensus(vote, 3)(x), vote(x))


def test_early_exit_that_is_never_sure_is_the_full_vote():
    members, x = random_members(3), rows(200)
    for vote in everything(members)[:4]:
        assert torch.equal(EarlyExit(vote, threshold=1.0, level=0.0)(x), vote(x))
    twins = SoftVote([members[0]] * 3, "softmax")  # no spread at all: ∞·0
    never = EarlyExit(twins, threshold=1.0, level=0.0)
    assert torch.equal(never(x), twins(x)) and never.tally.asked == 600 and never.tally.early == 0


def test_consensus_asks_the_others_about_undecided_rows_only():
    agree, differ = [5, 0, 0, 0], [0, 5, 0, 0]
    one = Fixed([agree] * 5)
    two = Fixed([agree, differ, agree, differ, differ])
    three, four = Fixed([differ] * 5), Fixed([[0, 0, 1, 0]] * 5)
    vote = KConsensus(SoftVote([one, two, three, four]), 2, rows_a_call=None)
    scores = vote(rows(5))
    assert (one.asked, two.asked) == ([[0, 1, 2, 3, 4]],) * 2
    assert (three.asked, four.asked) == ([[1, 3, 4]],) * 2
    assert (vote.tally.rows, vote.tally.asked, vote.tally.early) == (5, 5 + 5 + 3 + 3, 2)
    assert scores[0].tolist() == agree and scores[1].tolist() == [1.25, 2.5, 0.25, 0]
    vote(rows(5)[[0, 2]])
    assert len(three.asked) == 1 and vote.tally.asked == 16 + 4  # nobody undecided: nobody asked


def test_the_first_alone_is_consensus_of_one():
    members = random_members(3)
    vote = KConsensus(SoftVote(members), 1)
    assert torch.equal(vote(rows(200)), members[0](rows(200))) and members[1].asked == []


def test_early_exit_stops_by_the_published_rule():
    """Row by row, by the formulas of METHODS section 4 written out once more."""
    members, x = random_members(4), rows(200)
    weights = [0.4, 0.3, 0.2, 0.1]
    vote = EarlyExit(WeightedVote(members, weights), threshold=0.9, level=0.3, rows_a_call=None)
    z = 1.0364333894937898  # Φ⁻¹(0.85)
    shares = torch.stack([member(x) for member in members]).double().softmax(2)
    w = torch.tensor(weights).double()
    expected, asked = [], []
    for row in range(200):
        for i in range(1, 5):
            p, v = shares[:i, row], w[:i]
            mean = (v[:, None] * p).sum(0) / v.sum()
            top, c = mean.max(0)
            width = (v**2).sum().sqrt() / v.sum() * ((v * (p[:, c] - top) ** 2).sum() / v.sum()).sqrt()
            if i == 4 or (i == 1 and top > 0.9) or (i > 1 and top > 0.5 + z * width):
                break
        expected.append(mean)
        asked.append(i)
    assert torch.allclose(vote(x).double(), torch.stack(expected), atol=1e-7)
    assert set(asked) == {1, 2, 3, 4}
    assert (vote.tally.rows, vote.tally.asked) == (200, sum(asked))
    assert vote.tally.early == sum(number < 4 for number in asked)
    later = [sorted(member.asked[-1]) for member in members[1:]]
    assert later == [[row for row in range(200) if asked[row] > i] for i in (1, 2, 3)]


@pytest.mark.parametrize("number", range(16))
def test_a_row_has_the_same_scores_in_any_batch(number):
    """Members of fixed tables cannot depend on their batch, so what differs would be the vote's own doing."""
    vote = everything(random_members(5))[number]
    x = rows(200)
    whole = vote(x)
    for size in (1, 7, 64):
        assert torch.equal(torch.cat([vote(part) for part in x.split(size)]), whole)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    assert torch.equal(vote(x[order]), whole[order])


class Touchy:
    """A member whose last bits show how many rows it is called with, as a matrix product's do."""

    def __init__(self, seed):
        self.weight = torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(seed))
        self.sizes = set()

    def __call__(self, x):
        self.sizes.add(len(x))
        return (x @ self.weight) * (1 + 1e-6 * len(x))


def test_later_members_that_mind_the_number_of_rows_are_always_called_with_the_same():
    first, second, third = Touchy(0), Touchy(1), Touchy(2)
    x = torch.rand(256, 6, generator=torch.Generator().manual_seed(3))
    for make in (lambda vote: KConsensus(vote, 2), lambda vote: EarlyExit(vote, 0.6)):
        vote = ready(make(SoftVote([wrap(first), wrap(second), wrap(third)])), x[0]).classifier
        assert vote.rows_a_call == 16
        third.sizes.clear()
        whole = vote(x)
        assert third.sizes == {16}
        early = [in_a_batch_of_its_own(vote, row) for row in x]
        decided, undecided = x[early.index(True)], early.index(False)
        # At the same outer size a row's scores are its own, however many of its mates are undecided too.
        for row in (undecided, 100, 255):
            for mates in (decided.expand(255, 6), x[undecided].expand(255, 6)):
                assert torch.equal(vote(torch.cat([mates, x[row : row + 1]]))[255], whole[row])


def in_a_batch_of_its_own(vote, row):
    """Whether a row does without some members."""
    before = vote.tally.early
    vote(row.expand(256, 6))
    return vote.tally.early > before


def test_members_that_do_not_mind_are_called_with_as_many_rows_as_are_left():
    members = [wrap(member) for member in random_members(3, number=2)]
    vote = ready(KConsensus(SoftVote(members), 2), torch.zeros(1)).classifier
    assert vote.rows_a_call is None


def test_exported_networks_in_batches_of_any_size():
    """Real networks on ONNX Runtime: bit-equal rows under batches 1, 7, 64 and other batch mates."""
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval() for _ in range(3)]
    for network in networks:
        network[3].weight.data *= 20  # sure of itself, as a trained one
    x = torch.rand(128, 1, 8, 8)
    first = ready(KConsensus(SoftVote([wrap(network) for network in networks]), 2), x[0])
    assert first.engine == "onnxruntime" and isinstance(first.classifier.members[2], Onnx)
    exits = EarlyExit(SoftVote(first.classifier.members, "softmax"))
    for vote in (first.classifier, ready(exits, x[0]).classifier):
        assert vote.rows_a_call is None
        whole = vote(x)
        assert 0 < vote.tally.early < 128
        for size in (1, 7, 64):
            assert torch.equal(torch.cat([vote(part) for part in x.split(size)]), whole)
        order = torch.randperm(128)
        assert torch.equal(vote(x[order]), whole[order])


def test_nested():
    members, x = random_members(4), rows(200)
    inner = Ensemble(members[:2], vote="softmax")
    outer = Ensemble([inner, Ensemble(members[2:], vote="softmax")])
    assert torch.allclose(outer(x), SoftVote(members, "softmax")(x), atol=1e-7)
    consensus = Ensemble([Ensemble(members, consensus=2), members[0]], vote="max_margin")
    assert consensus(x).shape == (200, CLASSES)
    prepared = ready(outer, torch.zeros(1)).classifier
    assert torch.equal(prepared(x), outer(x))


def test_ensemble_is_public_and_takes_what_wrap_takes():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    together = smoothcert.Ensemble([network, lambda x: network(x).detach().numpy(), smoothcert.Ensemble([network])])
    x = torch.rand(5, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(together(x), network(x), atol=1e-6)
    smoothed = smoothcert.Smoothed(smoothcert.Ensemble([network, network], consensus=1), smoothcert.Gaussian(0.25))
    alone = smoothcert.Smoothed(network, smoothcert.Gaussian(0.25))
    assert smoothed.certify(x[0], n=1000).radius == alone.certify(x[0], n=1000).radius
    with pytest.raises(ModelError, match="must be in eval mode"):
        smoothcert.Ensemble([nn.Linear(2, 2)])


def test_short_names_and_weights():
    members = random_members(2)
    kinds = {"soft": SoftVote, "softmax": SoftVote, "hard": HardVote, "max_margin": MaxMargin}
    for vote, kind in kinds.items():
        assert type(Ensemble(members, vote=vote)) is kind
    assert Ensemble(members, "soft", [0.3, 0.7]).values == "scores"
    assert Ensemble(members, "softmax").values == Ensemble(members, "softmax", [0.3, 0.7]).values == "softmax"
    assert Ensemble(members, "weighted", [0.3, 0.7]).values == "softmax"
    exiting = Ensemble(members, "weighted", [0.3, 0.7], early_exit={"threshold": 0.5})
    assert exiting.vote.weights == (0.7, 0.3) and exiting.threshold == 0.5
    assert [member.function for member in exiting.members] == members[::-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": []}, "members of an ensemble must be at least one; got none"),
        ({"vote": "sfot"}, r"vote of an ensemble must be one of hard, max_margin, soft, softmax, weighted; got 'sfot'"),
        ({"vote": "k_consensus"}, "vote of an ensemble must be one of"),
        ({"vote": "holdout"}, "vote of an ensemble must be one of"),
        ({"vote": "weighted"}, "weights of weighted_vote must be given; got none"),
        ({"vote": "hard", "weights": [0.5, 0.5]}, "weights .* need the vote soft, softmax or weighted; got hard"),
        ({"weights": [0.5, 0.6]}, "weights of an ensemble must be finite, with sum 1; got 0.5, 0.6"),
        ({"vote": "weighted", "weights": [1.5, -0.5]}, "weights of an ensemble must be 0 or more"),
        ({"vote": "softmax", "weights": [1.5, -0.5]}, "weights of an ensemble must be 0 or more"),
        ({"weights": [1.5, -0.5], "consensus": 1}, "weights inside k_consensus must be 0 or more; got -0.5"),
        ({"weights": [1.5, -0.5], "early_exit": True}, "0 or more|must be a mean of probabilities"),
        ({"weights": [float("nan"), 1.0]}, "weights of an ensemble must be finite"),
        ({"weights": [1.0]}, "weights of an ensemble must be one for each of its 2 members; got 1"),
        ({"weights": torch.full((7, 2), 0.5)}, "the same for every input; got another thing .*no certificate covers"),
        ({"weights": lambda x: x}, "the same for every input; got another thing"),
        ({"consensus": 0}, "k of k_consensus must be a whole number from 1 to the 2 members; got 0"),
        ({"consensus": 3}, "k of k_consensus must be a whole number from 1 to the 2 members; got 3"),
        ({"consensus": 1, "weights": [0.0, 1.0]}, "weights of the first 1 members of k_consensus must not all be 0"),
        ({"consensus": 2, "early_exit": True}, "must have one of consensus and early_exit; got both"),
        ({"vote": "hard", "early_exit": True}, "vote inside early_exit must be a mean.*got hard_vote"),
        ({"early_exit": {"threshold": 1.5}}, "threshold of early_exit must be from 0 to 1; got 1.5"),
        ({"early_exit": {"level": -0.1}}, "level of early_exit must be from 0 to 1; got -0.1"),
        ({"early_exit": {"z": 2}}, "option of early_exit must be one of"),
        ({"members": [3]}, "a fitted estimator or a callable; got int"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises((OptionError, ModelError), match=message):
        Ensemble(**{"members": random_members(2), **options})


def test_direct_use_is_refused_too():
    members = random_members(2)
    with pytest.raises(OptionError, match="in order of falling weight"):
        EarlyExit(WeightedVote(members, [0.3, 0.7]))
    with pytest.raises(OptionError, match="must be a plain vote; got KConsensus"):
        KConsensus(KConsensus(SoftVote(members), 1), 1)
    with pytest.raises(OptionError, match="values of weighted_vote must be one of"):
        WeightedVote(members, [0.3, 0.7], "logits")


def test_members_that_do_not_go_together_are_named_when_asked():
    two, four = Fixed([[1, 0]] * 3), Fixed([[1, 0, 0, 0]] * 3)
    with pytest.raises(ModelError, match=r"members of an ensemble must have the same classes; got \[2, 4\] of them"):
        SoftVote([two, four])(rows(3))
    other = Fixed([[0, 1]] * 3)
    with pytest.raises(ModelError, match="must have the same classes"):
        KConsensus(SoftVote([two, other, four]), 2)(rows(3))


def test_no_vote_hides_that_a_member_gave_no_number():
    """An argmax would, or a member that is not the surest; the rows of others stay what they are."""
    good, bad = Fixed([[2, 1], [0, 3], [1, 0]]), Fixed([[0, 1], [float("nan"), 9], [0, 1]])
    votes = [kind([good, bad]) for kind in (SoftVote, HardVote, MaxMargin)]
    votes += [WeightedVote([good, bad], [0.9, 0.1]), WeightedVote([good, bad], [1.0, 0.0])]
    for vote in [*votes, KConsensus(votes[1], 2), KConsensus(votes[0], 1), EarlyExit(SoftVote([bad, good]))]:
        asked = [False, not isinstance(vote, KConsensus) or vote.k == 2, False]  # k = 1 never asks the second
        assert vote(rows(3)).isnan().any(1).tolist() == asked, vote
