"""Decide the claims about consistency and smoothness, draw the pictures and write the page that holds both."""

from functools import partial

from unequal.files import write_bytes
from unequal.pipeline.stage import Run, stage
from unequal.reporting.consistency import figures
from unequal.reporting.consistency.claims import verdicts
from unequal.reporting.consistency.findings import Findings, read_findings
from unequal.reporting.consistency.tables import conditions, tables
from unequal.reporting.figures import save
from unequal.reporting.page import Picture, render
from unequal.reporting.verdicts import verdict_document
from unequal.settings.strict import StageSettings, key

TITLE = "Consistency: the same noise, the same picture?"
NOTE = (
    "All models are trained on the same images by one recipe; verdicts speak for these. Pairs share their models, so "
    "that spreads over pairs are standard deviations, and no standard errors."
)
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
    found = read_findings(run.input, settings.widths, settings.seeds)
    decided, shown = verdicts(found), draw(run, found)
    lead = f"{len(settings.seeds)} training seeds of {len(settings.widths)} widths, shown the same noise."
    page = render(TITLE, lead, decided, NOTE, tables(found), conditions(found), shown)
    write_bytes(run.output("results/report.html"), page.encode())
    document = verdict_document(decided)
    run.metrics("results/verdicts.json", document, {f"claims_{word}": n for word, n in document["counts"].items()})
    run.parent_artifacts(["results/report.html", "results/pictures"])


def draw(run: Run, found: Findings) -> list[Picture]:
    """All pictures, in the order of the page."""
    folder = run.output("results/pictures")
    return [
        Picture(save(folder / f"{name}.png", size, partial(figure, found=found)), heading, caption)
        for name, (size, figure, heading, caption) in PICTURES.items()
    ]


if __name__ == "__main__":
    main()
