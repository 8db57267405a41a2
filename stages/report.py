"""Write the run's report: statements, pictures and tables on one page, and tables for README."""

from collections.abc import Callable, Mapping
from functools import partial

from matplotlib.figure import Figure

from unequal.data.prepared import PreparedData
from unequal.errors import say
from unequal.evaluation.loss_profile import endpoints
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run, stage
from unequal.pipeline.trials import is_trial, place_below
from unequal.report.captions import CAPTIONS
from unequal.report.comparisons import loss_differences
from unequal.report.drawing import picture_grid, prefixed
from unequal.report.formatting import duration, label, today
from unequal.report.heads import head_wins
from unequal.report.memorizing import grid_size
from unequal.report.overview import (
    against_control,
    control_of,
    in_order,
    overview,
    recommend,
    scored,
    smoke_run,
    variants_table,
)
from unequal.report.page import Drawing, Report, publish
from unequal.report.pipeline_page import SMOKE_TITLE, TITLE, compare, documents, sections
from unequal.report.pipeline_pictures import (
    groups_and_limits,
    loss_changes,
    loss_profile,
    sampler_probabilities,
    slot_changes,
    training_curves,
)
from unequal.report.pipeline_tables import (
    SLOT_CHANGE_COLUMNS,
    costs_table,
    experts_table,
    fid_rows,
    groups_table,
    losses_table,
    requests_table,
    scores_table,
    searches_table,
    slot_change_rows,
)
from unequal.report.results import RunResults, data_condition, read_results, steps_of_experts
from unequal.report.statements import Difference
from unequal.report.summary import commands, engine_seconds, summary
from unequal.runtime.files import write_bytes, write_csv, write_json
from unequal.settings.strict import StageSettings, key

#: Inches; read well in a README and on a page.
WIDE, TALL, BROAD = (8.4, 4.4), (8.4, 5.6), (10.5, 4.2)


class Settings(StageSettings):
    profiled_models: tuple[str, ...]
    scored_models: tuple[str, ...]
    finetune_recipes: tuple[str, ...]
    finetuned: tuple[int, ...] = key("slots.finetune")
    groups: tuple[int, ...] = key("groups.ids")


def costs_and_intervals(found: RunResults, differences: Mapping[str, Difference]) -> dict[str, float]:
    """Figures that MLflow compares between runs: changes from the control with their intervals, and costs."""
    control, compared = control_of(found), endpoints(found.schedule)
    judged_models = [one.name for one in scored(found) if one.name != control]
    by_model = {name: loss_differences(compared, found.errors, name, control) for name in judged_models}
    families = {"fid": differences} | {
        key: {name: one[key] for name, one in by_model.items() if one} for key in compared
    }
    changes = {
        f"{key}_percent_{end}/{name}": value
        for key, family in families.items()
        for name, one in family.items()
        for end, value in one.percents().items()
    }
    minutes = {f"training_minutes/{one.name}": found.seconds(one.name) / 60 for one in scored(found)}
    return changes | minutes | {f"training_flops/{one.name}": float(one.training_flops) for one in scored(found)}


def facts(found: RunResults, wall: float | None, price: float | None) -> str:
    """Data, device, time, date and commit of the run, in a line.

    Args:
        found: results of the run.
        wall: seconds since the engine was started; None: unknown, and the price is of the trainings alone.
        price: of an hour; None: not set.
    """
    training = sum(one.seconds for one in found.trainings.values())
    of, seconds = ("the trainings", training) if wall is None else ("this command", wall)
    parts = [
        data_condition(found.data),
        f"{duration(training)} of training on {found.base['device']}",
        *([] if wall is None else [f"this command took {duration(wall)}"]),
        *([] if price is None else [f"{of} cost {seconds / 3600 * price:.3g} at {price:g} an hour"]),
        today(),
        *commit_words(),
    ]
    return f"{' · '.join(parts)}."


def pictures(found: RunResults, settings: Settings) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Name → size in inches and drawing function, in the order of the page."""
    changes = found.changes("train", settings.finetuned)
    progress = {f"{prefixed(images)} images": samples for images, samples in found.progress.items()}
    samples = {label(name): images for name, images in in_order(found.samples, scored(found)).items()}
    drawn = {
        "training_curves": (WIDE, partial(training_curves, trainings=found.trainings)),
        "progress": (grid_size(len(progress)), partial(picture_grid, rows=progress)),
        "loss_profile": (
            TALL,
            partial(loss_profile, losses=found.losses, floor=found.floor, slots=found.slots),
        ),
        "loss_changes": (WIDE, partial(loss_changes, losses=found.losses, slots=found.slots)),
        "interference": (WIDE, partial(slot_changes, found=changes, count=len(found.slots))),
        "samplers": (WIDE, partial(sampler_probabilities, samplers=found.samplers, slots=found.slots)),
        **({} if found.wins is None else {"head_wins": (BROAD, partial(head_wins, wins=found.wins))}),
        "groups": (TALL, partial(groups_and_limits, groups=found.groups, shares=found.group_shares)),
        "samples": (TALL, partial(picture_grid, rows=samples)),
    }
    shown = {"loss_changes": len(found.losses) > 1, "interference": bool(changes), "progress": bool(found.progress)}
    return {name: one for name, one in drawn.items() if shown.get(name, True)}


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the report."""
    found = read_results(
        run.input, settings.profiled_models, settings.scored_models, settings.finetune_recipes, settings.groups
    )
    changes = {split: found.changes(split, settings.finetuned) for split in ("train", "holdout")}
    place = place_below()
    compared = compare(found, settings.finetune_recipes, ranked=not is_trial(place))
    statements, differences = sections(found, compared, changes), against_control(found)
    best = smoke_run(found) if is_trial(place) else recommend(found, compared.ranked, differences)
    variants, table, wall = scored(found), variants_table(found, differences), engine_seconds()
    report = Report(
        title=SMOKE_TITLE if is_trial(place) else TITLE,
        lead=best.text,
        commands=commands(best.model, place),
        facts=facts(found, wall, run.runtime.price_an_hour),
        overview=overview(found, best.model, differences, PreparedData.open(run.input("artifacts/data")).train),
        sections=statements,
        tables=[
            table,
            scores_table(variants, found.references),
            costs_table(variants),
            losses_table(in_order(found.losses, variants), found.floor, found.schedule),
            groups_table(found.groups, found.group_shares, steps_of_experts(found.variants)),
            *([searches_table(found.searches)] if found.searches else []),
            *([asked] if (asked := requests_table(found.searches)) else []),
            *([experts_table(found)] if found.joint and found.experts else []),
        ],
        conditions=found.conditions(),
        drawings=[Drawing(name, *drawn, *CAPTIONS[name]) for name, drawn in pictures(found, settings).items()],
        documents=documents(found, compared, statements, table),
        rows={"fid": fid_rows(list(found.variants.values()))},
    )
    publish(run, report)
    rows, path = slot_change_rows(changes), run.output("results/interference.csv")
    # Without profiled slot models the table has its head alone.
    write_csv(path, rows) if rows else write_bytes(path, f"{','.join(SLOT_CHANGE_COLUMNS)}\n".encode())
    # Stages whose score came from a cache have logged nothing with this run's configuration.
    scores = {name: variant.fid for name, variant in found.variants.items()}
    write_json(run.output("results/scores.json"), {"fid": scores, "take": best.model})
    logged = {f"fid_{name}": fid for name, fid in scores.items()}
    if wall is not None:
        logged["command_minutes"] = wall / 60
    say(*summary(found, best, wall, place))
    run.parent_metrics(logged | costs_and_intervals(found, differences))
