"""The trainings of an arm: batches of its own size, and the same settings where those count images."""

from studies.small_batches.densities import Densities, sampler_of
from studies.small_batches.params import NEAR_NOISE, SLOT, Arm, Retraining, Way
from unequal.comparison.training import with_batches
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, Strict, key
from unequal.settings.training import Training
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, normalised, tilt, uniform, within
from unequal.training.initialisation import Start
from unequal.training.train import Outcome, TrainingJob, spec_for, train
from unequal.workspace import Workspace


class BatchSettings(StageSettings):
    """Keys of params.yaml that say how an arm is trained, whatever its network is."""

    training: Training
    recipe: Recipe = key("recipes.{arm}")
    arm: Arm = key("arms.{arm}")


class ArmSettings(BatchSettings):
    """Settings by which an arm is trained from fresh weights."""

    schedule: Schedule
    network: AnyNetwork


def job_of(name: str, recipe: Recipe, arm: Arm, training: Training, data: PreparedData, seed: int) -> TrainingJob:
    """A training with batches of an arm's size."""
    job = TrainingJob(name, recipe, training, data, seed)
    return with_batches(job, arm.batch_size, scale_moments=arm.second_moment == "images")


def train_arm(place: Workspace, settings: ArmSettings, job: TrainingJob, block: int, densities: Densities) -> Outcome:
    """Train the fresh weights of a block, which all its arms share."""
    start = Start.fresh(settings.network, spec_for(job, settings.network, settings.schedule), block)
    sampler = sampler_of(settings.arm, job.recipe, start.spec.noise_schedule(), densities)
    return train(place, job, start, sampler)


def conditions(settings: ArmSettings, recipe: Recipe, densities: Densities) -> tuple[Strict, ...]:
    """All that shapes a training by a recipe; densities do where its arm has one."""
    further = (densities,) if settings.arm.density else ()
    return (settings.schedule, settings.network, settings.training, settings.arm, recipe, *further)


def retrained_by(recipe: Recipe, chosen: Retraining) -> Recipe:
    """How the end of an arm that was made by a recipe is trained on: at a share of its rate, which does not fall."""
    changes = {"lr": chosen.lr_share * recipe.optimizer.lr, "warmup_images": chosen.warmup_images}
    steady = {"decay": "constant", "decay_share": 1.0, "final_share": None}
    optimizer = recipe.optimizer.model_copy(update=changes | steady)
    kept = {"images": chosen.images, "optimizer": optimizer, "snapshots": (), "keep_state": False}
    return recipe.model_copy(update=kept)


def sampler_along(way: Way, slots: Partition, power: float) -> TimestepSampler:
    """The timesteps that a model is trained on with. Raises UserError where there is no such slot."""
    timesteps = slots.timesteps
    if way == NEAR_NOISE:
        return TimestepSampler(normalised(tilt(timesteps, power)))
    if not way.startswith(SLOT):
        return TimestepSampler(uniform(timesteps))
    number = int(way.removeprefix(SLOT))
    if number > len(slots):
        raise UserError(f"{way}: there are slots 1 … {len(slots)}")
    return TimestepSampler(within(slots[number - 1], timesteps))
