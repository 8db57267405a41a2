"""Say what training on some timesteps does to the losses of the others, on one page."""

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from unequal.files import write_bytes, write_csv
from unequal.measures.loss_profile import LossProfile
from unequal.pipeline.stage import Run, stage
from unequal.reporting import figures, interference
from unequal.reporting.claims import losses_differ, slot_verdicts
from unequal.reporting.page import Picture, render
from unequal.reporting.profiles import comparison_rows, losses_table, slot_strips, slots_table, space_profiles
from unequal.reporting.trained_on import TrainedOn, read_trained_on
from unequal.reporting.verdicts import Verdict, verdict_document
from unequal.settings.interference import Interference
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key

TITLE = "Interference: what training on some timesteps does to the others"
LEAD = "The base, trained on inside single slots at several learning rates, and with samplers that favour one end."
NOTE = (
    "All models were measured on the same images and noise: ± is the standard error of paired draws. It holds for "
    "these weights; the spread between trainings is not in it. Claims about slots go by the recipe slot."
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    recipes: dict[str, Recipe]
    further_recipes: tuple[str, ...]
    finetuned: tuple[int, ...] = key("slots.finetune")
    interference: Interference


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    chosen = settings.interference
    found = read_trained_on(run.input, settings.recipes, settings.further_recipes, settings.finetuned, chosen)
    verdicts, summaries = decided(found), found.summaries()
    folder = run.output("results/pictures")
    drawn = [
        Picture(figures.save(folder / f"{name}.png", size, draw), *interference.caption(name))
        for name, (size, draw) in pictures(found).items()
    ]
    tables = [
        interference.summary_table(summaries),
        losses_table(found.retrained, found.floor, found.schedule),
        slots_table(found.slot_sets, found.retrained, found.floor),
    ]
    page = render(TITLE, LEAD, verdicts, NOTE, tables, found.conditions(), drawn)
    write_bytes(run.output("results/report.html"), page.encode())
    write_csv(run.output("results/interference.csv"), interference.matrix_rows(found))
    write_csv(run.output("results/interference_summary.csv"), interference.summary_rows(summaries))
    write_csv(run.output("results/loss_comparison.csv"), comparison_rows(found.retrained, found.floor))
    document = verdict_document(verdicts)
    run.metrics("results/verdicts.json", document, {f"claims_{word}": n for word, n in document["counts"].items()})
    run.parent_artifacts(["results/report.html", "results/pictures"])


def decided(found: TrainedOn) -> list[Verdict]:
    """Verdicts on all claims: the paper's, then ours."""
    base = LossProfile.of(found.base)
    verdicts = [
        losses_differ(base.mean.tolist(), base.stderr.tolist()),
        *slot_verdicts(found.changes("slot", "train")),
        *interference.verdicts(found),
    ]
    return sorted(verdicts, key=lambda verdict: verdict.paper or 4)


def pictures(found: TrainedOn) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Name → size in inches and what draws the picture, in the order of the page."""
    losses, slots, count = found.retrained, found.slots, len(found.slots)
    samplers = {name: [probabilities] for name, probabilities in found.samplers.items()}
    spaces = partial(space_profiles, losses=losses, floor=found.floor, schedule=found.schedule)
    return {
        "interference_summary": ((8.4, 3.6), partial(interference.summary_figure, summaries=found.summaries())),
        "loss_spaces": ((10.5, 4.2), spaces),
        "slots": ((8.4, 2.4), partial(slot_strips, sets=found.slot_sets, timesteps=found.schedule.timesteps)),
        "samplers": ((8.4, 3.6), partial(figures.sampler_probabilities, samplers=samplers, slots=slots)),
        "loss_changes": ((8.4, 4.8), partial(figures.loss_changes, losses=losses, slots=slots)),
        **{
            f"interference_{recipe}": (
                (8.4, 1.2 + 0.48 * len(found.finetuned)),
                partial(figures.interference, found=found.changes(recipe, "train"), count=count),
            )
            for recipe in found.slot_recipes
        },
    }


if __name__ == "__main__":
    main()
