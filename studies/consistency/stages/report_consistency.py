"""Tables, pictures and findings of the study: consistency of pictures and predictions.

The unit is a training seed. Pairs share their models, so an interval leaves out one seed after the other, with all
pairs that it is in (the jackknife); intervals are Student's, of 95 %.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student_t

from studies.consistency.comparison import OPTIMUM, TRAINED, UNTRAINED, Row, means
from studies.consistency.params import replica
from unequal.comparison.tables import rows_table
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import GOLD, INK, SOFT, log_timesteps, picture_grid
from unequal.report.formatting import mean_and_sd, today
from unequal.report.page import Drawing, Report, Table, publish
from unequal.report.statements import Difference
from unequal.runtime.files import read_json, read_npz
from unequal.settings.strict import StageSettings, key

#: Content of artifacts/consistency/table.json.
Measured = Mapping[str, Any]
LEVEL = 0.95
#: Name of the training images nearest to the first model's pictures.
NEAREST = "nearest_training"
#: Relations of pairs of models in a state.
STATES = {TRAINED: ("seeds", "widths"), UNTRAINED: ("untrained",)}
BEST = "the optimal denoiser"
RELATIONS = {
    "seeds": "two seeds",
    "widths": "two widths",
    "architectures": "a U-Net and a transformer",
    "optimum": f"a model and {BEST}",
    "untrained": "two untrained networks",
    "itself": "a model and itself",
}


class Curve(NamedTuple):
    """A kind of pair and a condition, drawn over timesteps."""

    relation: str
    condition: str
    text: str
    colour: str
    style: str = "-"


CURVES = (
    Curve("seeds", "same", "other seed", INK),
    Curve("widths", "same", "other width", "#2f7fb8"),
    Curve("architectures", "same", "other architecture", "#4b8b3b"),
    Curve("optimum", "same", BEST, GOLD),
    Curve("seeds", "other_noise", "other noise, same image", "#c8553d", "--"),
    Curve("seeds", "other_image", "other noise, other image", SOFT, ":"),
)


def pairs(table: Measured, *relations: str) -> list[Row]:
    """Rows of final pictures whose models stand in one of these relations."""
    return [row for row in table["pictures"] if row["relation"] in relations]


def agreements(table: Measured, *relations: str) -> list[float]:
    """1 − MSE(same noise)/MSE(different noise) of each pair: 1 for equal pictures, 0 for unrelated ones."""
    return [1 - row["mse_same"] / row["mse_other_noise"] for row in pairs(table, *relations)]


def seed_of(name: str) -> int | None:
    """The training seed in a model's name; None: it has none."""
    *_, seed = name.rpartition("seed_")
    return int(seed) if seed.isdigit() else None


def model_name(name: str) -> str:
    """A model's name as people read it."""
    return {OPTIMUM: BEST, NEAREST: "nearest training image"}.get(name, name.replace("/seed_", ", seed "))


def mean(rows: Sequence[Row], column: str) -> float:
    """Mean over pairs."""
    return fmean(row[column] for row in rows)


def over_seeds(rows: Sequence[Row], measure: Callable[[Sequence[Row]], float]) -> Difference:
    """A logarithm over all pairs, with the interval from leaving out one training seed after the other."""
    seeds = {seed_of(row[side]) for row in rows for side in ("first", "second")} - {None}
    without = [[row for row in rows if seed not in (seed_of(row["first"]), seed_of(row["second"]))] for seed in seeds]
    if len(seeds) < 2 or not all(without):
        return Difference(measure(rows), None)
    values = np.array([measure(one) for one in without])
    error = float(np.sqrt((len(values) - 1) * values.var()))
    return Difference(measure(rows), float(student_t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error)


class Compared(NamedTuple):
    """Mean squared error of pairs from the same noise, against a baseline."""

    pair: str
    baseline: str
    same: float
    other: float
    change: Difference


def comparisons(table: Measured) -> dict[str, Compared]:
    """Pairs of trained models against different noise, and against the novelty of held-out images."""

    def against_noise(rows: Sequence[Row]) -> float:
        return log(mean(rows, "mse_same") / mean(rows, "mse_other_noise"))

    compared = {}
    for relation in ("seeds", "widths", "architectures"):
        if rows := pairs(table, relation):
            same, other = mean(rows, "mse_same"), mean(rows, "mse_other_noise")
            change = over_seeds(rows, against_noise)
            compared[relation] = Compared(RELATIONS[relation], "different noise", same, other, change)
    rows, scale = pairs(table, "seeds", "widths"), table["nearest_training"]["held_out"]
    change = over_seeds(rows, lambda some: log(mean(some, "mse_same") / scale))
    baseline = "held-out image to its nearest training image"
    return compared | {"models": Compared("two models", baseline, mean(rows, "mse_same"), scale, change)}


def prediction_ratios(table: Measured) -> dict[int, float]:
    """Timestep → MSE of predicted x0 of two models over that from other noise."""
    rows = [row for row in table["predictions"] if row["relation"] in ("seeds", "widths")]
    at = {t: [row for row in rows if row["timestep"] == t] for t in sorted({row["timestep"] for row in rows})}
    return {t: mean(some, "mse_same") / mean(some, "mse_other_noise") for t, some in at.items()}


def findings(table: Measured) -> dict[str, float]:
    """Numbers of the tables, for programs."""
    numbers: dict[str, float] = {}
    for name, one in comparisons(table).items():
        numbers |= {f"{name}_mse": one.same, f"{name}_mse_baseline": one.other}
        numbers |= {f"{name}_{end}_percent": value for end, value in one.change.percents().items()}
    for state, relations in STATES.items():
        numbers[f"agreement_{state}"] = fmean(agreements(table, *relations))
    return numbers | {f"prediction_mse_ratio_{t}": ratio for t, ratio in prediction_ratios(table).items()}


def tables(table: Measured) -> list[Table]:
    """All tables of the page."""
    compared = [
        (one.pair, f"{one.same:.3g}", f"{one.baseline}: {one.other:.3g}", one.change.short())
        for one in comparisons(table).values()
    ]
    columns = ("comparison, same noise", "mean squared error", "baseline", "difference")
    agreed = (
        "agreement, 1 − MSE(same noise)/MSE(different noise)",
        *(mean_and_sd(agreements(table, *relations)) for relations in STATES.values()),
    )
    kinds = [{"pair": RELATIONS[row.pop("relation")]} | row for row in means(table["pictures"], "relation")]
    scales = {"held_out": "held-out images", "two_training_images": "one training image to another, at random"}
    nearest = table["nearest_training"].items()
    copies = [{"pictures of": scales.get(name, model_name(name)), "MSE": error} for name, error in nearest]
    return [
        Table(
            "Pictures of the same noise",
            columns,
            compared,
            "In brackets the 95 % interval over training seeds, by the jackknife.",
        ),
        Table("Before and after training", ("measure", *STATES), [agreed], "± is the standard deviation."),
        rows_table("Kinds of pairs", kinds, ""),
        rows_table(
            "Distance to the nearest training image",
            copies,
            "Pictures much nearer than held-out images are copies of training images.",
        ),
    ]


def pictures(figure: Figure, images: Mapping[str, np.ndarray]) -> None:
    """A row a model, a column a noise; last the nearest training images."""
    picture_grid(figure, {model_name(name): shown for name, shown in images.items()})


def predictions(figure: Figure, table: Measured) -> None:
    """MSE of predicted x0 over timesteps: means over pairs as lines, all pairs as bands."""
    axes = figure.subplots()
    for curve in CURVES:
        values: dict[int, list[float]] = {}
        for row in table["predictions"]:
            if row["relation"] == curve.relation:
                values.setdefault(row["timestep"], []).append(row[f"mse_{curve.condition}"])
        if values:
            x, distances = np.array(list(values)) + 1, np.array(list(values.values()))
            axes.plot(x, distances.mean(1), curve.style, color=curve.colour, linewidth=1.6, label=curve.text)
            axes.fill_between(x, distances.min(1), distances.max(1), color=curve.colour, alpha=0.2, linewidth=0)
    log_timesteps(axes, table["conditions"]["timesteps"])
    axes.set_yscale("log")
    axes.set_xlabel("timestep, from 1")
    axes.set_ylabel("mean squared error")
    axes.legend(loc="best")


#: Titles and captions of the pictures.
PICTURES = (
    "Pictures of the same noise",
    "Every column starts from one noise, every row is a model. Last row: the training images nearest to the first "
    "model's pictures.",
)
PREDICTIONS = (
    "Agreement about x0 at every timestep",
    "Distance of two models' predictions from the same noisy held-out image; dashed and dotted, from other noise. "
    "Lines are means over pairs, bands hold all pairs.",
)


class Settings(StageSettings):
    widths: tuple[str, ...] = key("consistency.widths")
    seeds: tuple[int, ...] = key("consistency.seeds")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    folder = run.input("artifacts/consistency")
    table = read_json(folder / "table.json")
    names = [replica(width, seed) for width in settings.widths for seed in settings.seeds]
    optimum = [OPTIMUM] if table["conditions"]["comparison"]["optimum"] else []
    images = read_npz(folder / "pictures.npz", [*names, *optimum, NEAREST])
    first, *_ = comparisons(table).values()
    report = Report(
        title="Consistency: the same noise, the same picture?",
        lead=f"Pictures of {first.pair} from the same noise have a mean squared error of {first.same:.3g}; "
        f"{first.baseline}: {first.other:.3g}.",
        facts=" · ".join(
            [f"{len(settings.seeds)} training seeds of {len(settings.widths)} networks", today(), *commit_words()]
        ),
        tables=tables(table),
        conditions={name.replace("_", " "): str(value) for name, value in table["conditions"].items()},
        drawings=[
            Drawing("pictures", (8.4, 5.2), partial(pictures, images=images), *PICTURES),
            Drawing("predictions", (8.4, 4.2), partial(predictions, table=table), *PREDICTIONS),
        ],
        rows={
            "consistency_pictures": table["pictures"],
            "consistency_predictions": means(table["predictions"], "relation", "timestep"),
        },
    )
    publish(run, report)
    run.metrics("results/findings.json", findings(table))
