"""Set arms beside their controls, say what the study says of them, and show by what mechanism, on one page."""

from studies.blocks.figures import drawings
from studies.blocks.findings import read_found, told
from studies.blocks.judgement import families
from studies.blocks.settings import Blocks
from studies.blocks.tables import arms_table, family_table, first_sentence, markdown, training_rows
from studies.small_batches import figures, tables
from studies.small_batches.densities import Densities
from studies.small_batches.findings import read_gradients, read_retrained
from studies.small_batches.settings import Retraining
from unequal.files import read_json, write_bytes
from unequal.pipeline.stage import Run, stage
from unequal.reporting.page import Report
from unequal.reporting.publish import publish
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks
    measured: tuple[str, ...] = key("gradients.arms")
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    judged = families(found, read_json(run.input("results/pilot.json")))
    densities = Densities.load(run.input("results/densities.json"))
    gradients = read_gradients(run.input("results/gradients"), settings.measured, found.complete)
    chosen, folders = settings.retraining, (run.input("results/retrained"), run.input("results/pictures_of"))
    retrained = read_retrained(*folders, chosen.arms, chosen.ways, found.complete)
    first = first_sentence(found)
    incomplete = f" Not judged: {told(found.missing)}." if found.missing else ""
    compared = [family_table(one, found) for one in judged]
    mechanism = [tables.gradients_table(gradients), tables.retrained_table(retrained)]
    report = Report(
        title=settings.blocks.question,
        lead=first + incomplete,
        tables=[*compared, *mechanism, arms_table(found)],
        conditions={key.replace("_", " "): str(value) for key, value in found.any["conditions"].items()},
        drawings=[*drawings(judged, found), *figures.drawings(densities, gradients, retrained)],
        rows={
            "trainings": training_rows(found),
            "gradients": tables.gradient_rows(gradients),
            "retrained": tables.retrained_rows(retrained),
        },
    )
    publish(run, report)
    write_bytes(run.output("results/findings.md"), markdown(judged, first).encode())
    words = {one.endpoint: one.document() for one in judged}
    run.metrics(
        "results/findings.json",
        {"first": first, "blocks": list(found.complete), "incomplete": {str(k): v for k, v in found.missing.items()}}
        | {"endpoints": words},
    )


if __name__ == "__main__":
    main()
