"""Say what ranges of timesteps contribute to enlarged images, and whether the networks are worth asking."""

from collections.abc import Mapping
from typing import Any

from studies.contribution.figures import drawings
from studies.contribution.findings import ModelRuns
from studies.contribution.statements import sections
from studies.contribution.tables import coefficient_rows, csv_rows, prediction_table, range_table
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json, read_npz
from unequal.pipeline.stage import Run, stage
from unequal.report.page import Report, publish
from unequal.settings.strict import StageSettings, key

TITLE = "Which timesteps contribute to an enlarged image?"
TABLES = ("psnr", "colour_shift", "low_psnr", "low_colour_shift", "samples", "low", "truth")


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    recipes: tuple[str, ...] = key("grid.recipes")
    batches: tuple[str, ...] = key("grid.batches")
    seeds: tuple[int, ...] = key("grid.seeds")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    data = PreparedData.open(run.input("artifacts/data"))
    tables, results = run.input("artifacts/contribution"), run.input("results/contribution")
    names = [
        f"{recipe}_batch_{batch}_seed_{seed}"
        for recipe in settings.recipes
        for batch in settings.batches
        for seed in settings.seeds
    ]
    facts = {name: read_json(results / f"{name}.json") for name in names}
    arrays = {name: read_npz(tables / f"{name}.npz", TABLES) for name in names}
    trainings = [ModelRuns.of(facts[name], arrays[name]) for name in names]
    one = facts[names[0]]
    schedule = NoiseSchedule.named(one["schedule"], one["timesteps"], one.get("shift"))
    report = Report(
        title=TITLE,
        lead=f"{len(trainings)} trainings enlarged {one['images']} held-out images "
        f"{one['super_resolution_factor']} times.",
        sections=sections(trainings, schedule),
        tables=[range_table(trainings), prediction_table(trainings)],
        conditions=conditions(data.facts, one, settings),
        drawings=drawings(trainings, schedule, list(arrays.values())),
        rows={"contribution": csv_rows(trainings), "coefficients": coefficient_rows(schedule)},
    )
    publish(run, report)


def conditions(data: Mapping[str, Any], facts: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """What the figures mean nothing without."""
    n_train, n_held = (last - first for first, last in (data["split"]["train"], data["split"]["holdout"]))
    size = "×".join(map(str, reversed(data["shape"])))
    return {
        "data": f"{data['source']}, {n_train} training and {n_held} held-out images, {size} values each",
        "images": f"n = {facts['images']} held-out ones, the same with the same noise in every run; "
        "± is the standard error over them",
        "task": f"super-resolution by {facts['super_resolution_factor']}: means over areas, enlarged bilinearly, "
        "seen beside x_t",
        "training seeds": ", ".join(map(str, settings.seeds)),
        "batches": ", ".join(settings.batches),
        "images seen": f"{facts['total_images']} a training",
        "sampling": f"all T = {facts['timesteps']} steps of the {facts['schedule']} schedule, η = {facts['eta']:g}, "
        f"predicted images {'clipped' if facts['clip'] else 'not clipped'}, noise of seed {facts['noise_seed']}",
    }


if __name__ == "__main__":
    main()
