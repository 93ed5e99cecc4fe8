"""What staged and spending save when they are run: SampleRF, TimeRF, and where inputs are decided.

    python studies/sampling_run.py --out FOLDER [--models NAME…] [--radii 0.25,0.5,0.75] [--inputs 500] [--probe 1000]
    python studies/sampling_run.py --out FOLDER --members NAME… [--consensus 2]      # spending through K-consensus

SampleRF is 100 100 draws an input (n = 100 000 and n0 = 100) ÷ those of the run. TimeRF holds the run's seconds against
those of PROBE draws of the same inputs, times 100 100 ÷ (PROBE + 100): an engine's time is proportional to its draws.
With --members, evaluations of members are counted, and the other side is the soft vote of all. ASC_j and ASA_j: the
share of inputs certified and abstained on in stage j; for spending, within the first 100, 1 000 and 10 000 draws and
its cap. Published: Horváth et al. (ICLR 2022), Tables 4 and 21.
"""

from __future__ import annotations

import argparse

import _results as results

from smoothcert.report.spending import sampling_cost

FIXED = 100_100
PUBLISHED = {  # SampleRF, TimeRF of staged sampling at σ = 0.25; Table 4: one ResNet-110
    ("gaussian", "0.25"): (20.40, 21.22),
    ("gaussian", "0.75"): (5.92, 6.10),
    ("consistency", "0.25"): (33.91, 34.67),
    ("consistency", "0.75"): (5.32, 5.40),
    ("ensemble", "0.25"): (28.80, 32.63),  # Table 21: ten gaussian ResNet-110, 5-consensus
    ("ensemble", "0.5"): (19.80, 28.73),
    ("ensemble", "0.75"): (6.19, 11.14),
}


def seconds(record):
    return sum(row.seconds for row in record.rows)


def measured(model, full, scheme, radius, options):
    """One scheme at one radius, held against the probe `full`."""
    folder = options.out / f"{short(model)}-{scheme}-{radius:g}"
    record = results.certified(folder, model, options, "--sampling", scheme, "--radius", radius)
    cost, calls = sampling_cost(record, [], [radius]), record.means.member_calls
    fixed = seconds(full) * FIXED / (options.probe + 100)
    stages = cost.outcomes[0].stages if cost.outcomes else ()
    return {
        "model": str(model), "scheme": scheme, "radius": radius, "inputs": len(record.rows),
        "draws": cost.spread.total, "seconds": seconds(record), "fixed_seconds": fixed,
        "SampleRF": FIXED * len(record.rows) / cost.spread.total, "TimeRF": fixed / seconds(record),
        "members_asked_a_draw": calls.asked / calls.rows if calls else None,
        "KCR": 100 * calls.early / calls.rows if calls else None,
        "certified_accuracy": results.accuracies(record, [radius])[f"{radius:g}"],
        "ASC": [100 * stage.certified.value for stage in stages],
        "ASA": [100 * stage.given_up.value for stage in stages],
        "stages": [stage.name for stage in stages],
        "published": next((there for (kind, r), there in PUBLISHED.items()
                           if kind in short(model) and r == f"{radius:g}"), None),
    }  # fmt: skip


def short(model):
    return str(model).rsplit("/", 1)[-1]


def ensembles(options):
    """The soft vote of all members, and the one with consensus, ordered by hold-out inputs."""
    made = {
        "full": [],
        "ensemble": ["--consensus", options.consensus, "--data", options.data, "--sigma", options.sigma],
    }
    for name, words in made.items():
        if not (options.out / name).exists():
            results.command("ensemble", *options.members, *words, "--out", options.out / name)
    return options.out / "full", options.out / "ensemble"


def told(found):
    results.table(
        ["model", "r", "scheme", "certified, % (95 %)", "draws an input", "SampleRF", "TimeRF", "ASC_j, %", "ASA_j, %",
         "members a draw", "published SampleRF, TimeRF"],
        [
            [short(one["model"]), f"{one['radius']:g}", one["scheme"],
             results.shown(one["certified_accuracy"]["percent"], one["certified_accuracy"]["interval"]),
             f"{one['draws'] / one['inputs']:,.0f}", f"{one['SampleRF']:.1f}", f"{one['TimeRF']:.1f}",
             ", ".join(f"{share:.1f}" for share in one["ASC"]), ", ".join(f"{share:.1f}" for share in one["ASA"]),
             f"{one['members_asked_a_draw']:.2f}" if one["members_asked_a_draw"] else "–",
             "{}, {}".format(*one["published"]) if one["published"] else "–"]
            for one in found
        ],
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    results.inputs_of(parser)
    models = ["cifar10-resnet8-gaussian-3", "cifar10-resnet8-consistency"]
    parser.add_argument("--models", nargs="*", default=models)
    parser.add_argument("--members", nargs="*", default=[])
    parser.add_argument("--consensus", type=int, default=2)
    parser.add_argument("--radii", default="0.25,0.5,0.75")
    parser.add_argument("--schemes", default="spending,staged")
    parser.add_argument("--probe", type=int, default=1_000, help="draws an input by which the fixed n is timed")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pairs = [ensembles(options)] if options.members else [(model, model) for model in options.models]
    schemes = ["spending"] if options.members else options.schemes.split(",")
    found = []
    for whole, model in pairs:
        full = results.certified(options.out / f"{short(whole)}-probe", whole, options, "--n", options.probe)
        for radius in map(float, options.radii.split(",")):
            found += [measured(model, full, scheme, radius, options) for scheme in schemes]
            results.write(options.out / "partial.json", found)
    results.write(options.out / "result.json", found)
    told(found)


if __name__ == "__main__":
    main()
