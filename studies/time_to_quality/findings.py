"""Time to quality: after how many images a recipe reaches the FID with which its baseline ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from unequal.reporting.figures import colour, log_scale
from unequal.reporting.tables import label, mean_and_sd, sd, with_prefix
from unequal.reporting.verdicts import SPREADS, Evidence, Verdict, decide, known_limit, paired, signed

#: What the paper reports: 2 to 2.6 times fewer images on CIFAR-10 and ImageNet-128.
REPORTED = (2.0, 2.6)
COLUMNS = ("recipe", "batch", "images seen", "final FID", "FID above the baseline's", "speed-up", "reached it")


class Trial(NamedTuple):
    """FID along one training: images seen, rising, and the FID there."""

    images: tuple[int, ...]
    fid: tuple[float, ...]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Trial":
        """From the content of results/trials/<name>.json."""
        points = facts["points"]
        return cls(tuple(one["images_seen"] for one in points), tuple(one["fid_mean"] for one in points))


@dataclass(frozen=True)
class Comparison:
    """A recipe against its baseline at one batch, over training seeds that both share.

    Attributes:
        fids, baseline_fids: final FID of each seed.
        images: images of a whole training.
        reached: images after which each seed met the baseline's final FID, None where it never did.
    """

    recipe: str
    baseline: str
    batch: str
    images: int
    fids: tuple[float, ...]
    baseline_fids: tuple[float, ...]
    reached: tuple[float | None, ...]

    @property
    def speed_ups(self) -> list[float]:
        """Images of the baseline over images of the recipe for the same FID, for the seeds that reached it."""
        return [self.images / count for count in self.reached if count is not None]

    @property
    def evidence(self) -> Evidence:
        """By how much the recipe's final FID lies below the baseline's, paired by seed, at equal images."""
        return paired([theirs - ours for ours, theirs in zip(self.fids, self.baseline_fids, strict=True)])


def images_to_reach(trial: Trial, target: float) -> float | None:
    """Images after which FID first falls to a target, None where it never does.

    Between two points log FID is taken as linear in log images; before the first nothing is known,
    so that its own images are the answer there.
    """
    images, fid = np.log(trial.images), np.log(trial.fid)
    goal = np.log(target)
    below = np.flatnonzero(fid <= goal)
    if not len(below):
        return None
    first = int(below[0])
    if first == 0:
        return float(trial.images[0])
    share = (fid[first - 1] - goal) / (fid[first - 1] - fid[first])
    return float(np.exp(images[first - 1] + share * (images[first] - images[first - 1])))


def compare(recipe: str, baseline: str, batch: str, trials: Mapping[tuple[str, str], Sequence[Trial]]) -> Comparison:
    """A recipe against its baseline; `trials` holds those of (recipe, batch), in the order of seeds."""
    ours, theirs = trials[recipe, batch], trials[baseline, batch]
    target = float(np.mean([one.fid[-1] for one in theirs]))
    return Comparison(
        recipe,
        baseline,
        batch,
        theirs[0].images[-1],
        tuple(one.fid[-1] for one in ours),
        tuple(one.fid[-1] for one in theirs),
        tuple(images_to_reach(one, target) for one in ours),
    )


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


def rows(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The comparisons as rows of a CSV; spreads are standard deviations over training seeds."""
    return [
        {
            "recipe": one.recipe,
            "baseline": one.baseline,
            "batch": one.batch,
            "images": one.images,
            "fid_mean": float(np.mean(one.fids)),
            "fid_sd": sd(one.fids),
            "baseline_fid_mean": float(np.mean(one.baseline_fids)),
            "baseline_fid_sd": sd(one.baseline_fids),
            "speed_up_mean": float(np.mean(one.speed_ups)) if one.speed_ups else "",
            "speed_up_sd": sd(one.speed_ups) if len(one.speed_ups) > 1 else "",
            "seeds": len(one.fids),
            "seeds_that_reached_it": len(one.speed_ups),
        }
        for one in comparisons
    ]


def table_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The same as cells for people."""
    return [
        (
            label(one.recipe),
            one.batch,
            with_prefix(one.images),
            mean_and_sd(one.fids),
            mean_and_sd([ours - theirs for ours, theirs in zip(one.fids, one.baseline_fids, strict=True)], signed=True),
            f"{mean_and_sd(one.speed_ups)} ×" if one.speed_ups else "–",
            f"{len(one.speed_ups)} of {len(one.reached)}",
        )
        for one in comparisons
    ]


def baseline_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The baselines, one row a batch, for the same table."""
    once = {(one.baseline, one.batch): one for one in comparisons}
    return [
        (label(name), batch, with_prefix(one.images), mean_and_sd(one.baseline_fids), "0", "1 ×", "–")
        for (name, batch), one in once.items()
    ]


def curves(figure: Figure, trials: Mapping[tuple[str, str], Sequence[Trial]]) -> None:
    """FID over images seen, a panel a batch: the mean of the seeds as a line, every seed as a point."""
    batches = list(dict.fromkeys(batch for _, batch in trials))
    panels: list[Axes] = list(figure.subplots(1, len(batches), sharey=True, squeeze=False)[0])
    for axes, batch in zip(panels, batches, strict=True):
        for (recipe, at), found in trials.items():
            if at == batch:
                mean, ink = np.mean([one.fid for one in found], 0), colour(recipe)
                axes.plot(found[0].images, mean, color=ink, linewidth=1.8, label=label(recipe))
                for one in found:
                    axes.plot(one.images, one.fid, linestyle="", marker="o", markersize=2.6, color=ink, alpha=0.6)
        log_scale(axes, "{:g}")
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.set_xlabel("images seen")
        axes.set_title(f"batch {batch}", loc="left", fontsize=10)
    panels[0].set_ylabel("FID (lower is better)")
    # Below the panels: among the lines it would cover some.
    named = panels[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=min(5, len(named[0])))
