"""Say what can be told of diffusion in latents, draw the pictures and write the page that holds both."""

from studies.latent.figures import drawings
from studies.latent.findings import conditions, read_results
from studies.latent.statements import sections
from studies.latent.tables import autoencoder_table, limits_table, scores_table
from unequal.pipeline.stage import Run, stage
from unequal.report.page import Report, publish
from unequal.report.pipeline_tables import fid_rows, losses_table
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings

TITLE = "Diffusion in latents: timesteps are unequal there too"


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    profiled_models: tuple[str, ...]
    variants: tuple[str, ...]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    schedule = settings.schedule.tables()
    found = read_results(run.input, schedule, settings.profiled_models, settings.variants)
    shape = "×".join(map(str, found.autoencoder["latent_shape"]))
    losses = losses_table(found.losses, found.floor, found.schedule)
    report = Report(
        title=TITLE,
        lead=f"{len(found.variants)} variants that work in latents of {shape} values.",
        sections=sections(found),
        tables=[scores_table(found), autoencoder_table(found), losses, limits_table(found)],
        conditions=conditions(found),
        drawings=drawings(found),
        rows={"fid": fid_rows(list(found.variants.values()))},
    )
    publish(run, report)


if __name__ == "__main__":
    main()
