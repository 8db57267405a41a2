"""Training by a recipe: a network is trained from fresh weights, or a model is trained further.

`unequal.training.results` writes the outputs. Three heads need more than a recipe, an objective of their own and a way
to combine them, which `unequal.training.mixed_prediction` passes in.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from unequal.data.prepared import PreparedData, check_classes, tensor_of
from unequal.diffusion.predictions import epsilon_error_factor
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.models.folder import Heads
from unequal.models.spec import ModelSpec, Space
from unequal.randomness import torch_seed
from unequal.runtime.devices import chosen_precision
from unequal.runtime.workspace import Workspace
from unequal.settings.network import Network
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict
from unequal.settings.training import Training
from unequal.timesteps.building import build_sampler, sampler_inside
from unequal.timesteps.samplers import TimestepSampler
from unequal.timesteps.weights import normalising_factor, weight_table
from unequal.training.batches import BatchSource, window_of
from unequal.training.checkpoint import LOG, Trained
from unequal.training.initialisation import Scope, Start, warm_start
from unequal.training.loop import Log, Trainer
from unequal.training.objectives import Objective, objective_for

if TYPE_CHECKING:
    from unequal.training.pictures import Pictures

R = TypeVar("R", bound=Recipe)
#: Figures of the log that mean the same in every training.
COMPARABLE = {"lr", "momentum", "images_per_second", "compute_seconds", "mfu", "grad_norm"}
#: Times the training images: a batch beyond is a slip, as a step would show each of them a thousand times.
LARGEST_BATCH = 1000


@dataclass(frozen=True)
class TrainingJob:
    """Training to carry out, whatever network it begins with.

    Attributes:
        name: of the model, below `artifacts/models`.
        recipe, training: settings.
        data: the images.
        seed: of weights, batches and noise.
        objective: on the training device; None: that of the recipe's one head.
        heads: how those of a trained network are combined, where there are several.
        pictures: draw grids of samples on the way, as many as the settings say, and write them as an output.
    """

    name: str
    recipe: Recipe
    training: Training
    data: PreparedData
    seed: int
    objective: Objective | None = None
    heads: Callable[[nn.Module], Heads] | None = None
    pictures: bool = False

    @property
    def shared(self) -> Training:
        """The settings that all trainings share, but for an average of the recipe's own."""
        own = self.recipe.average
        return self.training if own is None else self.training.model_copy(update={"average": own})


@dataclass(frozen=True)
class Outcome:
    """Finished training: its job, its start, whose network is trained now, and its result."""

    job: TrainingJob
    start: Start
    trained: Trained


def train_fresh(workspace: Workspace, job: TrainingJob, network: Network, schedule: Schedule) -> Outcome:
    """Train the network of the settings from fresh weights. Raises UserError where all of it does not fit."""
    start = Start.fresh(network, spec_for(job, network, schedule), job.seed)
    return train(workspace, job, start, build_sampler(job.recipe.sampler, start.spec.noise_schedule()))


def train_further(
    workspace: Workspace, job: TrainingJob, start: Start, sampler: TimestepSampler | None = None
) -> Outcome:
    """Train a model further.

    Args:
        workspace, job: where, and what is asked.
        start: the model.
        sampler: of all timesteps; None: uniform over those that the start is for. The recipe may widen their range:
            routing goes by it, whatever a model has seen of its neighbours' timesteps.

    Raises:
        UserError: recipe, timesteps, data and model are not made for each other.
    """
    drawn = sampler or sampler_inside(job.recipe.sampler, start.scope.range, start.spec.noise_schedule())
    return train(workspace, job, start, drawn)


def take_over(workspace: Workspace, job: TrainingJob, network: Network, schedule: Schedule) -> Outcome:
    """The trained network that the settings name, as a training without a step. Raises UserError where it does not fit.

    Its record does not count the images and compute of its training elsewhere.
    """
    start = Start.taken_over(network, spec_for(job, network, schedule))
    check_data(job, start.spec)
    check_class_numbers(job, start.spec, Path(str(network.pretrained)))
    log = workspace.work / LOG
    log.write_text("")
    return Outcome(job, start, Trained(steps=0, images_seen=0, log=log))


def at_rate(recipe: R, factor: float) -> R:
    """Return a recipe at a multiple of its learning rate."""
    optimizer = recipe.optimizer.model_copy(update={"lr": factor * recipe.optimizer.lr})
    return recipe.model_copy(update={"optimizer": optimizer})


def spec_for(job: TrainingJob, network: Network, schedule: Schedule) -> ModelSpec:
    """Specification of the network that a job trains."""
    return ModelSpec.of(network, schedule, job.recipe.prediction, Space.of(job.data))


def train(workspace: Workspace, job: TrainingJob, start: Start, sampler: TimestepSampler) -> Outcome:
    """Train a network in place, with the recipe's budget. Raises UserError where they do not fit."""
    check_fit(job, start, sampler)
    pictures = pictures_of(workspace, job, start)
    carried = warm_start(start, job.recipe)
    trainer = Trainer(
        Denoiser.of(start.net, start.spec, device=workspace.device),
        batches_of(workspace, job, start, sampler),
        job.objective or single_head(job.recipe, start.spec, workspace.device, sampler),
        optimizer=job.recipe.optimizer,
        training=job.shared,
        runtime=workspace.runtime,
        images=job.recipe.images,
        work=workspace.work,
        log=log_of(workspace, job, start),
        snapshots=job.recipe.snapshots,
        keep_state=job.recipe.keep_state,
        carried=carried,
        pictures=pictures,
    )
    return Outcome(job, start, trainer.run())


def log_of(workspace: Workspace, job: TrainingJob, start: Start) -> Log:
    """The log of a training, in which what its prediction, timesteps and loss weight decide is named by them."""
    kind = loss_kind(job.recipe, start.scope)

    def log(figures: Mapping[str, float], step: int) -> None:
        workspace.log({name if name in COMPARABLE else f"{name}/{kind}": one for name, one in figures.items()}, step)

    return log


def loss_kind(recipe: Recipe, scope: Scope) -> str:
    """Name what a loss is of: prediction, density over timesteps, draw and weight, with their numbers."""
    sampler, weight = recipe.sampler, recipe.loss_weight
    inside = f" {scope.range.first}-{scope.range.last}" if sampler.density == "slot" else ""
    draw = "" if sampler.draw == "independent" else f" {sampler.draw}"
    weighted = "" if weight.kind == "none" else f"/{weight.kind}{numbers_of(weight)}"
    return f"{recipe.prediction}/{sampler.density}{numbers_of(sampler)}{inside}{draw}{weighted}"


def numbers_of(settings: Strict) -> str:
    """Name the numbers of settings that are not the defaults, each behind a blank."""
    changed = settings.model_dump(mode="json", exclude_defaults=True)
    return "".join(f" {name} {value:g}" for name, value in changed.items() if type(value) in (int, float))


def pictures_of(workspace: Workspace, job: TrainingJob, start: Start) -> "Pictures | None":
    """The pictures that the settings ask for during the training, if any."""
    training, spec, own = job.training, start.spec, start.scope.range
    if training.pictures is None or not job.pictures:
        return None
    from unequal.training.pictures import COUNT, Pictures, condition_of

    latent = spec.space.autoencoder is not None  # whose data depend on the autoencoder: no stage declares it again
    return Pictures(
        count=training.pictures,
        spec=spec,
        own=own,
        before=None if own.length == spec.timesteps else deepcopy(start.net),
        condition=condition_of(spec, job.data),
        autoencoder=workspace.input("artifacts/autoencoder") if latent else None,
        precision=chosen_precision(training.precision, workspace.device),
        batch_size=min(COUNT, training.batch_size // training.gradient_accumulation),
        log=workspace.picture,
    )


def batches_of(workspace: Workspace, job: TrainingJob, start: Start, sampler: TimestepSampler) -> BatchSource:
    """The batches of a job's training images."""
    images = images_on(workspace.device, job.data)
    window = window_of(len(images), images[0].nbytes)
    return BatchSource(
        images=images,
        batch_size=job.training.batch_size,
        sampler=sampler,
        # A model that is trained further sees other noise than its parent.
        seed=job.seed if start.parent is None else torch_seed(job.seed, start.parent.total_images),
        horizontal_flips=job.training.horizontal_flips,
        device=workspace.device,
        window=window,
        # On a CPU the thread would take the time from the step that it saves, unless it waits for a disk.
        prefetch=images.is_cpu and (workspace.device.type == "cuda" or window is not None),
        labels=None if (labels := job.data.labels_of("train")) is None else labels.to(images.device),
        condition=start.spec.conditioning,
    )


def single_head(recipe: Recipe, spec: ModelSpec, device: torch.device, sampler: TimestepSampler) -> Objective:
    """The loss of a recipe with one head, scaled as the sampler asks for; the sampler gets the weights."""
    schedule = spec.noise_schedule()
    scale = 1.0 if sampler.known_loss is None else scale_of(recipe, spec, sampler, sampler.known_loss)
    weights = weight_table(recipe.loss_weight, spec.prediction, schedule.snr)
    sampler.set_loss_weights(scale * (weights / epsilon_error_factor(spec.prediction, schedule.snr)).numpy())
    return objective_for(spec, schedule.to(device), recipe.loss_weight, scale)


def scale_of(recipe: Recipe, spec: ModelSpec, sampler: TimestepSampler, known: np.ndarray) -> float:
    """The factor of loss weights under which a model with these losses of ε [T] would lose as much as without any."""
    snr = spec.noise_schedule().snr
    losses = known / epsilon_error_factor(spec.prediction, snr).numpy()
    weights = weight_table(recipe.loss_weight, spec.prediction, snr).numpy() * sampler.importance()
    return normalising_factor(weights, sampler.probabilities, losses)


def check_fit(job: TrainingJob, start: Start, sampler: TimestepSampler) -> None:
    """Raise UserError where sampler, recipe, data and network are not made for each other."""
    spec, prediction, parent = start.spec, job.recipe.prediction, start.parent
    name = job.name if parent is None else parent.name
    if (drawn := len(sampler.probabilities)) != spec.timesteps:
        raise UserError(f"the sampler is made for {drawn} timesteps, the model for {spec.timesteps}")
    if spec.prediction != prediction:
        raise UserError(f"a recipe of prediction '{prediction}' cannot train '{spec.prediction}' of {name} on")
    if (prediction == "mixed") != (job.heads is not None):
        has = "lacks" if job.heads is None else "has"
        raise UserError(f"prediction '{prediction}' of {job.name} {has} a way to combine three heads")
    if spec.space.autoencoder != job.data.facts["autoencoder"]:
        raise UserError(f"'{name}' works in other latents than those of the data, or in pixels; train it again")
    spec.check_images(job.data, name)
    check_data(job, spec)


def check_data(job: TrainingJob, spec: ModelSpec) -> None:
    """Raise UserError where the data lack the labels of a model, or are far fewer than a batch."""
    check_classes(spec.condition, job.data.facts["labels"])
    if job.training.batch_size > (most := LARGEST_BATCH * (images := len(job.data.train))):
        raise UserError(f"training.batch_size: {job.training.batch_size} of {images} training images; at most {most}")


def check_class_numbers(job: TrainingJob, spec: ModelSpec, pretrained: Path) -> None:
    """Raise UserError where a pretrained network knows the classes of the data by other numbers, or by unknown ones."""
    names = job.data.facts["classes"]
    if names is None or spec.conditioning.embedded_classes is None or job.data.facts.get("numbered"):
        return
    from unequal.models.class_names import class_numbers, read_class_names  # needed by few trainings

    numbers = class_numbers(names, read_class_names(pretrained), len(names), "network.pretrained")
    if wrong := [(name, ours, its) for ours, (name, its) in enumerate(zip(names, numbers, strict=True)) if ours != its]:
        name, ours, its = wrong[0]
        raise UserError(
            f"network.pretrained: class '{name}' is its number {its}, and number {ours} of the data; name the data's "
            f"classes by the model's numbers, 0 … {len(names) - 1}"
        )


def images_on(device: torch.device, data: PreparedData) -> Tensor:
    """The training images on the device if they take less than a quarter of its free memory, else mapped from disk."""
    images = tensor_of(data.train)
    if device.type == "cuda" and images.nbytes < torch.cuda.mem_get_info(device)[0] / 4:
        return images.to(device)
    return images
