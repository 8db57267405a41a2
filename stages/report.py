"""Write the run's report: the model to take, pictures and tables on one page, and figures for programs."""

from pathlib import Path

from unequal.errors import say
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run, stage
from unequal.pipeline.trials import is_trial, place_below
from unequal.report.formatting import duration, today
from unequal.report.front import commands, held_out_losses, models_table, overview, summary, taken
from unequal.report.page import Report, publish
from unequal.report.pictures import drawings
from unequal.report.results import RunResults, read_results
from unequal.report.tables import INTERFERENCE, fid_rows, interference_rows, tables
from unequal.runtime.files import write_bytes, write_csv, write_json
from unequal.settings.strict import StageSettings, key

#: Title and line of a smoke run.
SMOKE = "A smoke run: its figures mean nothing"
SMOKE_LINE = "All stages ran, with tiny budgets. The page shows what that of a full run holds."


class Settings(StageSettings):
    profiled_models: tuple[str, ...]
    scored_models: tuple[str, ...]
    finetune_recipes: tuple[str, ...]
    groups: tuple[int, ...] = key("groups.ids")


def title(results: RunResults) -> str:
    """Name of the images: their source, or the folder of a run on images of one's own."""
    source = str(results.data.facts["source"])
    return Path.cwd().name if source in {"folder", "array"} else source


def facts(results: RunResults, price: float | None) -> str:
    """Cost of all trainings, date and commit, in a line; `price` is of an hour."""
    seconds = sum(float(one.seconds.sum()) for one in results.trainings.values())
    cost = "" if price is None else f", {seconds / 3600 * price:.3g} at {price:g} an hour"
    computed = f"{duration(seconds)} of {results.processor} time for all trainings{cost}"
    return " · ".join([results.conditions()["data"], computed, today(), *commit_words()])


def model_figures(results: RunResults, name: str) -> dict[str, float]:
    """Return the figures by which models are compared: FID, held-out loss, and costs."""
    score = results.scores[name]
    costs = {"training_flops": float(score.training_flops), "compute_minutes": results.seconds(name) / 60}
    losses = held_out_losses(results, name)
    return {"fid": score.fid_mean} | ({"loss": losses["loss_over_timesteps"]} if losses else {}) | costs


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the report."""
    results = read_results(
        run.input, settings.profiled_models, settings.scored_models, settings.finetune_recipes, settings.groups
    )
    place, take = place_below(), taken(results)
    smoke = is_trial(place)
    report = Report(
        title=SMOKE if smoke else title(results),
        lead=SMOKE_LINE if smoke else take.text,
        commands=commands("base" if smoke else take.model, place),
        facts=facts(results, run.runtime.price_an_hour),
        overview=overview(results, take.model),
        tables=[models_table(results), *tables(results)],
        conditions=results.conditions(),
        drawings=drawings(results),
        rows={"fid": fid_rows(results)},
    )
    publish(run, report)
    rows, path = interference_rows(results), run.output("results/tables") / "interference.csv"
    # Without profiled slot models the table has its head alone.
    write_csv(path, rows) if rows else write_bytes(path, f"{','.join(INTERFERENCE)}\n".encode())
    fid = results.scores[take.model].fid_mean
    write_json(run.output("results/take.json"), {"model": take.model, "fid": fid, "why": report.lead})
    run.parent_metrics(model_figures(results, take.model))
    for name in reversed(results.ranked):  # MLflow shows the latest first
        curve = results.trainings.get(name)  # a set of experts has several
        points = [] if curve is None else zip(curve.images.astype(int).tolist(), curve.losses.tolist(), strict=True)
        run.log_model(name, model_figures(results, name), points)
    say(*summary(report.lead, report.commands, place))
