"""What was found of consistency and smoothness, in sentences with their figures.

The unit is a training seed. Pairs share their models, so that what a mean over pairs is worth is told by leaving out
one seed after the other, with all pairs that it is in (the jackknife); intervals are Student's, of 95 %.
"""

from collections.abc import Callable, Sequence
from math import expm1, log
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from studies.consistency.findings import ReplicaFindings, Row, agreement, relative_residual, seed_of
from unequal.report.formatting import mean_and_sd
from unequal.report.statements import Section, Statement

#: Relation of a pair → what its models differ in.
CHANGED = {"seeds": "training seeds", "widths": "widths"}
LEVEL = 0.95
NOTE = (
    "All models were trained on the same images by one recipe. In brackets the 95 % interval over training seeds; ± is "
    "the standard deviation over models or pairs of them."
)


class Interval(NamedTuple):
    """A change of a mean as a logarithm, with its ends; None: too few seeds tell."""

    change: float
    ends: tuple[float, float] | None

    @classmethod
    def of(cls, change: float, stderr: float, freedom: int) -> "Interval":
        """Student's."""
        half = float(student_t.ppf((1 + LEVEL) / 2, freedom)) * stderr
        return cls(change, (change - half, change + half))

    @property
    def text(self) -> str:
        """In per cent."""
        told = f"{percent(self.change)} %"
        return told if self.ends is None else f"{told} ({' to '.join(map(percent, self.ends))} %)"

    def figures(self, name: str) -> dict[str, float]:
        """In per cent, by name."""
        ends = {} if self.ends is None else dict(zip(("low", "high"), self.ends, strict=True))
        return {f"{name}_{key}_percent": 100 * expm1(value) for key, value in ({"change": self.change} | ends).items()}


def percent(logarithm: float) -> str:
    """A change, to three digits."""
    return f"{100 * expm1(logarithm):+.3g}".replace("-", "−")


def over_seeds(rows: Sequence[Row], of: Callable[[Sequence[Row]], float]) -> Interval:
    """A figure of all pairs, and the error that leaving out the pairs of one training seed after the other tells."""
    seeds = {seed_of(row[side]) for row in rows for side in ("first", "second")} - {None}
    without = [[row for row in rows if seed not in (seed_of(row["first"]), seed_of(row["second"]))] for seed in seeds]
    if len(seeds) < 2 or not all(without):
        return Interval(of(rows), None)
    values = np.array([of(one) for one in without])
    error = float(np.sqrt((len(values) - 1) * values.var()))
    return Interval.of(of(rows), error, len(values) - 1)


def mean(rows: Sequence[Row], column: str) -> float:
    """Over pairs."""
    return fmean(row[column] for row in rows)


def same_over_other(rows: Sequence[Row]) -> float:
    """ln of the mean squared error of pictures from the same noise, over that from other noise."""
    return log(mean(rows, "mse_same") / mean(rows, "mse_other_noise"))


def sections(found: ReplicaFindings) -> list[Section]:
    """All that is said, in the order of the page."""
    told = [alike(found, relation) for relation in CHANGED if found.pairs(relation)]
    optimum = [beyond_optimum(found)] if found.pairs("optimum") else []
    return [
        Section("The same noise, the same picture?", NOTE, [*told, same_picture(found), predictions_alike(found)]),
        Section("Why?", "", [learned(found), beyond_memory(found), *optimum]),
        Section("Is the loss smooth?", "", [curvature(found), barrier(found)]),
    ]


def alike(found: ReplicaFindings, relation: str) -> Statement:
    """Paper 2: models of other seeds, or widths, make alike pictures of the same noise."""
    rows = found.pairs(relation)
    change = over_seeds(rows, same_over_other)
    same, other, again = (mean(rows, column) for column in ("mse_same", "mse_other_noise", "found_again"))
    text = (
        f"Of models of other {CHANGED[relation]}, pictures of the same noise differ by a mean squared error of "
        f"{same:.3g}, of different noise by {other:.3g}: {change.text}. Of {found.conditions['comparison']['noises']} "
        f"pictures of the other model that from the same noise is the nearest in {100 * again:.1f} % of cases."
    )
    figures = {"mse_same": same, "mse_other_noise": other, "found_again": again, "pairs": float(len(rows))}
    return Statement(f"alike_across_{relation}", text, figures | change.figures("mse"))


def same_picture(found: ReplicaFindings) -> Statement:
    """Paper 2: pictures are not only related but very similar; what is new in the data is the scale."""
    rows, scale = found.trained_pairs, found.nearest["held_out"]
    change = over_seeds(rows, lambda some: log(mean(some, "mse_same") / scale))
    text = (
        f"Two models differ by {mean(rows, 'mse_same'):.3g}, a held-out image from the nearest training image by "
        f"{scale:.3g}: {change.text}."
    )
    return Statement("same_picture", text, {"held_out_to_training": scale} | change.figures("mse"))


def predictions_alike(found: ReplicaFindings) -> Statement:
    """Paper 2: where in the sampling models agree."""
    at: dict[int, list[Row]] = {}
    for row in found.predictions:
        if row["relation"] in CHANGED:
            at.setdefault(row["timestep"], []).append(row)
    ratios = {t: mean(rows, "mse_same") / mean(rows, "mse_other_noise") for t, rows in at.items()}
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    text = (
        f"About x0 two models disagree by {ratios[low]:.2g} (t = {low}) to {ratios[high]:.2g} (t = {high}) times the "
        f"mean squared error of the same image under other noise, over {len(ratios)} timesteps."
    )
    return Statement("predictions_alike", text, {f"mse_ratio_{t}": ratio for t, ratio in ratios.items()})


def learned(found: ReplicaFindings) -> Statement:
    """Ours: some of a noise shows through any network, whether it has learned or not."""
    after, before = ([agreement(row) for row in rows] for rows in (found.trained_pairs, found.pairs("untrained")))
    text = (
        f"Agreement, 1 − MSE(same noise)/MSE(other noise), is {mean_and_sd(after)} between trained networks and "
        f"{mean_and_sd(before)} between untrained ones."
    )
    return Statement("learned", text, {"trained": fmean(after), "untrained": fmean(before)})


def beyond_memory(found: ReplicaFindings) -> Statement:
    """Ours: pictures may be alike because they are copies of the same training image."""
    rows = found.trained_pairs
    apart = mean(rows, "mse_same")
    nearest = fmean(found.nearest[row[side]] for row in rows for side in ("first", "second"))
    text = (
        f"A picture differs by {apart:.3g} from the other model's, by {nearest:.3g} from the nearest of "
        f"{found.conditions['training_images']} training images."
    )
    return Statement("beyond_memory", text, {"to_other_model": apart, "to_training": nearest})


def beyond_optimum(found: ReplicaFindings) -> Statement:
    """Ours: with one optimum for all, models could agree because they have reached it."""
    apart, optimum = (mean(rows, "mse_same") for rows in (found.trained_pairs, found.pairs("optimum")))
    text = (
        f"From the same noise two models differ by {apart:.3g}, a model and the best possible denoiser of their "
        f"training images by {optimum:.3g}."
    )
    return Statement("beyond_optimum", text, {"to_other_model": apart, "to_optimum": optimum})


def curvature(found: ReplicaFindings) -> Statement:
    """Paper 2: the loss landscape is highly smooth; random weights are what it can be compared with."""
    after, before = (
        np.array([one[state]["quotients"][-1] for one in found.points.values()]) for state in ("trained", "untrained")
    )
    unsure = max(relative_residual(one[state]) for one in found.points.values() for state in ("trained", "untrained"))
    text = (
        f"The largest eigenvalue of the loss's Hessian is {mean_and_sd(after.tolist())} after training and "
        f"{mean_and_sd(before.tolist())} at the random weights before; known within {100 * unsure:.2g} % of itself."
    )
    return Statement("curvature", text, {"trained": float(after.mean()), "untrained": float(before.mean())})


def barrier(found: ReplicaFindings) -> Statement:
    """Paper 2: training converges to similar minima."""
    heights = [100 * line["barrier"]["height"] for _, line in found.lines]
    text = (
        f"On the straight line between the weights of two seeds the loss rises by {min(heights):.3g} to "
        f"{max(heights):.3g} % above that of the ends. Channels can be permuted without changing the function, so that "
        "a way around such a rise is not ruled out."
    )
    return Statement("barrier", text, {"lowest_percent": min(heights), "highest_percent": max(heights)})
