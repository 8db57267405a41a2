"""Set the arms of a study beside their controls, from the endpoints of its trainings alone, on one page."""

from studies.blocks.figures import drawings
from studies.blocks.findings import read_found, told
from studies.blocks.judgement import families
from studies.blocks.pilot_findings import PilotFigures
from studies.blocks.settings import Blocks
from studies.blocks.tables import arms_table, family_table, first_sentence, markdown, training_rows
from unequal.artifacts.figures import read_figures
from unequal.files import write_bytes
from unequal.pipeline.stage import Run, stage
from unequal.reporting.page import Report
from unequal.reporting.publish import publish
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    judged = families(found, read_figures(run.input("results/pilot.json"), PilotFigures))
    first = first_sentence(found)
    incomplete = f" Not judged: {told(found.missing)}." if found.missing else ""
    report = Report(
        title=settings.blocks.question,
        lead=first + incomplete,
        tables=[*(family_table(one, found) for one in judged), arms_table(found)],
        conditions={key.replace("_", " "): str(value) for key, value in found.any["conditions"].items()},
        drawings=drawings(judged, found),
        rows={"trainings": training_rows(found)},
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
