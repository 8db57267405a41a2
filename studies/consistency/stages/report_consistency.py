"""Say what was found of consistency and smoothness, draw the pictures and write the page that holds both."""

from functools import partial

from studies.consistency import figures
from studies.consistency.findings import ReplicaFindings, read_results
from studies.consistency.statements import sections
from studies.consistency.tables import conditions, tables
from unequal.pipeline.stage import Run, stage
from unequal.report.page import Drawing, Report, publish
from unequal.settings.strict import StageSettings, key

TITLE = "Consistency: the same noise, the same picture?"
#: File → size in inches, what draws it, heading and caption.
PICTURES = {
    "pictures": (
        (8.4, 5.2),
        figures.grid,
        "Pictures of the same noise",
        "Every column starts from one noise, every row is a model; the best denoiser is the best possible one of the "
        "training images. Last row: the training images nearest to the first model's pictures.",
    ),
    "predictions": (
        (10, 4),
        figures.predictions,
        "Agreement about x0 at every timestep",
        "Likeness of what two models predict from the same noisy held-out image; dashed and dotted, from other noise. "
        "Lines are means over pairs, bands hold all pairs. Near the data every model finds the image that it is shown. "
        "Where models predict the noise, their errors enter x0 multiplied by σ/α, which grows towards T and hides what "
        "they agree about there.",
    ),
    "lines": (
        (8.4, 4.2),
        figures.lines,
        "Loss between two models",
        "Training loss on the straight line between the weights of two training seeds, every pair of each width.",
    ),
    "convergence": (
        (8.4, 5.2),
        figures.convergence,
        "Convergence of the power iterations",
        "Above, the quotients, of which the last is taken as the largest eigenvalue; below, the residual, within which "
        "an eigenvalue is bound to lie. The first quotient, of a random direction, estimates the mean eigenvalue.",
    ),
}


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    widths: tuple[str, ...] = key("consistency.widths")
    seeds: tuple[int, ...] = key("consistency.seeds")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    found = read_results(run.input, settings.widths, settings.seeds)
    lead = f"{len(settings.seeds)} training seeds of {len(settings.widths)} widths, shown the same noise."
    report = Report(
        title=TITLE,
        lead=lead,
        sections=sections(found),
        tables=tables(found),
        conditions=conditions(found),
        drawings=drawings(found),
        rows={},
    )
    publish(run, report)


def drawings(found: ReplicaFindings) -> list[Drawing]:
    """All pictures, in the order of the page."""
    return [
        Drawing(name, size, partial(figure, found=found), heading, caption)
        for name, (size, figure, heading, caption) in PICTURES.items()
    ]


if __name__ == "__main__":
    main()
