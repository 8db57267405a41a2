"""Is the same noise the same picture, why, and is the loss smooth? Each claim as a verdict.

Pairs of models share their models, so that spreads over pairs are standard deviations and never
standard errors of the mean.
"""

from collections.abc import Sequence
from statistics import fmean, stdev

from studies.consistency.findings import (
    MEASURES,
    STATES,
    ReplicaFindings,
    Row,
    agreement,
    relative_residual,
)
from unequal.reporting.tables import mean_and_sd
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, combined, decide, known_limit, needed, paired, tally

#: Relation of a pair → what its models differ in.
CHANGED = {"seeds": "training seed", "widths": "width"}
#: Measures that rise with likeness have the sign 1.
SIGNS = {"mse": -1, "cosine": 1, "ssim": 1}
#: A loss that rises on a line by no more than this share of the ends' counts as flat.
FLAT = 0.1
OVER_PAIRS = "mean over pairs of models against 2 × its standard deviation over them"


def verdicts(found: ReplicaFindings) -> list[Verdict]:
    """Verdicts on all claims of which the study knows something."""
    optimum = [beyond_optimum(found)] if found.pairs("optimum") else []
    return [
        *(alike(found, relation) for relation in CHANGED if found.pairs(relation)),
        same_picture(found),
        predictions_alike(found),
        less_curved(found),
        no_barrier(found),
        learned(found),
        beyond_memory(found),
        *optimum,
    ]


def over(values: Sequence[float]) -> Evidence:
    """Mean and standard deviation of differences; one alone has no spread."""
    return Evidence(fmean(values), stdev(values) if len(values) > 1 else None)


def gain(row: Row, measure: str) -> float:
    """By how much a pair is more alike from the same noise than from other noise."""
    return float(SIGNS[measure] * (row[f"{measure}_same"] - row[f"{measure}_other_noise"]))


def alike(found: ReplicaFindings, relation: str) -> Verdict:
    """Paper 2: models of other seeds, or widths, make alike pictures of the same noise."""
    rows = found.pairs(relation)
    evidence = [over([gain(row, measure) for row in rows]) for measure in MEASURES]
    columns = [f"{measure}_{noise}" for measure in MEASURES for noise in ("same", "other_noise")]
    means = {column: fmean(row[column] for row in rows) for column in (*columns, "found_again")}
    shown = [f"{text} {means[f'{m}_same']:.3g} against {means[f'{m}_other_noise']:.3g}" for m, text in MEASURES.items()]
    return Verdict(
        f"alike_across_{relation}",
        2,
        f"The same noise gives more alike pictures than different noise, whatever the {CHANGED[relation]}",
        decide(evidence),
        means | {"agreement": fmean(map(agreement, rows)), "pairs": float(len(rows))},
        f"{', '.join(shown)}; of {found.conditions['comparison']['noises']} pictures of the other model, that from the "
        f"same noise is the nearest in {100 * means['found_again']:.1f} % of cases",
        f"gain by each of the three measures, {OVER_PAIRS}; {SEVERAL}",
    )


def same_picture(found: ReplicaFindings) -> Verdict:
    """Paper 2: pictures are not only related but very similar; what is new in the data is the scale."""
    apart, scale = [row["mse_same"] for row in found.trained_pairs], found.nearest["held_out"]
    evidence = over([scale - value for value in apart])
    return Verdict(
        "same_picture",
        2,
        "It is the same picture: two models differ by less than a held-out image from its nearest training image",
        decide([evidence]),
        {"mse_same": fmean(apart), "held_out_to_training": scale, **known_limit(evidence)},
        f"MSE {mean_and_sd(apart)} between two models, {scale:.3g} from a held-out image to the nearest training image"
        f"{needed(evidence)}",
        f"difference of the two, {OVER_PAIRS}, whatever their seeds and widths",
    )


def predictions_alike(found: ReplicaFindings) -> Verdict:
    """Paper 2: where in the sampling models agree."""
    at: dict[int, list[Row]] = {}
    for row in found.predictions:
        if row["relation"] in CHANGED:
            at.setdefault(row["timestep"], []).append(row)
    evidence = {t: over([gain(row, "mse") for row in rows]) for t, rows in at.items()}
    ratios = {t: fmean(row["mse_same"] / row["mse_other_noise"] for row in rows) for t, rows in at.items()}
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    failed = ", ".join(str(t) for t, one in evidence.items() if one.side < 1)
    return Verdict(
        "predictions_alike",
        2,
        "Models agree about x0 at every noise level, more than about the same image under other noise",
        decide(list(evidence.values())),
        tally(list(evidence.values())) | {f"mse_ratio_{t}": ratio for t, ratio in ratios.items()},
        f"MSE between two models is {ratios[low]:.2g} (t = {low}) to {ratios[high]:.2g} (t = {high}) of that under "
        f"other noise; {f'not beyond the spread at t = {failed}' if failed else 'less at every timestep measured'}",
        f"difference of MSE at each of {len(at)} timesteps, {OVER_PAIRS}, whatever their seeds and widths; {SEVERAL}",
    )


def less_curved(found: ReplicaFindings) -> Verdict:
    """Paper 2: the loss landscape is highly smooth; random weights are what it can be compared with."""
    ends = {state: [one[state]["quotients"][-1] for one in found.points.values()] for state in STATES}
    evidence = paired([before - after for before, after in zip(*ends.values(), strict=True)])
    unsure = max(relative_residual(one[state]) for one in found.points.values() for state in STATES)
    return Verdict(
        "less_curved",
        2,
        "The loss is smooth where training ends: its sharpest curvature is less than at the random weights before",
        decide([evidence]),
        {name: fmean(values) for name, values in ends.items()} | {"residual": unsure} | known_limit(evidence),
        f"largest eigenvalue of the Hessian {mean_and_sd(ends['trained'])} after training, "
        f"{mean_and_sd(ends['untrained'])} before{needed(evidence)}; known within {100 * unsure:.2g} % of itself",
        "difference of the two at each model, mean over models against its 95 % interval (Student's t)",
    )


def no_barrier(found: ReplicaFindings) -> Verdict:
    """Paper 2: training converges to similar minima."""
    barriers = [line["barrier"] for _, line in found.lines]
    evidence = [Evidence(FLAT - one["height"], one["stderr"]) for one in barriers]
    low, high = (choose(one["height"] for one in barriers) for choose in (min, max))
    return Verdict(
        "no_barrier",
        2,
        "Models of different seeds lie in one basin: the loss does not rise on the straight line between them",
        decide(evidence),
        tally(evidence) | {"lowest_barrier": low, "highest_barrier": high},
        f"between the two it rises by {100 * low:.3g} to {100 * high:.3g} % of the loss at the ends; channels can be "
        "permuted without changing the function, so that a way around the barrier is not ruled out",
        f"highest rise above the straight course between the ends' losses on each of {len(barriers)} lines, against "
        f"{100 * FLAT:g} % and 2 paired standard errors over draws; {SEVERAL}",
    )


def learned(found: ReplicaFindings) -> Verdict:
    """Ours: some of a noise shows through any network, whether it has learned or not."""
    return compared(
        "learned",
        "Training makes pictures of the same noise more alike than untrained networks make them",
        (list(map(agreement, found.trained_pairs)), list(map(agreement, found.pairs("untrained")))),
        1,
        "agreement, 1 − MSE(same noise)/MSE(other noise), is {} after and {} before training",
    )


def beyond_memory(found: ReplicaFindings) -> Verdict:
    """Ours: pictures may be alike because they are copies of the same training image."""
    rows, apart = found.trained_pairs, [row["mse_same"] for row in found.trained_pairs]
    nearest = [fmean(found.nearest[row[side]] for side in ("first", "second")) for row in rows]
    evidence = over([known - value for known, value in zip(nearest, apart, strict=True)])
    return Verdict(
        "beyond_memory",
        None,
        "They agree on more than copies: two models' pictures are nearer to one another than to any training image",
        decide([evidence]),
        {"to_other_model": fmean(apart), "to_training": fmean(nearest), **known_limit(evidence)},
        f"MSE {mean_and_sd(apart)} to the other model's picture, {mean_and_sd(nearest)} to the nearest of "
        f"{found.conditions['training_images']} training images{needed(evidence)}",
        f"difference of the two, {OVER_PAIRS}, whatever their seeds and widths",
    )


def beyond_optimum(found: ReplicaFindings) -> Verdict:
    """Ours: with one optimum for all, models could agree because they have reached it."""
    apart = [[row["mse_same"] for row in rows] for rows in (found.trained_pairs, found.pairs("optimum"))]
    return compared(
        "beyond_optimum",
        "Models agree with one another more than with the best possible denoiser of their training images",
        (apart[0], apart[1]),
        -1,
        "MSE of pictures from the same noise is {} between two models, {} between a model and that denoiser",
    )


def compared(key: str, claim: str, groups: tuple[Sequence[float], Sequence[float]], sign: int, text: str) -> Verdict:
    """A claim of ours: the first group of pairs has the higher figure (sign 1), or the lower one (−1)."""
    first, second = map(over, groups)
    spread = combined(first.spread, second.spread)
    evidence = Evidence(sign * (first.difference - second.difference), spread)
    return Verdict(
        key,
        None,
        claim,
        decide([evidence]),
        {"first": first.difference, "second": second.difference, **known_limit(evidence)},
        f"{text.format(*map(mean_and_sd, groups))}{needed(evidence)}",
        "difference of means over pairs against 2 × √(sd₁² + sd₂²), sd over pairs of models",
    )
