"""Trainings of a block: a base, and variants that continue it or start from the block's fresh weights."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from unequal.comparison.measuring import Measuring, pilot_along
from unequal.comparison.settings import Try, arm_seed, choice, shortened, shortened_plan
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.experts.plan import ExpertsJob, carry_out, totals
from unequal.models.folder import model_and_snapshots
from unequal.runtime.workspace import Workspace, nested
from unequal.settings.evaluation import Profile
from unequal.settings.groups import Plan
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.settings.values import Name
from unequal.timesteps.building import build_sampler
from unequal.training.batch_size import average_at_batch, optimizer_at_batch
from unequal.training.initialisation import Start
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import curve, trained_record, write_models
from unequal.training.train import Outcome, TrainingJob, spec_for, train

R = TypeVar("R", bound=Recipe)
#: Function that trains by a recipe, in a workspace, under a name that seeds its draws.
Train = Callable[[Workspace, Recipe, str], Outcome]


class NetworkSettings(StageSettings):
    """Keys of params.yaml that say how fresh weights are trained, whatever the recipe."""

    schedule: Schedule
    network: AnyNetwork
    training: Training


class FreshSettings(NetworkSettings):
    """Keys of params.yaml that say how a variant is trained from fresh weights."""

    recipe: Recipe = key("recipes.{arm}")
    batch_sizes: dict[Name, int] = key("comparison.batch_sizes")


class ChosenSettings(StageSettings):
    """Keys of params.yaml with the tries of the pilot, and the try that was chosen for each variant."""

    tries: dict[str, Try] = key("pilot.tries")
    chosen: dict[Name, Name] = key("pilot.chosen")

    def tried(self, arm: str) -> Try:
        """Try by which a variant is trained. Raises UserError where none was chosen."""
        name = choice(self.chosen, arm)
        if name is None:
            raise UserError(f"pilot.chosen.{arm}: missing; name one of {', '.join(self.tries)}")
        return self.tries[name]


@dataclass(frozen=True)
class Block:
    """Shared settings, data and seed of a block's trainings from fresh weights.

    Attributes:
        settings: how networks are made and trained.
        data: training images.
        number: the block, which seeds the fresh weights.
        batch_size: images per optimizer step; None: that of the settings.
        profile: settings of the draws by which three heads are combined; None: no variant has three heads.
    """

    settings: NetworkSettings
    data: PreparedData
    number: int
    batch_size: int | None = None
    profile: Profile | None = None

    def train(self, place: Workspace, recipe: Recipe, name: str) -> Outcome:
        """Train the block's fresh weights by a recipe; `name` seeds the draws."""
        settings, seed = self.settings, arm_seed(self.number, name)
        job = TrainingJob(f"{name}/block_{self.number}", recipe, settings.training, self.data, seed)
        if self.batch_size is not None:
            job = with_batches(job, self.batch_size)
        if recipe.mixing is not None:
            if self.profile is None:
                raise UserError(f"variant '{name}' has three heads; list it under comparison.arms.heads")
            job = with_three_heads(job, settings.network, settings.schedule, self.profile, place.device)
        start = Start.fresh(settings.network, spec_for(job, settings.network, settings.schedule), self.number)
        return train(place, job, start, build_sampler(job.recipe.sampler, start.spec.noise_schedule()))


def with_batches(job: TrainingJob, batch_size: int) -> TrainingJob:
    """Change the batch size of a job; averages, moments and intervals stay the same in images.

    Args:
        job: job whose recipe is meant for `training.batch_size`.
        batch_size: images per optimizer step.
    """
    training, recipe = job.training, job.recipe
    ratio = batch_size / training.batch_size
    log_every = max(1, training.log_every * training.batch_size // batch_size)
    intervals = {
        "log_every": log_every,
        "checkpoint_every": log_every * max(1, training.checkpoint_every // training.log_every),
    }
    sizes = {"batch_size": batch_size, "gradient_accumulation": 1, "average": average_at_batch(training.average, ratio)}
    changes: dict[str, Any] = {"optimizer": optimizer_at_batch(recipe.optimizer, ratio)}
    if recipe.average is not None:
        changes["average"] = average_at_batch(recipe.average, ratio)
    return replace(
        job, recipe=recipe.model_copy(update=changes), training=training.model_copy(update=sizes | intervals)
    )


def try_fresh(
    measuring: Measuring, train: Train, arm: str, recipe: Recipe, tries: Mapping[str, Try], share: float
) -> dict[str, Any]:
    """Train a variant from fresh weights once for each try, and measure each training at half and at its end.

    Args:
        measuring: measures all trainings of the block.
        train: trains by a recipe, in a workspace, under a name that seeds its draws.
        arm: the variant's name.
        recipe: the variant's own recipe; one with snapshots is measured along its path, with half of the samples.
        tries: name → changes of the recipe.
        share: share of the recipe's images.

    Returns:
        Try → figures.
    """
    place, tried = measuring.workspace, {}
    measure = partial(pilot_along, measuring, snapshots=len(recipe.snapshots)) if recipe.snapshots else measuring.path
    for label, one in tries.items():
        name = f"{arm}_{label}"  # the name seeds the draws, as in the comparison
        short = with_half(shortened(recipe, share, one))
        outcome = train(nested(place, name), short, name)
        write_models(folder := place.work / f"{name}_models", outcome)
        figures = measure(*half_and_end(folder, short), name)
        tried[label] = figures | {"lr": short.optimizer.lr, "costs": figures["costs"] | costs_of(outcome)}
    return tried


def train_plan(workspace: Workspace, job: ExpertsJob, folder: Path) -> dict[str, Any]:
    """Carry a plan out, with its models below a folder; return its figures, base included."""
    models, figures = carry_out(workspace, job)
    for number, model in enumerate(models):
        shutil.copytree(model, folder / f"group_{number}", dirs_exist_ok=True)
    return totals(figures) | {"groups": figures}


def try_plan(
    measuring: Measuring, training: Training, arm: str, plan: Plan, tries: Mapping[str, Try], share: float, base: Path
) -> dict[str, Any]:
    """Carry a plan out on a base of the pilot once for each try, and measure the final models."""
    place, block, tried = measuring.workspace, measuring.block, {}
    for label, one in tries.items():
        short = shortened_plan(plan, share, one)
        # Each try has draws of its own, since trainings that share draws scatter less than the comparison's will.
        name = f"{arm}_{label}"
        job = ExpertsJob(short, f"{name}/block_{block}", base, measuring.data, training, arm_seed(block, name))
        folder = place.work / f"{name}_models"
        costs = own_costs(train_plan(nested(place, name), job, folder))
        figures = measuring.figures(folder, name)
        tried[label] = figures | {"lr": short.recipe.optimizer.lr, "costs": figures["costs"] | costs}
    return tried


def with_half(recipe: R) -> R:
    """Add a snapshot at half of the images to a recipe."""
    snapshots = tuple(sorted({*recipe.snapshots, recipe.images // 2}))
    return recipe.model_copy(update={"snapshots": snapshots})


def half_and_end(folder: Path, recipe: Recipe) -> tuple[Path, Path]:
    """Folders of the models at half of a recipe's images, up to a whole batch, and at the end of training."""
    *snapshots, end = model_and_snapshots(folder)
    return next(one for one in snapshots if int(one.name) >= recipe.images // 2), end


def costs_of(outcome: Outcome) -> dict[str, Any]:
    """Images, FLOPs and seconds of a training alone; the log gives the seconds, also of a resumed training."""
    record, seconds, seen = trained_record(outcome), 0.0, 0
    for line in curve(outcome.trained.log):
        seconds += (line["images_seen"] - seen) / line["images_per_second"]
        seen = line["images_seen"]
    return {"images": record.images_seen, "training_flops": record.training_flops, "training_seconds": seconds}


def learned_weighting(outcome: Outcome) -> dict[str, Any]:
    """Weighting that a training has learned, to six digits; empty where its settings fix it."""
    learned = {
        name: [float(f"{one:.6g}") for one in values] for name, values in outcome.trained.effective_weighting.items()
    }
    return {"effective_weighting": learned} if learned else {}


def own_costs(totals: Mapping[str, Any]) -> dict[str, Any]:
    """Costs of a plan beyond its base."""
    return {
        "images": sum(one["images_seen"] for one in totals["groups"]),
        "training_flops": sum(one["training_flops"] for one in totals["groups"]),
        "training_seconds": totals["training_seconds"] + totals["pruning_seconds"],
    }
