"""Say what training on some timesteps does to the losses of the others, on one page."""

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from studies.interference.claims import verdicts
from studies.interference.figures import caption, summary_figure
from studies.interference.findings import TrainedOn, read_trained_on
from studies.interference.settings import Interference
from studies.interference.tables import matrix_rows, summary_rows, summary_table
from unequal.measures.loss_profile import LossProfile
from unequal.pipeline.stage import Run, stage
from unequal.reporting import figures
from unequal.reporting.claims import losses_differ, slot_verdicts
from unequal.reporting.page import Drawing, Report
from unequal.reporting.profiles import comparison_rows, losses_table, slot_strips, slots_table, space_profiles
from unequal.reporting.publish import publish
from unequal.reporting.verdicts import Verdict
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key

TITLE = "Interference: what training on some timesteps does to the others"
LEAD = "The base, trained on inside single slots at several learning rates, and with samplers that favour one end."
NOTE = (
    "All models were measured on the same images and noise: ± is the standard error of paired draws. It holds for "
    "these weights; the spread between trainings is not in it. Claims about slots go by the recipe slot."
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    recipes: dict[str, Recipe]
    further_recipes: tuple[str, ...]
    finetuned: tuple[int, ...] = key("slots.finetune")
    interference: Interference


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    found = read_trained_on(
        run.input,
        settings.schedule.tables(),
        settings.recipes,
        settings.further_recipes,
        settings.finetuned,
        settings.interference,
    )
    summaries = found.summaries()
    report = Report(
        title=TITLE,
        lead=LEAD,
        verdicts=decided(found),
        note=NOTE,
        tables=[
            summary_table(summaries),
            losses_table(found.retrained, found.floor, found.schedule),
            slots_table(found.slot_sets, found.retrained, found.floor),
        ],
        conditions=found.conditions(),
        drawings=[Drawing(name, *drawn, *caption(name)) for name, drawn in pictures(found).items()],
        rows={
            "interference": matrix_rows(found),
            "interference_summary": summary_rows(summaries),
            "loss_comparison": comparison_rows(found.retrained, found.floor),
        },
    )
    publish(run, report)


def decided(found: TrainedOn) -> list[Verdict]:
    """Verdicts on all claims: the paper's, then ours."""
    base = LossProfile.of(found.base)
    all_verdicts = [
        losses_differ(base.mean.tolist(), base.stderr.tolist()),
        *slot_verdicts(found.changes("slot", "train")),
        *verdicts(found),
    ]
    return sorted(all_verdicts, key=lambda verdict: verdict.paper or 4)


def pictures(found: TrainedOn) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Name → size in inches and what draws the picture, in the order of the page."""
    losses, slots, count = found.retrained, found.slots, len(found.slots)
    samplers = {name: [probabilities] for name, probabilities in found.samplers.items()}
    spaces = partial(space_profiles, losses=losses, floor=found.floor, schedule=found.schedule)
    return {
        "interference_summary": ((8.4, 3.6), partial(summary_figure, summaries=found.summaries())),
        "loss_spaces": ((10.5, 4.2), spaces),
        "slots": ((8.4, 2.4), partial(slot_strips, sets=found.slot_sets, timesteps=found.schedule.timesteps)),
        "samplers": ((8.4, 3.6), partial(figures.sampler_probabilities, samplers=samplers, slots=slots)),
        "loss_changes": ((8.4, 4.8), partial(figures.loss_changes, losses=losses, slots=slots)),
        **{
            f"interference_{recipe}": (
                (8.4, 1.2 + 0.48 * len(found.finetuned)),
                partial(figures.slot_changes, found=found.changes(recipe, "train"), count=count),
            )
            for recipe in found.slot_recipes
        },
    }


if __name__ == "__main__":
    main()
