"""Say what small batches lose, what scatters their gradients and which sampler mends it, on one page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from studies.small_batches import claims, figures
from studies.small_batches.findings import BatchFindings
from studies.small_batches.tables import tables, trial_rows
from unequal.data.prepared import PreparedData
from unequal.files import read_json
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.page import Drawing, Report
from unequal.reporting.publish import publish
from unequal.settings.strict import StageSettings, key

TITLE = "Small batches: what they lose, and what a timestep sampler can mend"
NOTE = (
    "± of a FID is the standard deviation over training seeds: other batches and other noise, from the same base and "
    "on the same data. Recipes share their seeds, so differences are judged in pairs. Gradients were measured once, at "
    "the base; training then clips them and scales them by Adam's second moments: variance is not the whole story."
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    recipes: tuple[str, ...] = key("grid.recipes")
    batches: tuple[str, ...] = key("grid.batches")
    seeds: tuple[int, ...] = key("grid.seeds")
    baselines: tuple[str, ...] = key("small_batches.baselines")
    further: tuple[str, ...] = key("small_batches.batches")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    data = PreparedData.open(run.input("artifacts/data"))
    trials, training = run.input("results/trials"), run.input("results/metrics")
    found = read(trials, training, read_json(run.input("results/gradients/base.json")), settings)
    first = read_json(trials / f"{trial(found.baseline, settings.batches[0], settings.seeds[0])}.json")
    report = Report(
        title=TITLE,
        lead=f"{len(found.fids)} recipes and batches, {len(settings.seeds)} training seeds each, at equal images.",
        verdicts=claims.verdicts(found),
        note=NOTE,
        tables=tables(found),
        conditions=scoring_conditions(data.facts, first) | training_conditions(found, settings),
        drawings=[Drawing(name, *drawn, *figures.CAPTIONS[name]) for name, drawn in pictures(found).items()],
        rows={"small_batches": trial_rows(found, settings.seeds)},
    )
    publish(run, report)


def read(trials: Path, training: Path, gradients: dict[str, object], settings: Settings) -> BatchFindings:
    """All trainings of the grid, and those of the baseline at further batches."""
    names = [(recipe, batch) for recipe in settings.recipes for batch in settings.batches]
    names += [(recipe, batch) for recipe in settings.baselines for batch in settings.further]
    scores = {
        name: [read_json(trials / f"{trial(*name, seed)}.json")["points"][-1] for seed in settings.seeds]
        for name in names
    }
    facts = {name: read_json(training / f"train_{trial(*name, settings.seeds[0])}.json") for name in names}
    return BatchFindings(
        fids={name: tuple(one["fid_mean"] for one in found) for name, found in scores.items()},
        steps={name: one["steps"] for name, one in facts.items()},
        baseline=settings.baselines[0],
        recipes=settings.recipes,
        batches=settings.batches,
        gradients=gradients,
        images=facts[settings.baselines[0], settings.batches[0]]["images_seen"],
    )


def trial(recipe: str, batch: str, seed: int) -> str:
    """The name of a trial's files."""
    return f"{recipe}_batch_{batch}_seed_{seed}"


def training_conditions(found: BatchFindings, settings: Settings) -> dict[str, str]:
    """How the trainings were made comparable."""
    rate = {"none": "the same at every batch", "sqrt": "times √(B/R)", "linear": "times B/R"}[settings.lr_scaling]
    return {
        "training": f"{found.images} images each, from the base on; averages have the same half-life in images",
        "learning rate": f"{rate}, for a batch of B images and R = {settings.reference_batch}",
        "training seeds": ", ".join(map(str, settings.seeds)),
    }


def pictures(found: BatchFindings) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Name → size in inches and what draws the picture, in the order of the page."""
    return {
        "fid_batches": ((8.8, 4.6), partial(figures.fid_batches, found=found)),
        "variance_fid": ((8.4, 4.4), partial(figures.variance_fid, found=found)),
        "gradient_lengths": ((8.4, 5.4), partial(figures.gradient_lengths, found=found)),
        "cosines": ((8.4, 5.2), partial(figures.cosines, found=found)),
    }


if __name__ == "__main__":
    main()
