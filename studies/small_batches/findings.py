"""Small batches: what the study has found, and its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.grid.settings import parsed_batch
from unequal.reporting.page import Table
from unequal.reporting.tables import label, plus_minus, with_prefix
from unequal.reporting.verdicts import Evidence, paired

#: A sampler has the gradient of uniform timesteps where its bias is below this share of that gradient's square.
UNBIASED = 1e-6


@dataclass(frozen=True)
class BatchFindings:
    """What the study has found.

    Attributes:
        fids: (recipe, batch) → final FID of every training seed, in the order of seeds.
        steps: (recipe, batch) → optimizer steps.
        baseline: the recipe that all are held against.
        recipes, batches: of the grid.
        gradients: the content of results/gradients/<model>.json.
        images: that every training saw.
    """

    fids: dict[tuple[str, str], tuple[float, ...]]
    steps: dict[tuple[str, str], int]
    baseline: str
    recipes: tuple[str, ...]
    batches: tuple[str, ...]
    gradients: dict[str, Any]
    images: int

    def gain(self, better: tuple[str, str], worse: tuple[str, str]) -> Evidence:
        """By how much the FID of one lies below that of the other, in pairs of training seeds."""
        return paired([theirs - ours for ours, theirs in zip(self.fids[better], self.fids[worse], strict=True)])

    def mean(self, recipe: str, batch: str) -> float:
        """Mean final FID over training seeds."""
        return float(np.mean(self.fids[recipe, batch]))

    @property
    def baseline_batches(self) -> list[str]:
        """All batches of the baseline, by the images of a step, whole ones before accumulated ones."""
        return sorted((batch for recipe, batch in self.fids if recipe == self.baseline), key=order)

    @property
    def others(self) -> list[str]:
        """The recipes that are held against the baseline."""
        return [recipe for recipe in self.recipes if recipe != self.baseline]

    def row(self, recipe: str, batch: int | None = None) -> dict[str, float]:
        """What was measured of a sampler's gradients at so many images a step; None: at the fewest."""
        rows = [one for one in self.gradients["batches"] if one["sampler"] == recipe]
        found: dict[str, float] = next(one for one in rows if batch is None or one["batch"] == batch)
        return found

    def keeps_the_gradient(self, recipe: str) -> bool:
        """Whether a sampler's expected gradient is that of uniform timesteps."""
        uniform = self.row(self.baseline)["mean_square"]
        return abs(self.row(recipe)["bias"]) <= UNBIASED * max(uniform, np.finfo(float).tiny)

    @property
    def comparable(self) -> list[str]:
        """Recipes whose gradients differ in their variance alone, and whose gradients were measured."""
        measured = {one["sampler"] for one in self.gradients["batches"]}
        return [one for one in self.recipes if one in measured and self.keeps_the_gradient(one)]


def order(batch: str) -> tuple[int, int]:
    """Batches by the images of a step, then by the parts that they come in."""
    size, parts = parsed_batch(batch)
    return size * parts, parts


def whole(batch: str) -> str:
    """The batch that goes through the network at once and has as many images a step: 8x4 → 32x1."""
    size, parts = parsed_batch(batch)
    return f"{size * parts}x1"


def fid(found: BatchFindings, recipe: str, batch: str) -> str:
    """Mean ± standard deviation over training seeds."""
    values = found.fids[recipe, batch]
    return plus_minus(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


def samplers_table(found: BatchFindings) -> Table:
    """FID of every sampler at every batch, and what its gradients scatter."""
    size = parsed_batch(found.batches[0])[0]
    columns = ("sampler", *(f"FID at {one}" for one in found.batches), f"gradient variance at {size}, of uniform's")
    rows = []
    for recipe in found.recipes:
        row = found.row(recipe, size)
        variance = plus_minus(row["relative_variance"], row["relative_variance_stderr"] or None)
        mark = "" if found.keeps_the_gradient(recipe) else " (another gradient)"
        rows.append((label(recipe), *(fid(found, recipe, one) for one in found.batches), f"{variance}{mark}"))
    return Table("Samplers", columns, rows, SAMPLERS_NOTE)


SAMPLERS_NOTE = (
    "FID: mean ± standard deviation over training seeds. Variance of the gradient of one batch, measured at the base "
    "from which all trainings start, ± jackknife error; where a sampler changes the expected gradient itself, its "
    "variance does not compare. What the adaptive sampler measures counts in its images."
)


def batches_table(found: BatchFindings) -> Table:
    """The baseline at every batch, accumulated ones beside whole ones."""
    rows = [
        (one, str(order(one)[0]), str(found.steps[found.baseline, one]), fid(found, found.baseline, one))
        for one in found.baseline_batches
    ]
    columns = ("batch", "images a step", "steps", "FID")
    note = f"{with_prefix(found.images)} images each; 8x4 is four parts of 8 images, accumulated before a step."
    return Table(f"{label(found.baseline).capitalize()} timesteps, batch by batch", columns, rows, note)


def slots_table(found: BatchFindings) -> Table:
    """Lengths of gradients, slot by slot, and what each slot has of a uniform batch's variance."""
    facts = found.gradients
    share = slot_shares(facts["slots"])
    parts = share * np.array(facts["second_moment"])
    rows = [
        (
            str(number),
            f"{first} … {last}",
            f"{100 * share[number - 1]:.3g} %",
            plus_minus(facts["second_moment"][number - 1], facts["second_moment_stderr"][number - 1]),
            plus_minus(facts["mean_square"][number - 1], facts["mean_square_stderr"][number - 1]),
            f"{100 * parts[number - 1] / parts.sum():.3g} %",
        )
        for number, (first, last) in enumerate(facts["slots"], 1)
    ]
    columns = ("slot", "timesteps", "share of timesteps", "E‖g‖²", "‖E g‖²", "share of E‖g‖² under uniform timesteps")
    return Table("Gradients of single images, slot by slot", columns, rows, SLOTS_NOTE)


SLOTS_NOTE = (
    "g is the gradient of one image's loss at one timestep; ± is the jackknife error. Where E‖g‖² is hundreds of times "
    "‖E g‖², a batch must hold hundreds of images before its gradient shows more than noise."
)


def slot_shares(slots: Sequence[Sequence[int]]) -> np.ndarray:
    """Share of all timesteps that each slot holds."""
    lengths = np.array([last - first + 1 for first, last in slots])
    return np.asarray(lengths / lengths.sum())


def trial_rows(found: BatchFindings, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Every training's FID as a row of a CSV."""
    return [
        {"recipe": recipe, "batch": batch, "images_a_step": order(batch)[0], "seed": seed, "fid": value}
        for (recipe, batch), values in found.fids.items()
        for seed, value in zip(seeds, values, strict=True)
    ]
