"""The claims of the study of small batches: of paper 1, and ours.

Every claim about FID is decided over training seeds that the compared runs share, every claim about
gradients by jackknife errors over the images that were measured.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from studies.small_batches.findings import BatchFindings, fid, order, whole
from unequal.reporting.tables import label, plus_minus
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, combined, decide, paired, signed, tally

#: Two scores are the same where they differ by less than this share.
SAME = 0.05
#: Samplers without which a rank says nothing.
RANKED = 4
SEEDS = "training seeds that both share, against its 95 % interval (Student's t)"
JACKKNIFE = "2 jackknife errors over the images that were measured, of one model"


def verdicts(found: BatchFindings) -> list[Verdict]:
    """Verdicts on all claims: the paper's, then ours."""
    accumulated = [one for one in found.baseline_batches if order(one)[1] > 1 and whole(one) in found.baseline_batches]
    return [
        small_batches_lose(found),
        slots_scatter(found),
        slots_oppose(found),
        *(pays(found, recipe) for recipe in found.others if recipe.startswith("stratified")),
        *([accumulation_restores(found, accumulated)] if accumulated else []),
        *(pays(found, recipe) for recipe in found.others if not recipe.startswith("stratified")),
        *([adaptive_is_least(found)] if "adaptive" in found.comparable else []),
        *([variance_ranks(found)] if len(found.comparable) >= RANKED else []),
    ]


def small_batches_lose(found: BatchFindings) -> Verdict:
    """Paper 1: with as many images of each timestep, small batches end worse than large ones."""
    batches = [one for one in found.baseline_batches if order(one)[1] == 1]
    *small, large = batches
    evidence = [found.gain((found.baseline, large), (found.baseline, one)) for one in small]
    shown = (f"{one} {fid(found, found.baseline, one)}" for one in batches)
    noise = noise_scale(found)
    known = {} if noise is None else {"noise_scale": noise}
    return Verdict(
        "small_batches_lose",
        1,
        "Small batches end with a worse FID than large ones, for as many images",
        decide(evidence),
        tally(evidence) | {f"fid_{one}": found.mean(found.baseline, one) for one in batches} | known,
        f"{label(found.baseline)} timesteps: {', '.join(shown)}{noise_text(noise)}",
        f"FID of each smaller batch minus that of {large}, mean over {SEEDS}; {SEVERAL}",
    )


def noise_scale(found: BatchFindings) -> float | None:
    """Images a step at which a gradient's noise is as long as the gradient itself (1812.06162, B_simple).

    None where the gradient's length is lost in noise.
    """
    row = found.row(found.baseline)
    return row["batch"] * row["variance"] / row["mean_square"] if row["mean_square"] > 0 else None


def noise_text(scale: float | None) -> str:
    """What the noise scale leads to expect, as a sentence's part."""
    if scale is None:
        return ""
    return (
        f"; the gradient's noise is as long as the gradient at some {scale:.2g} images a step, and batches well below "
        "that are expected to lose nothing where the learning rate fits them"
    )


def slots_scatter(found: BatchFindings) -> Verdict:
    """Paper 1: that a small batch holds few timesteps is what makes it noisy."""
    row = found.row(found.baseline)
    evidence = Evidence(row["between_share"] - 0.5, row["between_share_stderr"])
    cells = len(found.gradients["cells"])
    share = plus_minus(100 * row["between_share"], 100 * row["between_share_stderr"])
    return Verdict(
        "timesteps_scatter_gradients",
        1,
        "A small batch's gradient scatters because its timesteps differ, more than because its images do",
        decide([evidence]),
        {"between_percent": 100 * row["between_share"], "variance": row["variance"]},
        f"{share} % of the variance of a batch of {row['batch']:g} lies between cells of timesteps; all else is "
        "scatter of images and noise within cells, which no choice of timesteps evens out",
        f"share of the variance that lies between {cells} cells of timesteps against one half, {JACKKNIFE}",
    )


def slots_oppose(found: BatchFindings) -> Verdict:
    """Paper 1: a step for one slot destroys what was learned for another."""
    evidence = [Evidence(-cosine, error) for cosine, error in pairs_of_slots(found.gradients)]
    sides = tally(evidence)
    values = [-one.difference for one in evidence]
    return Verdict(
        "slots_oppose",
        1,
        "Mean gradients of different slots point against each other",
        decide(evidence),
        sides | {"mean_cosine": float(np.mean(values)), "least_cosine": min(values), "largest_cosine": max(values)},
        f"of {len(evidence)} pairs of slots {sides['for']:g} have a negative cosine, {sides['against']:g} a positive "
        f"one, the others lie within 2 errors of 0; mean {signed(float(np.mean(values)))}, from {signed(min(values))} "
        f"to {signed(max(values))}",
        f"cosine of the slots' mean gradients, free of the bias of noise, against {JACKKNIFE}; {SEVERAL}",
    )


def pairs_of_slots(gradients: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Cosine and its error of every pair of slots whose mean gradients stand out of the noise."""
    cosines, errors = gradients["cosines"], gradients["cosines_stderr"]
    table = [(cosines[i][j], errors[i][j]) for i in range(len(cosines)) for j in range(i)]
    return [(value, error) for value, error in table if value is not None and error is not None]


def accumulation_restores(found: BatchFindings, accumulated: Sequence[str]) -> Verdict:
    """Whether parts that are accumulated give what the whole batch gives."""
    evidence = []
    for one in accumulated:
        difference = found.gain((found.baseline, one), (found.baseline, whole(one)))
        allowed = SAME * found.mean(found.baseline, whole(one))
        evidence.append(Evidence(allowed - abs(difference.difference), difference.spread))
    shown = (
        f"{one} {fid(found, found.baseline, one)} against {whole(one)} {fid(found, found.baseline, whole(one))}"
        for one in accumulated
    )
    return Verdict(
        "accumulation_restores",
        None,
        "Gradient accumulation gives a small batch what the large one has",
        decide(evidence),
        tally(evidence) | {f"fid_{one}": found.mean(found.baseline, one) for one in accumulated},
        f"{', '.join(shown)}; both see the same images, noise and timesteps in every step",
        f"{SAME:.0%} of FID minus the difference, mean over {SEEDS}".replace("%", " %", 1),
    )


def pays(found: BatchFindings, recipe: str) -> Verdict:
    """Whether a sampler ends with a lower FID than the baseline's, batch by batch."""
    by_batch = {one: found.gain((recipe, one), (found.baseline, one)) for one in found.batches}
    evidence = list(by_batch.values())
    shown = (
        f"at {batch} {fid(found, recipe, batch)} against {fid(found, found.baseline, batch)} "
        f"({signed(-one.difference)}, {side(one)})"
        for batch, one in by_batch.items()
    )
    return Verdict(
        f"{recipe}_pays",
        1 if recipe.startswith("stratified") else None,
        f"{label(recipe).capitalize()} timesteps end with a lower FID than {label(found.baseline)} ones, "
        "for as many images",
        decide(evidence),
        tally(evidence) | {f"difference_{batch}": -one.difference for batch, one in by_batch.items()},
        f"FID {', '.join(shown)}",
        f"difference of FID at each batch, mean over {SEEDS}; {SEVERAL}",
    )


def adaptive_is_least(found: BatchFindings) -> Verdict:
    """Whether the sampler that is built for least variance has it."""
    sizes = [order(one)[0] for one in found.batches]
    others = [one for one in found.comparable if one != "adaptive"]
    evidence = [less_variance(found, "adaptive", other, size) for size in sizes for other in others]
    best = {other: found.row(other, sizes[0])["relative_variance"] for other in ("adaptive", *others)}
    return Verdict(
        "adaptive_has_least_variance",
        None,
        "Adaptive timesteps have the least gradient variance of all samplers with the gradient of uniform ones",
        decide(evidence),
        tally(evidence) | {f"variance_{name}": value for name, value in best.items()},
        f"of uniform's variance at a batch of {sizes[0]}: "
        + ", ".join(f"{label(name)} {value:.3g}" for name, value in sorted(best.items(), key=lambda one: one[1])),
        f"difference of relative variance, at each batch and from each sampler, against {JACKKNIFE}; {SEVERAL}",
    )


def less_variance(found: BatchFindings, first: str, second: str, size: int) -> Evidence:
    """By how much the variance of one sampler lies below another's, of uniform's."""
    ours, theirs = found.row(first, size), found.row(second, size)
    spread = combined(ours["relative_variance_stderr"], theirs["relative_variance_stderr"])
    return Evidence(theirs["relative_variance"] - ours["relative_variance"], spread)


def variance_ranks(found: BatchFindings) -> Verdict:
    """Whether the order of samplers by gradient variance is their order by FID."""
    by_seed = correlations(found)
    evidence, shown = paired(by_seed), ", ".join(map(signed, by_seed))
    return Verdict(
        "variance_ranks",
        None,
        "A sampler with less gradient variance ends with a lower FID",
        decide([evidence]),
        {"rank_correlation": evidence.difference, "samplers": float(len(found.comparable))},
        f"rank correlation of gradient variance and FID over {len(found.comparable)} samplers with the gradient of "
        f"uniform timesteps: {signed(evidence.difference)} (by training seed {shown})",
        "Spearman's correlation, mean over batches, then over training seeds, against the 95 % interval of the latter "
        "(Student's t); variance was measured at the start, before Adam's scaling and before clipping",
    )


def correlations(found: BatchFindings) -> list[float]:
    """Spearman's rank correlation of variance and FID for each training seed, mean over the batches of the grid."""
    by_batch = []
    for batch in found.batches:
        size = order(batch)[0]
        variances = [found.row(one, size)["relative_variance"] for one in found.comparable]
        fids = np.array([found.fids[one, batch] for one in found.comparable])
        by_batch.append([spearman(variances, column) for column in fids.T])
    means: list[float] = np.mean(by_batch, axis=0).tolist()
    return means


def spearman(first: Sequence[float], second: np.ndarray) -> float:
    """Correlation of ranks."""
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def side(evidence: Evidence) -> str:
    """What a comparison says, in a word."""
    return {1: "better", -1: "worse", 0: "undecided"}[evidence.side]
