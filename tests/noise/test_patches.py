"""Bands and blocks: what copies show, and their theorem by brute force: every image, every patch, every content."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from smoothcert.bounds import MARGIN
from smoothcert.contracts import EVERY, Source, Stream
from smoothcert.errors import DataError, OptionError
from smoothcert.noise import HIDDEN, sizes
from smoothcert.noise.band import Band
from smoothcert.noise.block import Block
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.testing import answer


class BandTooBold(Band):
    """With a Δ that is one too small."""

    def moved(self, radius):
        return max(0, super().moved(radius) - 1)


class BlockTooBold(Block):
    def moved(self, radius):
        return max(0, super().moved(radius) - 1)


def every(noise, x):
    """All copies of x, float32 [cases, *x.shape]."""
    noise = noise.fitted(x.shape)
    out = torch.empty(noise.cases, *x.shape)
    noise.fill(out, x, Stream(0, 0, EVERY), 0)
    return out


def test_a_band_shows_its_columns_and_wraps_around():
    x = torch.arange(24.0).view(2, 3, 4) / 24
    for place, copy in enumerate(every(Band(2), x)):
        shown = [place % 4, (place + 1) % 4]
        assert torch.equal(copy[:, :, shown], x[:, :, shown])
        assert (copy[:, :, [i for i in range(4) if i not in shown]] == HIDDEN).all()
    rows = every(Band(2, of="rows"), x)
    assert len(rows) == 3 and torch.equal(rows[2][:, [0, 2]], x[:, [0, 2]]) and (rows[2][:, 1] == HIDDEN).all()


def test_a_block_shows_a_square_and_wraps_around_both_ways():
    x = torch.arange(12.0).view(1, 3, 4) / 12
    copies = every(Block(2), x)
    for place, (top, left) in enumerate(itertools.product(range(3), range(4))):
        wanted = torch.full_like(x, HIDDEN)
        for row, column in itertools.product((top, (top + 1) % 3), (left, (left + 1) % 4)):
            wanted[0, row, column] = x[0, row, column]
        assert torch.equal(copies[place], wanted)


@pytest.mark.parametrize("noise", [Band(2), Band(3, of="rows"), Block(2)], ids=str)
def test_other_streams_draw_every_place_equally_often(noise):
    x = torch.linspace(0, 1, 20).view(1, 4, 5)
    cases = {tuple(copy.ravel().tolist()): place for place, copy in enumerate(every(noise, x))}
    out = torch.empty(4000, *x.shape)
    noise.fill(out, x, Stream(0, 0, "test"), 0)
    found = np.bincount([cases[tuple(copy.ravel().tolist())] for copy in out], minlength=len(cases))
    assert chisquare(found).pvalue > 1e-3  # seed fixed


def images(rows, columns):
    """Every black-and-white image: float32 [2^pixels, 1, rows, columns], number i having the bits of i."""
    bits = np.arange(2 ** (rows * columns))[:, None] >> np.arange(rows * columns) & 1
    return torch.from_numpy(bits.astype(np.float32)).view(-1, 1, rows, columns)


def networks(pixels):
    """Linear maps to three classes: some with weights at random, others count the bright pixels that are shown."""
    for seed in range(3):
        made = torch.Generator().manual_seed(seed)
        weight, bias = torch.randn(3, pixels, generator=made), torch.randn(3, generator=made)
        yield lambda copies, w=weight, b=bias: copies.flatten(1).clamp_min(0) @ w.T + b
    for least, (dark, bright) in itertools.product((0.5, 1.5, 2.5), ((0, 1), (1, 0))):
        weight, bias = torch.zeros(3, pixels), torch.full((3,), -9.0)
        weight[bright], bias[dark], bias[bright] = 1.0, least, 0.0
        yield lambda copies, w=weight, b=bias: copies.flatten(1).clamp_min(0) @ w.T + b


def top(scores):
    return torch.nn.functional.one_hot(scores.argmax(dim=1), scores.shape[1])


def counts(noise, xs, net, vote=top):
    """Votes of each class for every image: int64 [images, classes]."""
    shown = every(noise, torch.ones(xs.shape[1:])) != HIDDEN
    return sum(vote(net(torch.where(case, xs, HIDDEN))).long() for case in shown).numpy()


def certificates(noise, votes, scheme=Exhaustive()):  # noqa: B008
    """Label and radius of every image, by the procedure itself; each distinct count once."""
    distinct, places = np.unique(votes, axis=0, return_inverse=True)
    source, procedure = Source(lambda x: x, noise), Certify(sampling=scheme)

    def told(row):
        return row[None] if scheme.threshold is None else np.stack([noise.cases - row, row], axis=1)

    found = [answer(procedure(source, 0), lambda draw, row=row: told(row)) for row in distinct]
    label, radius = (np.array([getattr(one, name) for one in found]) for name in ("label", "radius"))
    return label[places.ravel()], radius[places.ravel()]


def patches(rows, columns, height, width):
    """The pixels of a patch at every place, those that wrap around included; as bits."""
    for top, left in itertools.product(range(rows), range(columns)):
        place = itertools.product(range(top, top + height), range(left, left + width))
        yield {1 << (row % rows * columns + column % columns) for row, column in place}


def broken(noise, label, radius, r):
    """Of all images certified at r, all patches of that size, all black-and-white contents: how many change a label."""
    rows, columns = noise.image
    held = np.flatnonzero(radius >= r)
    found = 0
    for pixels in patches(rows, columns, min(rows, r * noise.patch[0]), min(columns, r * noise.patch[1])):
        for chosen in itertools.chain.from_iterable(itertools.combinations(pixels, k) for k in range(len(pixels) + 1)):
            moved = held & ~sum(pixels) | sum(chosen)
            found += int((label[moved] != label[held]).sum())
    return found, len(held)


SMALL = [
    (Band, {"width": 1, "image": (1, 8)}, BandTooBold),
    (Band, {"width": 2, "image": (1, 9)}, BandTooBold),
    (Band, {"width": 1, "image": (2, 5)}, BandTooBold),
    (Band, {"width": 1, "of": "rows", "image": (6, 2), "patch": (2, 1)}, BandTooBold),
    (Band, {"width": 1, "image": (2, 6), "patch": (1, 2)}, BandTooBold),
    (Block, {"side": 1, "image": (3, 4)}, BlockTooBold),
    (Block, {"side": 1, "image": (3, 4), "patch": (1, 2)}, BlockTooBold),
    (Block, {"side": 1, "image": (2, 5), "patch": (2, 1)}, BlockTooBold),
    (Block, {"side": 2, "image": (3, 4)}, BlockTooBold),
]


@pytest.mark.parametrize(("kind", "options", "bold"), SMALL, ids=str)
def test_no_patch_of_a_certified_size_changes_a_label_and_with_a_smaller_delta_some_do(kind, options, bold):
    noise, weaker = kind(**options), bold(**options)
    xs, proven, wrong = images(*noise.image), 0, 0
    for net in networks(xs[0].numel()):
        votes = counts(noise, xs, net)
        label, radius = certificates(noise, votes)
        for r in range(1, int(radius.max()) + 1):
            found, held = broken(noise, label, radius, r)
            assert found == 0
            proven += held
        label, radius = certificates(weaker, votes)
        wrong += sum(broken(weaker, label, radius, r)[0] for r in range(1, int(radius.max()) + 1))
    assert proven > 20 and wrong > 0


@pytest.mark.parametrize(("kind", "options", "bold"), [SMALL[0], SMALL[-1]], ids=str)
def test_votes_above_a_threshold_keep_the_rule(kind, options, bold):
    """A copy may vote for two classes, or for none."""
    noise, weaker = kind(**options), bold(**options)
    xs, proven, wrong, cast = images(*noise.image), 0, 0, set()
    schemes = [Exhaustive(threshold=0.3), Exhaustive(threshold=0.6)]
    for net, scheme in itertools.product(networks(xs[0].numel()), schemes):
        votes = counts(noise, xs, net, lambda scores, scheme=scheme: scheme.readout(scores).bool())
        cast |= set(votes.sum(axis=1).tolist())
        label, radius = certificates(noise, votes, scheme)
        found = [broken(noise, label, radius, r) for r in range(1, int(radius.max()) + 1)]
        assert sum(changed for changed, _ in found) == 0
        proven += sum(held for _, held in found)
        label, radius = certificates(weaker, votes, scheme)
        wrong += sum(broken(weaker, label, radius, r)[0] for r in range(1, int(radius.max()) + 1))
    assert proven > 20 and wrong > 0
    assert min(cast) < noise.cases < max(cast)


def met(noise, height, width):
    """The most copies that a patch of this size changes, by trying it everywhere; it lies inside the image."""
    rows, columns = noise.image
    black, most = torch.zeros(1, rows, columns), 0
    before = every(noise, black)
    for top, left in itertools.product(range(rows - height + 1), range(columns - width + 1)):
        x = black.clone()
        x[:, top : top + height, left : left + width] = 1.0
        most = max(most, int((every(noise, x) != before).flatten(1).any(dim=1).sum()))
    return most


@pytest.mark.parametrize("image", [(5, 7), (7, 5), (6, 6), (1, 9)])
def test_delta_is_what_a_patch_of_any_shape_changes_at_most(image):
    sizes_ = range(1, min(image) + 1)
    noises = [Band(s, of=of, image=image) for of in ("columns", "rows") for s in sizes_]
    noises += [Block(s, image=image) for s in sizes_]
    for noise in noises:
        for height, width in itertools.product(range(1, image[0] + 1), range(1, image[1] + 1)):
            other = type(noise)(**{**vars(noise), "patch": (height, width)})
            assert other.moved(1) == met(noise, height, width)
            assert other.moved(0) == 0


@pytest.mark.parametrize("noise", [Band(4, image=(32, 32)), Block(12, image=(32, 32)), Block(3, image=(9, 7))], ids=str)
def test_radii_of_counts_are_those_of_the_rule(noise):
    hits = torch.arange(noise.cases + 1, dtype=torch.float64)
    found = noise.radius(hits / noise.cases, (noise.cases - hits) / noise.cases, 1).tolist()
    for k, radius in enumerate(found):
        lead = 2 * k - noise.cases
        fits = [m for m in range(33) if lead >= 2 * noise.moved(m)]
        assert radius == (max(fits) if lead >= 0 else -1)


@pytest.mark.parametrize("noise", [Band(2, image=(8, 1000)), Block(5, image=(50, 60))], ids=str)
def test_a_bound_that_was_rounded_down_never_gains_a_pixel(noise):
    for m in (1, 2, 10):
        exact = 0.5 + noise.moved(m) / noise.cases
        low = torch.tensor(exact * (1 - MARGIN), dtype=torch.float64)
        assert float(noise.radius(low, 1 - low, 1)) == m - 1
        enough = torch.tensor(noise.p_needed(m, 1), dtype=torch.float64)
        assert float(noise.radius(enough, 1 - enough, 1)) == m and float(enough) == pytest.approx(exact, rel=1e-14)


def test_a_noise_is_fitted_to_images_once_and_stays():
    noise = Band(4)
    assert not noise.complete and noise.cases is None and noise.words == "band noise, 4 columns shown"
    fitted = noise.fitted((3, 32, 28))
    assert fitted == Band(4, image=(32, 28)) and fitted.complete and fitted.cases == 28
    assert fitted.words == "band noise, 4 columns shown of 28" and fitted.fitted((1, 32, 28)) is fitted
    assert Block(12, image="32x28").words == "block noise, 12 × 12 pixels shown of 32 × 28"
    assert Block(12, patch=[3, 7]).patch == (3, 7) and Band(1, of="rows", image=(9, 4)).cases == 9


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Band(0), OptionError, "width of band must be a whole number of at least 1; got 0"),
        (lambda: Band(2.5), OptionError, "width of band must be a whole number"),
        (lambda: Band(4, of="both"), OptionError, "of of band must be one of columns, rows; got 'both'"),
        (lambda: Band(9, image=(8, 8)), OptionError, "width of band must be at most 8, the columns of an image; got 9"),
        (lambda: Block(True), OptionError, "side of block must be a whole number of at least 1; got True"),
        (lambda: Block(5).fitted((3, 4, 9)), OptionError, "side of block must be at most 4, the shorter side"),
        (lambda: Block(1, image=(2**20, 2**20)), OptionError, "image of block must have at most 4194304 places"),
        (lambda: Block(1, patch="3x"), OptionError, "patch of block must be rows x columns, .*, as in 3x7; got 3x"),
        (lambda: Block(1, patch=(0, 1)), OptionError, "patch of block must be rows x columns"),
        (lambda: Block(1, patch=(1, 2, 3)), OptionError, "patch of block must be rows x columns"),
        (lambda: Band(4).p_needed(1, 3), OptionError, "image of band must be known: rows and columns of the inputs"),
        (lambda: Band(4).fitted((64,)), DataError, r"inputs of band must be images .*; got shape \[64\]"),
        (
            lambda: Band(4, image=(8, 8)).fitted((1, 9, 8)),
            DataError,
            "inputs of band must be images of 8 × 8 pixels; got 9 × 8",
        ),
        (lambda: every(Band(4, image=(8, 8)), torch.zeros(1, 9, 8)), DataError, "must be images of 8 × 8 pixels"),
    ],
)
def test_what_cannot_be_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_sizes_are_read_however_they_are_written():
    assert sizes("3x7", "patch") == sizes((3, 7), "patch") == sizes([3, 7], "patch") == (3, 7)
    assert sizes(5, "patch") == (5, 5)
