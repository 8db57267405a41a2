"""The trainings of a block: a base, and arms that go on from it or begin with the block's fresh weights."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import Try, arm_seed, shortened
from unequal.data.prepared import PreparedData
from unequal.experts.plan import ExpertsJob, carry_out, totals
from unequal.models.folder import model_and_snapshots
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, key
from unequal.settings.training import Training
from unequal.training.initialisation import Start
from unequal.training.results import curve, trained_record, write_models
from unequal.training.train import Outcome, TrainingJob, spec_for, train
from unequal.workspace import Nested, Workspace

R = TypeVar("R", bound=Recipe)


def train_weights(
    workspace: Workspace, job: TrainingJob, block: int, network: AnyNetwork, schedule: Schedule
) -> Outcome:
    """Train the fresh weights of a block: all its arms share them, and each has the draws of its job's seed."""
    start = Start.fresh(network, spec_for(job, network, schedule), block)
    return train(workspace, job, start, job.recipe.sampler.build(start.spec.noise_schedule()))


def train_plan(workspace: Workspace, job: ExpertsJob, folder: Path) -> dict[str, Any]:
    """Carry a plan out, with its models below a folder; what it has come to, base included."""
    models, figures = carry_out(workspace, job)
    for number, model in enumerate(models):
        shutil.copytree(model, folder / f"group_{number}", dirs_exist_ok=True)
    return totals(figures) | {"groups": figures}


def with_half(recipe: R) -> R:
    """A recipe that also keeps the model of half of its images."""
    snapshots = tuple(sorted({*recipe.snapshots, recipe.images // 2}))
    return recipe.model_copy(update={"snapshots": snapshots})


def half_and_end(folder: Path, recipe: Recipe) -> tuple[Path, Path]:
    """The folders of the model at half of its recipe's images and at its end; a snapshot holds whole batches."""
    *snapshots, end = model_and_snapshots(folder)
    return next(one for one in snapshots if int(one.name) >= recipe.images // 2), end


def made_by(*settings: Strict) -> dict[str, str]:
    """The hash of a training's settings: blocks that were trained apart are judged together where it is the same.

    Settings that have since become possible, and stand at their default, change nothing.
    """
    texts = (one.model_dump_json(exclude_defaults=True) for one in settings)
    return {"made_by": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def costs_of(outcome: Outcome) -> dict[str, Any]:
    """What a training has cost by itself; in seconds by its log, which a resumed one has written in parts."""
    record, seconds, seen = trained_record(outcome), 0.0, 0
    for line in curve(outcome.trained.log):
        seconds += (line["images_seen"] - seen) / line["images_per_second"]
        seen = line["images_seen"]
    return {"images": record.images_seen, "training_flops": record.training_flops, "training_seconds": seconds}


def emphasis_of(outcome: Outcome) -> dict[str, Any]:
    """What a training has learned to put its weight on, to six digits; nothing where its settings tell it."""
    found = {name: [float(f"{one:.6g}") for one in told] for name, told in outcome.trained.effective_weighting.items()}
    return {"emphasis": found} if found else {}


def own_costs(totals: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan has cost beyond its base."""
    return {
        "images": sum(one["images_seen"] for one in totals["groups"]),
        "training_flops": sum(one["training_flops"] for one in totals["groups"]),
        "training_seconds": totals["training_seconds"] + totals["pruning_seconds"],
    }


#: Trains by a recipe, given a place to do it in, the data, a name and the seed of its draws.
Train = Callable[[Workspace, Recipe, PreparedData, str, int], Outcome]
#: Measures models at half and at the end of a training, under a name.
Measure = Callable[[Measuring, Path, Path, str], dict[str, Any]]


class TriesSettings(MeasuringSettings):
    """Keys of params.yaml that say what is tried of an arm."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")
    recipe: Recipe = key("recipes.{arm}")


class FreshTries(TriesSettings):
    """Those of an arm that is a recipe, and nothing else."""

    schedule: Schedule
    network: AnyNetwork
    training: Training

    def trained_from(self, block: int) -> Train:
        """How each try trains the fresh weights of a block."""

        def train(place: Workspace, recipe: Recipe, data: PreparedData, name: str, seed: int) -> Outcome:
            job = TrainingJob(name, recipe, self.training, data, seed)
            return train_weights(place, job, block, self.network, self.schedule)

        return train


def try_all(
    measuring: Measuring, settings: TriesSettings, arm: str, train: Train, measure: Measure = Measuring.path
) -> dict[str, Any]:
    """Train and measure an arm once for each try, at half and at the end of each training; what came out, by try."""
    place, block, tried = measuring.workspace, measuring.block, {}
    for label, one in settings.tries.items():
        recipe = with_half(shortened(settings.recipe, settings.share, one))
        name = f"{arm}_{label}"  # with draws of its own, as in the study
        outcome = train(Nested(place, name), recipe, measuring.data, f"{name}/block_{block}", arm_seed(block, name))
        write_models(folder := place.work / f"{name}_models", outcome)
        figures = measure(measuring, *half_and_end(folder, recipe), name)
        tried[label] = figures | {"lr": recipe.optimizer.lr, "costs": figures["costs"] | costs_of(outcome)}
    return tried
