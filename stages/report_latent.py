"""Decide what can be told of diffusion in latents, draw the pictures and write the page that holds both."""

from functools import partial

from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import write_bytes, write_csv
from unequal.pipeline.stage import Run, stage
from unequal.reporting.figures import picture_grid, save
from unequal.reporting.groups import CAPTION, timestep_groups
from unequal.reporting.latent import (
    NOTE,
    TITLE,
    Findings,
    autoencoder_table,
    conditions,
    limits_table,
    read_findings,
    scores_table,
    verdicts,
)
from unequal.reporting.page import Picture, render
from unequal.reporting.profiles import SPACES_CAPTION, losses_table, space_profiles
from unequal.reporting.tables import fid_rows, label
from unequal.reporting.verdicts import verdict_document
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings

SAMPLES_CAPTION = (
    "Samples",
    "Held-out images; the same encoded and decoded again; samples of every variant, each column from one noise.",
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    profiled_models: tuple[str, ...]
    variants: tuple[str, ...]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    found = read_findings(run.input, schedule, settings.profiled_models, settings.variants)
    decided, drawn = verdicts(found), pictures(run, found)
    losses = losses_table(found.losses, found.floor, found.schedule)
    tables = [scores_table(found), autoencoder_table(found), losses, limits_table(found)]
    shape = "×".join(map(str, found.autoencoder["latent_shape"]))
    lead = f"{len(found.variants)} variants that work in latents of {shape} values."
    page = render(TITLE, lead, decided, NOTE, tables, conditions(found), drawn)
    write_bytes(run.output("results/report.html"), page.encode())
    write_csv(run.output("results/fid.csv"), fid_rows(list(found.variants.values())))
    document = verdict_document(decided)
    run.metrics("results/verdicts.json", document, {f"claims_{word}": n for word, n in document["counts"].items()})
    run.parent_artifacts(["results/report.html", "results/pictures"])


def pictures(run: Run, found: Findings) -> list[Picture]:
    """All pictures, in the order of the page."""
    folder = run.output("results/pictures")
    spaces = partial(space_profiles, losses=found.losses, floor=found.floor, schedule=found.schedule)
    groups = partial(timestep_groups, groups=found.groups, shares=found.group_shares)
    grid = partial(picture_grid, rows={label(name): images for name, images in found.samples.items()})
    return [
        Picture(save(folder / "loss_spaces.png", (10.5, 4.2), spaces), *SPACES_CAPTION),
        Picture(save(folder / "groups.png", (8.4, 5.6), groups), *CAPTION),
        Picture(save(folder / "samples.png", (8.4, 4.6), grid), *SAMPLES_CAPTION),
    ]


if __name__ == "__main__":
    main()
