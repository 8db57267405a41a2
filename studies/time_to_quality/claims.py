"""Time to quality as verdicts, the paper's first."""

from collections.abc import Sequence

import numpy as np

from studies.time_to_quality.findings import Comparison
from unequal.reporting.tables import label, mean_and_sd
from unequal.reporting.verdicts import SPREADS, Evidence, Verdict, decide, known_limit, paired, signed

#: What the paper reports: 2 to 2.6 times fewer images on CIFAR-10 and ImageNet-128.
REPORTED = (2.0, 2.6)


def verdicts(claimed: Sequence[Comparison]) -> list[Verdict]:
    """What the paper reports, and whether each recipe beats its baseline."""
    return [paper_speed_up(claimed), *map(pays, claimed)]


def pays(comparison: Comparison) -> Verdict:
    """Whether a recipe has the lower FID after as many images, by pairs of training seeds."""
    evidence, name = comparison.evidence, f"{comparison.recipe}_batch_{comparison.batch}"
    return Verdict(
        name,
        2,
        f"{label(comparison.recipe).capitalize()} beats {label(comparison.baseline)} at batch {comparison.batch}, "
        "for as many images",
        decide([evidence]),
        {
            "fid": float(np.mean(comparison.fids)),
            "fid_baseline": float(np.mean(comparison.baseline_fids)),
            **known_limit(evidence),
            **({"speed_up": float(np.mean(comparison.speed_ups))} if comparison.speed_ups else {}),
            "seeds_that_reached_it": float(len(comparison.speed_ups)),
        },
        f"FID {mean_and_sd(comparison.fids)} against {mean_and_sd(comparison.baseline_fids)}, "
        f"{signed(-evidence.difference)} paired by seed; {speed_up_text(comparison)}",
        f"mean difference of final FID over {len(comparison.fids)} training seeds that both share, against its 95 % "
        "interval (Student's t)",
    )


def speed_up_text(comparison: Comparison) -> str:
    """How much sooner the recipe reached its baseline's final FID, as a sentence's part."""
    reached = f"{len(comparison.speed_ups)} of {len(comparison.reached)} seeds"
    goal = f"{label(comparison.baseline)}'s final FID"
    if not comparison.speed_ups:
        return f"{goal} was not reached within the same images"
    return f"{goal} was reached by {reached}, these {mean_and_sd(comparison.speed_ups)} × as fast"


def paper_speed_up(comparisons: Sequence[Comparison]) -> Verdict:
    """Paper 2: training is 2 to 2.6 times faster; evidence is each recipe's and batch's speed-up against 2."""
    evidence = [speed_up_evidence(one) for one in comparisons]
    shown = (
        f"{label(one.recipe)} at {one.batch} {mean_and_sd(one.speed_ups) if one.speed_ups else 'never'}"
        for one in comparisons
    )
    return Verdict(
        "paper_speed_up",
        2,
        "The method needs half the images, or fewer, for the same FID",
        decide(evidence),
        {f"{one.recipe}_{one.batch}": float(np.mean(one.speed_ups)) for one in comparisons if one.speed_ups},
        f"speed-ups (the paper: {REPORTED[0]:g} to {REPORTED[1]:g}): {', '.join(shown)}",
        f"speed-up minus {REPORTED[0]:g} against {SPREADS:g} × its spread over seeds (half the 95 % interval); "
        "a seed that never reached the FID counts as a speed-up of 1, the most that it can have had",
    )


def speed_up_evidence(comparison: Comparison) -> Evidence:
    """By how much the speed-up exceeds the least that the paper reports."""
    ratios = [1.0 if count is None else comparison.images / count for count in comparison.reached]
    return paired([ratio - REPORTED[0] for ratio in ratios])
