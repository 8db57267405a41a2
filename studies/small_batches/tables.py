"""What small batches lose, as tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.grid.settings import parsed_batch
from studies.small_batches.findings import BatchFindings, fid, order
from unequal.reporting.page import Table
from unequal.reporting.tables import label, plus_minus, with_prefix


def tables(found: BatchFindings) -> list[Table]:
    """All tables of the page."""
    return [samplers_table(found), batches_table(found), slots_table(found)]


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
    share = found.slots.shares
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
        for number, (first, last) in enumerate(found.slots, 1)
    ]
    columns = ("slot", "timesteps", "share of timesteps", "E‖g‖²", "‖E g‖²", "share of E‖g‖² under uniform timesteps")
    return Table("Gradients of single images, slot by slot", columns, rows, SLOTS_NOTE)


SLOTS_NOTE = (
    "g is the gradient of one image's loss at one timestep; ± is the jackknife error. Where E‖g‖² is hundreds of times "
    "‖E g‖², a batch must hold hundreds of images before its gradient shows more than noise."
)


def trial_rows(found: BatchFindings, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Every training's FID as a row of a CSV."""
    return [
        {"recipe": recipe, "batch": batch, "images_a_step": order(batch)[0], "seed": seed, "fid": value}
        for (recipe, batch), values in found.fids.items()
        for seed, value in zip(seeds, values, strict=True)
    ]
