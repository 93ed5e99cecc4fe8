"""The side that draws: answers that are right, on time, kept and checkable; one engine for all requests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time

import islands
import linear
import numpy as np
import pytest
import slow_model
import stripes
import torch

from smoothcert.classifiers import composite
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.memory import Memory
from smoothcert.noise.band import Band
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.preparation.per_input_sigma import PerInputSigma
from smoothcert.report.certificate import with_words
from smoothcert.runs.certificate import read_document, verify_document
from smoothcert.runs.verify import Places
from smoothcert.server import evidence, secret
from smoothcert.server import service as service_module
from smoothcert.server.evidence import open_evidence
from smoothcert.server.offer import DefaultQuestion, make_offer, two_digits
from smoothcert.server.service import Service
from smoothcert.server.values import InferRequest, RequestError, ServiceLimits

WITHIN = 30  # seconds, in which anything must have been answered
names = itertools.count()


@contextlib.asynccontextmanager
async def serving(folder, model="linear:score", noise=None, shape=(4,), limits=None, memory=None, **options):
    noise = Gaussian(0.25) if noise is None else noise
    offer = make_offer(model, noise or None, shape, options.pop("default", None), **options)
    opened = None if memory is None else opener(memory, offer)
    with secret.held(folder / "state") as held:
        store = open_evidence(str(folder / "evidence.sqlite"))
        service = Service(offer, held, store, limits or ServiceLimits(), opened)
        service.start()
        try:
            yield service
        finally:
            slow_model.GATE.set()
            await asyncio.wait_for(service.close(), WITHIN)


def opener(place, offer):
    def opened():
        spec = offer.template
        Memory.make(place, spec.model_digest, spec.norm, spec.shape)
        return Memory.open(place)

    return opened


def ask(x, **options):
    return InferRequest(options.pop("id", f"r{next(names)}"), torch.as_tensor(x, dtype=torch.float32), **options)


def one(service, x, **options):
    return asyncio.wait_for(service.answer(ask(torch.as_tensor(x)[None], **options)), WITHIN)


def points(number, seed=0, dim=4):
    return torch.rand(number, dim, generator=torch.Generator().manual_seed(seed))


def kept(service, answer, folder, key=""):
    """The document of an answer, as a file."""
    path = folder / f"{answer.certificate}.json"
    path.write_text(json.dumps(service.document(answer.certificate, key)))
    return path


def checked(path, **places):
    return verify_document(read_document(path), Places(**places), words=with_words)


def run(main):
    asyncio.run(main())


def test_radii_are_never_those_that_a_linear_classifier_lacks(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            xs = points(24)
            answers = await asyncio.wait_for(service.answer(ask(xs, n=2000, alpha=1e-9)), WITHIN)  # nobody is unlucky
            true = linear.margin(xs).abs()
            assert [a.radius < float(r) for a, r in zip(answers, true, strict=True)] == [True] * 24
            sides = (linear.margin(xs) > 0).long().tolist()
            assert all(a.abstained or a.label == side for a, side in zip(answers, sides, strict=True))
            assert sum(not a.abstained for a in answers) > 12
            assert all(a.draws == 2100 and sum(a.votes) == 2000 for a in answers)
            assert service.state().waiting == 0 and service.state().draws >= 24 * 2100

    run(main)


def test_many_clients_share_batches(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:gated") as service:
            before = service.state()
            slow_model.GATE.clear()
            waiting = [asyncio.ensure_future(one(service, x, radius=0.02)) for x in points(32)]
            await asyncio.sleep(0.2)
            assert service.state().waiting == 32
            slow_model.GATE.set()
            answers = [found for (found,) in await asyncio.gather(*waiting)]
            after = service.state()
            # A look has 100 draws and a batch 256 rows: alone, every one would leave more than half of it empty.
            assert after.draws - before.draws > 0.9 * (after.rows - before.rows)
            assert all(a.draws >= 200 for a in answers)

    run(main)


def test_an_answer_is_kept_recomputed_and_once_the_secret_is_told_drawn_again(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], id="mine", n=500)
            path = kept(service, found, tmp_path)
            assert service.document(found.certificate, "somebody") is None
            assert "the input that was sent" in service.page(found.certificate, "")
            return found, path, await one(service, [0.9, 0.1, 0.5, 0.5], id="mine", radius=0.05)

    found, path, _ = asyncio.run(main())
    table = json.loads(path.read_text())
    assert table["answer"]["radius"] == found.radius and table["question"]["seed"] == -1
    assert table["question"]["served"]["request"] == "mine/0" and "secret" not in str(table["means"])
    hidden = checked(path)
    assert hidden.problems == [] and hidden.redrawn == 0 and "has not told yet" in hidden.left_open[0]
    told = json.loads(secret.reveal(tmp_path / "state").read_text())
    drawn = checked(path, secret=told["secret"])
    assert drawn.problems == [] and drawn.redrawn == 1 and drawn.votes == 600
    with pytest.raises(RunError, match="must be the one that was committed to"):
        checked(path, secret="00" * 32)

    async def again():
        async with serving(tmp_path) as service:
            assert service.model.commitment != told["commitment"]
            service.evidence.tell(told["commitment"], told["secret"])
            return kept(service, found, tmp_path)

    with_seed = checked(asyncio.run(again()))  # which now tells its own seed
    assert with_seed.problems == [] and with_seed.redrawn == 1


def test_an_end_does_not_wait_for_what_nobody_waits_for(tmp_path, monkeypatch):
    monkeypatch.setattr(service_module, "LAST", 0.1)
    monkeypatch.setattr(evidence, "BRIEF", 0.1)

    async def main():
        async with serving(tmp_path) as service:
            with service.evidence._lock:  # as where a database is away
                (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], n=500, deadline=0.05)
                assert found.abstained
                with pytest.raises(RequestError, match="certificates cannot be read now") as refused:
                    await asyncio.to_thread(service.document, "any", "")
                assert (refused.value.status, refused.value.retry_after) == (503, 5)
                await asyncio.wait_for(service.close(), 5)

    run(main)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t["question"]["served"].update(request="other/0"), "the secret of the service gives"),
        (lambda t: t["question"].update(seed=t["question"]["seed"] ^ 1), "the secret of the service gives"),
        (lambda t: t["answer"].update(radius=9.0), "it says answer radius"),
        (lambda t: t["answers"][1]["counts"].__setitem__(0, t["answers"][1]["counts"][0][::-1]), "counts give"),
        (lambda t: t["words"].update(claim="It is safe."), "it says words claim"),
    ],
)
def test_a_document_that_was_changed_is_found_out(tmp_path, change, said):
    async def main():
        async with serving(tmp_path) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], n=500)
            service.evidence.tell(service.secret.commitment, service.secret.value.hex())
            return kept(service, found, tmp_path)

    path = asyncio.run(main())
    assert checked(path).problems == []
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))
    assert any(said in problem for problem in checked(path).problems)


def test_noise_follows_from_the_name_and_from_all_that_was_asked(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            x = [0.45, 0.3, 0.5, 0.2]  # near the boundary, where votes tell one noise from another
            votes = {}
            for name, options in {
                "same": {"id": "a", "n": 1000}, "again": {"id": "a", "n": 1000}, "other name": {"id": "b", "n": 1000},
                "more": {"id": "a", "n": 1100}, "stricter": {"id": "a", "n": 1000, "alpha": 0.0005},
            }.items():  # fmt: skip
                ((votes[name],),) = [await one(service, x, **options)]
            assert votes["same"].votes == votes["again"].votes
            seen = [votes[name].votes for name in ("same", "other name", "stricter")]
            assert len(set(seen)) == 3
            lower, upper = sorted(votes["same"].votes), sorted(votes["more"].votes)
            assert upper[0] - lower[0] != 100 and votes["more"].draws == 1200

    run(main)


def test_at_its_deadline_an_input_abstains_and_others_go_on(tmp_path):
    async def main():
        limits = ServiceLimits(deadline=WITHIN)
        async with serving(tmp_path, "slow_model:slow", limits=limits) as service:
            start = time.monotonic()
            late = asyncio.ensure_future(one(service, [0.9, 0.1, 0.5, 0.5], n=100_000, deadline=0.7))
            (soon,) = await one(service, [0.1, 0.9, 0.5, 0.5], radius=0.05)
            (found,) = await late
            assert found.abstained and found.label == -1 and "deadline" in found.reason and found.certificate == ""
            assert 0 < found.draws < 100_000
            assert time.monotonic() - start < 20
            assert not soon.abstained
            (never,) = await one(service, [0.9, 0.1, 0.5, 0.5], n=100_000, deadline=1e-6)
            assert never.abstained and never.draws == 0
            (after,) = await one(service, [0.9, 0.1, 0.5, 0.5], radius=0.05)
            assert not after.abstained

    run(main)


def test_whoever_holds_the_model_up_callers_do_not_wait_for_it(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:gated") as service:
            slow_model.GATE.clear()
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], deadline=0.2)
            assert found.abstained and "deadline" in found.reason

    run(main)


def test_what_cannot_wait_is_refused_at_once(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:gated", limits=ServiceLimits(waiting=4)) as service:
            slow_model.GATE.clear()
            first = asyncio.ensure_future(service.answer(ask(points(3), radius=0.02)))
            await asyncio.sleep(0.05)
            with pytest.raises(RequestError) as refused:
                await service.answer(ask(points(2), radius=0.02))
            assert refused.value.status == 503 and refused.value.retry_after >= 1
            slow_model.GATE.set()
            assert len(await first) == 3
            assert len(await service.answer(ask(points(2), radius=0.02))) == 2

    run(main)


def test_what_callers_gave_up_still_counts_until_it_is_over(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:gated", limits=ServiceLimits(waiting=4)) as service:
            slow_model.GATE.clear()
            assert all(found.abstained for found in await service.answer(ask(points(4), deadline=0.01)))
            assert service.state().waiting == 0
            with pytest.raises(RequestError, match="at most 4 inputs may wait"):
                await service.answer(ask(points(1), deadline=0.01))
            slow_model.GATE.set()
            while True:
                with contextlib.suppress(RequestError):
                    (found,) = await one(service, [0.9, 0.1, 0.5, 0.5])
                    break
                await asyncio.sleep(0.01)
            assert not found.abstained

    run(lambda: asyncio.wait_for(main(), WITHIN))


def test_a_model_that_fails_takes_nobody_with_it_who_comes_later(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:touchy") as service:
            with pytest.raises(RequestError) as failed:
                await one(service, [1.0, 1.0, 1.0, 1.0], n=500)
            assert failed.value.status == 500 and "NaN" not in failed.value.text
            (fine,) = await one(service, [0.6, 0.0, 0.1, 0.1], n=500)
            assert not fine.abstained and service.ready

    run(main)


def test_an_end_answers_what_was_accepted_and_takes_nothing_more(tmp_path):
    async def main():
        async with serving(tmp_path, "slow_model:gated") as service:
            slow_model.GATE.clear()
            accepted = asyncio.ensure_future(one(service, [0.9, 0.1, 0.5, 0.5], radius=0.05))
            await asyncio.sleep(0.1)
            ending = asyncio.ensure_future(service.close())
            await asyncio.sleep(0.1)
            assert not service.ready and not ending.done()
            with pytest.raises(RequestError, match="starting or stopping"):
                await one(service, [0.9, 0.1, 0.5, 0.5])
            slow_model.GATE.set()
            (found,) = await accepted
            assert not found.abstained
            await asyncio.wait_for(ending, WITHIN)

    run(main)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"radius": 100.0}, "must be within reach of the noise"),
        ({"n": 3}, "n of fixed must be at least"),
        ({"mode": "predict", "radius": 0.1}, "needs mode certify"),
        ({"mode": "predict", "n": 2}, "n of predict must be at least"),
    ],
)
def test_what_can_never_be_answered_is_a_bad_request(tmp_path, options, said):
    async def main():
        async with serving(tmp_path) as service:
            with pytest.raises(RequestError, match=said) as refused:
                await one(service, [0.5, 0.5, 0.5, 0.5], **options)
            assert refused.value.status == 400
            with pytest.raises(RequestError, match=said):
                service.cost(ask(points(1), **options))

    run(main)


def test_predictions_have_no_radius_and_no_certificate(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], mode="predict")
            assert (found.label, found.radius, found.certificate, found.draws) == (1, 0.0, "", 1000)
            assert service.cost(ask(points(3), mode="predict")) == 3000

    run(main)


def test_numbers_of_a_client_are_brought_to_the_stronger_claim(tmp_path):
    assert [two_digits(value) for value in (0.001, 0.00123, 0.0999, 1.0, 123_456)] == [
        0.001, 0.0012, 0.099, 1.0, 120_000,
    ]  # fmt: skip

    async def main():
        async with serving(tmp_path, default=DefaultQuestion(alpha=0.01)) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], radius=0.0501)
            assert found.radius == 0.051
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], alpha=0.00123, radius=0.05)
            document = service.document(found.certificate, "")
            assert document["answer"]["alpha"] == 0.0012 and document["answer"]["radius"] == 0.05

    run(main)


def test_8_bit_inputs_are_certified_in_exact_arithmetic_others_in_floats(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            for values, noise in (([1.0, 0.0, 51 / 255, 0.2], "gaussian_grid"), ([0.9, 0.01234, 0.5, 0.1], "gaussian")):
                (found,) = await one(service, values, n=500)
                assert service.document(found.certificate, "")["question"]["noise"]["name"] == noise
        async with serving(tmp_path, how="exact") as service:
            with pytest.raises(RequestError, match="multiples of 1/255"):
                await one(service, [0.9, 0.01234, 0.5, 0.1], n=500)

    run(main)


def test_other_norms_and_exact_counting(tmp_path):
    async def main():
        async with serving(tmp_path, noise=Uniform(sigma=0.25)) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], n=500)
            assert service.model.norm == "l1" and found.radius > 0
            assert checked(kept(service, found, tmp_path)).problems == []
        async with serving(tmp_path, noise=Splitting(lam=0.5)) as service:
            (found,) = await one(service, [1.0, 0.0, 0.2, 0.2])
            assert found.guarantee == "deterministic"
            assert checked(kept(service, found, tmp_path)).problems == []
        bands = {"model": "stripes:a", "noise": Band(2), "shape": stripes.SHAPE}
        async with serving(tmp_path, **bands) as service:
            (found,) = await one(service, stripes.images(1)[0][0])
            assert service.model.norm == "patch" and service.model.noise == "band noise, 2 columns shown of 12"
            assert found.guarantee == "deterministic" and found.radius >= 1 and found.draws == 12
            document = kept(service, found, tmp_path)
            assert checked(document).problems == []

    run(main)


SEARCH = PerInputSigma(search="votes", draws=40, evaluations=400, low=0.01, high=0.2)


def test_a_memory_answers_inside_its_regions_and_keeps_what_it_promised(tmp_path):
    options = {"model": "islands:score", "noise": Gaussian(0.02), "shape": (2,), "preparation": SEARCH}
    options |= {"memory": tmp_path / "m.sqlite", "default": DefaultQuestion(n=1000)}
    xs = torch.from_numpy(np.load(islands.write_data(tmp_path / "d.npz", 24))["x"])

    async def main():
        async with serving(tmp_path, **options) as service:
            assert service.model.memory and service.model.sigma is None
            answers = [(await one(service, x))[0] for x in xs]
            drawn = [a for a in answers if a.draws]
            assert all(a.guarantee == "memory" for a in answers if not a.abstained)
            assert len(drawn) > 5 and service.state().regions > 3
            for x, first in zip(xs, answers, strict=True):
                if first.radius <= 0:
                    continue
                direction = torch.nn.functional.normalize(torch.ones(2), dim=0)
                for mode in ("certify", "predict"):
                    (near,) = await one(service, x + 0.9 * first.radius * direction, mode=mode)
                    assert near.label == first.label and near.draws == 0 and near.guarantee == "memory"
                    assert near.radius > 0 and service.document(near.certificate, "") is not None
            return [(a, kept(service, a, tmp_path)) for a in drawn if a.certificate][:3]

    found = asyncio.run(main())
    told = json.loads(secret.reveal(tmp_path / "state").read_text())["secret"]
    for _, path in found:
        assert "--memory" in checked(path).problems[0]
        result = checked(path, secret=told, memory=str(tmp_path / "m.sqlite"))
        assert result.problems == [] and result.redrawn == 1

    async def after_a_restart():
        async with serving(tmp_path, **options) as service:
            assert service.state().regions == 0 or service.model.memory
            (again,) = await one(service, xs[0])
            assert again.draws == 0 and again.guarantee == "memory"

    run(after_a_restart)


def compose(folder, kind, members, **options):
    described = tuple(composite.described(folder, spec, role, noise) for role, spec, noise in members)
    composite.write(folder, composite.Composite(kind, described, options=options))
    return str(folder)


GRID = {"name": "gaussian_grid", "sigma": 0.25, "grid": 255}


@pytest.mark.parametrize("kind", ["aces", "route"])
def test_compositions_are_served_and_their_answers_checked(tmp_path, kind):
    for spec in ("linear:score", "lines:a"):
        __import__(spec.partition(":")[0])
    if kind == "aces":
        members = [("certify", "linear:score", GRID), ("core", "linear:score", None)]
        model = compose(tmp_path / "both", kind, members, theta=0.3)
    else:
        members = [
            ("branch 0", "linear:score", GRID),
            ("branch 1", "linear:score", None),
            ("select", "linear:score", GRID),
        ]
        model = compose(tmp_path / "both", kind, members)

    async def main():
        async with serving(tmp_path, model, noise=False) as service:
            xs = (points(6) * 255).round() / 255
            answers = await asyncio.wait_for(service.answer(ask(xs, n=2000)), WITHIN)
            assert {a.guarantee for a in answers} <= {"smoothing", "none"}
            assert any(not a.abstained for a in answers)
            (predicted,) = await one(service, xs[0], mode="predict")
            assert predicted.draws >= 10_000
            if kind == "aces":
                with pytest.raises(RequestError, match="ACES takes no radius"):
                    await one(service, xs[0], radius=0.1)
            return [kept(service, a, tmp_path) for a in answers if a.certificate]

    paths = asyncio.run(main())
    told = json.loads(secret.reveal(tmp_path / "state").read_text())["secret"]
    for path in paths:
        assert checked(path, model=model).problems == []
        drawn = checked(path, model=model, secret=told)
        assert drawn.problems == [] and drawn.redrawn == 1


def test_ensembles_are_served(tmp_path):
    specs = ["lines:a", "lines:b", "lines:c"]
    for spec in specs:
        __import__(spec.partition(":")[0])
    members = tuple(composite.described(tmp_path / "ens", spec) for spec in specs)
    vote, cascade = {"name": "hard_vote"}, {"name": "k_consensus", "k": 2}
    composite.write(tmp_path / "ens", composite.Composite("ensemble", members, vote, cascade))

    async def main():
        async with serving(tmp_path, str(tmp_path / "ens")) as service:
            (found,) = await one(service, [0.9, 0.1, 0.5, 0.5], n=500)
            assert found.certificate
            return kept(service, found, tmp_path)

    assert checked(asyncio.run(main()), model=str(tmp_path / "ens")).problems == []


@pytest.mark.parametrize(
    ("model", "options", "error", "said"),
    [
        ("linear:score", {"noise": False}, OptionError, "--sigma must be given"),
        ("linear:score", {"shape": None}, OptionError, "--shape must say"),
        ("linear:nan", {}, ModelError, "must return numbers"),
        ("linear:moody", {}, ModelError, "must give the same scores"),
        ("no:where", {}, ModelError, "no"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anybody_asks(tmp_path, model, options, error, said):
    async def main():
        with pytest.raises(error, match=said):
            async with serving(tmp_path, model, **options):
                raise AssertionError("it serves")

    run(main)
