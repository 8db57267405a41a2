"""Claims about prediction types and three heads: those of paper 1 (2.2 and 3.2), and our answer to its question."""

from collections.abc import Sequence

import numpy as np

from studies.predictions.figures import in_bins
from studies.predictions.findings import (
    SYMBOLS,
    TRAINED_ALONE,
    Alone,
    HeadFindings,
    SeedScores,
    ThreeHeads,
    mean_ratio,
)
from studies.predictions.tables import selection
from unequal.diffusion.predictions import HEADS, x0_error_factor
from unequal.reporting.tables import label, mean_and_sd
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, decide, known_limit, paired, signed, tally

#: Share of the timesteps that is meant by "close to" either end.
END = 0.1
#: "An order of magnitude".
LARGE = 10.0
#: A head counts as left behind where its error is so many times that of its prediction alone.
BEHIND = 2.0
BY_SEEDS = "mean over training seeds against its 95 % interval (Student's t)"
#: How a training finds the best head → what it compares.
COMPARED = {"best_common": "error of x0", "best_native": "own loss"}


def verdicts(found: HeadFindings) -> list[Verdict]:
    """All claims whose recipes were trained."""
    by_smallest = [one for one in found.mixed.values() if one.by_smallest]
    decided: list[Verdict] = []
    if {"epsilon", "sample"} <= set(found.alone):
        decided.append(ends(found))
    if set(found.alone) == set(HEADS):
        decided += [even(found), scales(found)]
    if "epsilon" in found.alone:
        decided += [worse_than_epsilon(found.alone["epsilon"], one) for one in by_smallest]
    decided += [leaves_behind(found, one) for one in by_smallest if HEADS[one.loser] in found.alone]
    decided += [settles_early(one) for one in by_smallest]
    for mixed in found.mixed.values():
        if not mixed.by_smallest:
            decided += answers(found, mixed, by_smallest)
    return decided


def answers(found: HeadFindings, mixed: ThreeHeads, by_smallest: Sequence[ThreeHeads]) -> list[Verdict]:
    """Our answer to question 3.2, against all that it is to beat."""
    decided = [beats_smallest(mixed, by_smallest)] if by_smallest else []
    if by_smallest and all("blend" in one.scores for one in (mixed, *by_smallest)):
        decided.append(beats_smallest(mixed, by_smallest, "blend"))
    return decided + ([beats_best_alone(found, mixed), errs_least(found, mixed)] if found.alone else [])


def ends(found: HeadFindings) -> Verdict:
    """Paper 1, 2.2: x0 works better close to T, ε close to 0."""
    pairs = list(zip(found.alone["epsilon"].errors, found.alone["sample"].errors, strict=True))
    count = max(1, round(END * found.schedule.timesteps))
    near_noise = [mean_ratio(epsilon[-count:], x0[-count:]) for epsilon, x0 in pairs]
    near_data = [mean_ratio(x0[:count], epsilon[:count]) for epsilon, x0 in pairs]
    return Verdict(
        "ends",
        1,
        "x0 is the better prediction close to pure noise, ε close to the data",
        decide([paired(np.log(near_noise).tolist()), paired(np.log(near_data).tolist())]),
        {
            "epsilon_over_x0_near_noise": float(np.mean(near_noise)),
            "x0_over_epsilon_near_data": float(np.mean(near_data)),
        },
        f"held-out error of ε {mean_and_sd(near_noise)} × that of x0 in the noisiest {100 * END:g} % of the timesteps, "
        f"that of x0 {mean_and_sd(near_data)} × that of ε in the {100 * END:g} % nearest the data; {switches(found)}",
        f"log ratio of errors at each end, {BY_SEEDS}; {SEVERAL}",
    )


def switches(found: HeadFindings) -> str:
    """The crossovers of single predictions, as a sentence's part."""
    alone = (one for one in found.crossovers() if one.source == TRAINED_ALONE)
    return f"crossovers {', '.join(f'{one.name} at t = {mean_and_sd(one.timesteps)}' for one in alone)}"


def even(found: HeadFindings) -> Verdict:
    """Paper 1, 2.2: v works more evenly over all t."""
    worst = {prediction: worst_ratios(found, one) for prediction, one in found.alone.items()}
    logs = {prediction: np.log(ratios) for prediction, ratios in worst.items()}
    evidence = [paired((logs[other] - logs["v_prediction"]).tolist()) for other in ("epsilon", "sample")]
    return Verdict(
        "v_is_even",
        1,
        "v works more evenly over all timesteps than ε and x0",
        decide(evidence),
        {f"worst_{prediction}": float(np.mean(ratios)) for prediction, ratios in worst.items()},
        "largest held-out error over that of the best of the three: "
        + ", ".join(f"{SYMBOLS[prediction]} {mean_and_sd(ratios)} ×" for prediction, ratios in worst.items()),
        f"log of these factors against v's, {BY_SEEDS}; errors in bins of timesteps on a log scale; {SEVERAL}",
    )


def worst_ratios(found: HeadFindings, single: Alone) -> list[float]:
    """The largest error of a prediction over the best one's, over bins of timesteps, one a seed."""
    ratios = [np.log(one) - np.log(least) for one, least in zip(single.errors, found.least_alone, strict=True)]
    return [float(np.exp(in_bins(ratio)[1].max())) for ratio in ratios]


def scales(found: HeadFindings) -> Verdict:
    """Paper 1, 2.2: usually the three losses differ by a large order of magnitude."""
    tables = found.schedule.alpha, found.schedule.sigma
    native = [
        [errors / x0_error_factor(head, *tables).numpy() for errors in found.alone[head].errors] for head in HEADS
    ]
    spans = np.max(native, axis=0) / np.min(native, axis=0)
    shares = (spans >= LARGE).mean(1)
    return Verdict(
        "losses_differ_in_scale",
        1,
        "The losses of x0, v and ε usually lie an order of magnitude apart",
        decide([paired((shares - 0.5).tolist())]),
        {"timesteps_percent": 100 * float(shares.mean()), "median_factor": float(np.median(spans))},
        f"the largest of the three is {LARGE:g} × the smallest or more at {mean_and_sd((100 * shares).tolist())} % of "
        f"the timesteps; median factor {np.median(spans):.3g}",
        f"share of such timesteps against a half, {BY_SEEDS}",
    )


def worse_than_epsilon(epsilon: Alone, mixed: ThreeHeads) -> Verdict:
    """Paper 1, 3.2: the mixed prediction is often worse than ε alone."""
    evidence = fid_evidence(epsilon.scores, mixed.own_scores())
    return Verdict(
        f"{mixed.name}_is_worse",
        1,
        f"Learning from an image only by the head with the smallest {COMPARED[mixed.mixing.train]} is worse than "
        "predicting ε alone",
        decide([evidence]),
        known_limit(evidence),
        against((own_name(mixed), mixed.own_scores()), ("ε alone", epsilon.scores)),
        f"difference of FID, {BY_SEEDS}",
    )


def leaves_behind(found: HeadFindings, mixed: ThreeHeads) -> Verdict:
    """Ours: the head that seldom wins is left behind."""
    symbol, ratios = SYMBOLS[HEADS[mixed.loser]], found.over_alone(mixed, mixed.loser)
    share = 100 * float(mixed.all_wins.share()[mixed.loser])
    return Verdict(
        f"{mixed.name}_leaves_a_head_behind",
        None,
        f"{label(mixed.name).capitalize()} leaves a head behind: its error is over {BEHIND:g} × that of its prediction "
        "alone",
        decide([paired(np.log(np.divide(ratios, BEHIND)).tolist())]),
        {"error_ratio": float(np.mean(ratios)), "wins_percent": share},
        f"{symbol} learned from {share:.2g} % of the images; its error is {mean_and_sd(ratios)} × that of {symbol} "
        "alone, geometric mean over timesteps",
        f"log ratio of held-out errors of the head with the fewest wins, {BY_SEEDS}",
    )


def settles_early(mixed: ThreeHeads) -> Verdict:
    """Ours: who leads early stays ahead, since only who leads learns."""
    kept = [one.kept_lead for one in mixed.wins]
    return Verdict(
        f"{mixed.name}_settles_early",
        None,
        f"{label(mixed.name).capitalize()} settles early which head learns: most timesteps are led at the end by the "
        "head that led them in the first twentieth",
        decide([paired([one - 0.5 for one in kept])]),
        {"kept_percent": 100 * float(np.mean(kept))},
        f"the lead is kept at {mean_and_sd([100 * one for one in kept])} % of the timesteps",
        f"share of the timesteps against a half, {BY_SEEDS}",
    )


def beats_smallest(mixed: ThreeHeads, by_smallest: Sequence[ThreeHeads], select: str | None = None) -> Verdict:
    """Ours: heads that all learn beat those of which the best learns; each combined as its recipe says, or as named."""
    ours = mixed.scores[select or mixed.mixing.select]
    theirs = {one.name: (one, one.scores[select or one.mixing.select]) for one in by_smallest}
    evidence = [fid_evidence(ours, scores) for _, scores in theirs.values()]
    named = own_name(mixed, select), ours
    return Verdict(
        f"{mixed.name}_beats_smallest{'' if select is None else f'_with_{select}'}",
        None,
        f"{label(mixed.name).capitalize()} beats learning by the smallest loss"
        + (", heads combined as the recipes say" if select is None else f", the heads of all combined by {select}"),
        decide(evidence),
        tally(evidence),
        "; ".join(against(named, (own_name(one, select), scores)) for one, scores in theirs.values()),
        f"difference of FID, {BY_SEEDS}; {SEVERAL}",
    )


def beats_best_alone(found: HeadFindings, mixed: ThreeHeads) -> Verdict:
    """Ours: three heads beat the best single prediction."""
    best = found.best_alone
    evidence = fid_evidence(mixed.own_scores(), best.scores)
    return Verdict(
        f"{mixed.name}_beats_best_alone",
        None,
        f"{label(mixed.name).capitalize()} beats the best single prediction",
        decide([evidence]),
        known_limit(evidence),
        against((own_name(mixed), mixed.own_scores()), (f"{SYMBOLS[best.prediction]} alone", best.scores)),
        f"difference of FID to the single prediction with the lowest mean FID, {BY_SEEDS}",
    )


def errs_least(found: HeadFindings, mixed: ThreeHeads) -> Verdict:
    """Ours: three heads together err less than the best of the three predictions alone."""
    pairs = list(zip(mixed.combined(), found.least_alone, strict=True))
    ratios = [mean_ratio(together, alone) for together, alone in pairs]
    shares = [100 * float((together < alone).mean()) for together, alone in pairs]
    return Verdict(
        f"{mixed.name}_errs_least",
        None,
        f"{label(mixed.name).capitalize()} errs less than the best single prediction of each timestep",
        decide([paired((-np.log(ratios)).tolist())]),
        {"error_ratio": float(np.mean(ratios)), "less_at_percent": float(np.mean(shares))},
        f"held-out error {mean_and_sd(ratios)} × the least of those alone, geometric mean over timesteps; less at "
        f"{mean_and_sd(shares)} % of the timesteps",
        f"log ratio of errors, {BY_SEEDS}; the best of those alone is found on the same draws, which favours it",
    )


def fid_evidence(better: SeedScores, worse: SeedScores) -> Evidence:
    """By how much the FID of `worse` exceeds that of `better`, in pairs of training seeds."""
    return paired(np.subtract(worse.fid, better.fid).tolist())


def own_name(mixed: ThreeHeads, select: str | None = None) -> str:
    """A training with a way to combine its heads, its recipe's if none is named."""
    return f"{label(mixed.name)}: {selection(select or mixed.mixing.select)}"


def against(first: tuple[str, SeedScores], second: tuple[str, SeedScores]) -> str:
    """The scores of two ways side by side."""
    difference = float(np.mean(np.subtract(first[1].fid, second[1].fid)))
    fid, kid = (
        " against ".join(f"{mean_and_sd(getattr(scores, score))} ({name})" for name, scores in (first, second))
        for score in ("fid", "kid")
    )
    return f"FID {fid}, {signed(difference)}; KID {kid}"
