"""A recipe carried out: from settings to a model folder, its curve and its figures."""

import json
import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.diffusion.predictions import HEADS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import write_csv, write_npz
from unequal.models.artifact import SNAPSHOTS, Heads, ModelRecord, save_model
from unequal.models.flops import count_cost, training_flops
from unequal.models.pruned import Removal
from unequal.randomness import torch_seed
from unequal.settings.network import Network
from unequal.settings.recipe import Mixing, Recipe
from unequal.settings.runtime import Runtime
from unequal.settings.training import Training
from unequal.timesteps.samplers import TimestepSampler
from unequal.training.batches import BatchSource
from unequal.training.conditional import for_task
from unequal.training.loop import LOG, Trained, Trainer
from unequal.training.mixing import BalancedHeads, BestHead
from unequal.training.objective import Objective
from unequal.training.objectives import objective_for
from unequal.training.order import window_of
from unequal.training.snapshots import Snapshot


class TrainingPlace(Protocol):
    """Where a network is trained: device, runtime settings, a folder for resumable state, a log."""

    @property
    def device(self) -> torch.device: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def work(self) -> Path: ...
    def log(self, metrics: Mapping[str, float], step: int) -> None: ...


class Place(TrainingPlace, Protocol):
    """Where a run happens: the same, and outputs."""

    @property
    def leads(self) -> bool: ...
    def output(self, path: str) -> Path: ...
    def metrics(self, path: str, content: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Start:
    """What a run trains: a network, and where it comes from.

    `parent` is the record of the model whose weights it has, None for fresh ones; `removals` made it
    from the architecture in its config; `first` and `last` bound the timesteps that it is meant for.
    `enlargement` is the factor of super-resolution, and `learned_variance` says whether the network has
    channels for one; `classes` are those that it is told. What has a parent goes on as the parent does.
    """

    net: UNet2DModel
    schedule: NoiseSchedule
    parent: ModelRecord | None = None
    removals: list[Removal] | None = None
    first: int = 0
    last: int | None = None
    group: int | None = None
    groups: int | None = None
    enlargement: int | None = None
    learned_variance: bool = False
    classes: int | None = None

    @classmethod
    def of(cls, net: UNet2DModel, schedule: NoiseSchedule, network: Network) -> Self:
        """A network with one head that the settings describe, without a parent."""
        return cls(
            net,
            schedule,
            enlargement=network.enlargement,
            learned_variance=network.learned_variance,
            classes=network.classes,
        )


@dataclass(frozen=True)
class Job:
    """A run to be carried out.

    `name` is the model's, below `artifacts/models`; `measure_heads` gives the held-out products [T, 3, 3] by which
    the heads of the trained network are combined, for the prediction `mixed`.
    """

    name: str
    start: Start
    recipe: Recipe
    training: Training
    sampler: TimestepSampler
    data: PreparedData
    seed: int
    measure_heads: Callable[[UNet2DModel], Tensor] | None = None

    @property
    def origin(self) -> ModelRecord | Start:
        """What settles the kind of model: the parent where there is one."""
        return self.start.parent or self.start

    @property
    def prediction(self) -> str:
        """What the model predicts."""
        return self.recipe.prediction

    @property
    def enlargement(self) -> int | None:
        """Factor of super-resolution, None for generation."""
        return self.origin.enlargement

    @property
    def learned_variance(self) -> bool:
        """Whether the model learns the variance too."""
        return self.origin.learned_variance

    @property
    def classes(self) -> int | None:
        """How many classes the network is told, None for none."""
        return self.origin.classes


def produce(place: Place, job: Job) -> None:
    """Carry a job out and write the model folder, its curve and its figures."""
    write_results(place, job, train(place, job))


def train(place: TrainingPlace, job: Job) -> Trained:
    """Train the start's network in place, with the recipe's budget. Raises UserError where they do not fit."""
    check_fit(job)
    start, recipe = job.start, job.recipe
    images = images_on(place.device, job.data)
    window = window_of(len(images), images[0].nbytes)
    source = BatchSource(
        images=images,
        batch_size=job.training.batch_size,
        sampler=job.sampler,
        # A model that is trained on sees other noise than its parent has seen.
        seed=job.seed if start.parent is None else torch_seed(job.seed, start.parent.total_images),
        horizontal_flips=job.training.horizontal_flips,
        device=place.device,
        window=window,
        # On a CPU the thread would take from the step what it saves it, unless it waits for a disk.
        ahead=place.device.type == "cuda" or window is not None,
        labels=job.data.train_labels,
    )
    trainer = Trainer(
        start.net,
        source,
        build_objective(job, start.schedule.to(place.device)),
        recipe.optimizer,
        job.training,
        place.runtime,
        recipe.images,
        place.work,
        place.log,
        recipe.snapshots,
    )
    return trainer.run()


def check_fit(job: Job) -> None:
    """Raise UserError where sampler, recipe and network are not made for each other."""
    start, prediction, parent = job.start, job.recipe.prediction, job.start.parent
    if (drawn := len(job.sampler.probabilities)) != start.schedule.timesteps:
        raise UserError(f"the sampler is made for {drawn} timesteps, the model for {start.schedule.timesteps}")
    if parent is not None and parent.prediction != prediction:
        raise UserError(f"a recipe of prediction '{prediction}' cannot train '{parent.prediction}' of {parent.name} on")
    if parent is not None and parent.autoencoder != job.data.facts["autoencoder"]:
        raise UserError(f"'{parent.name}' works in other latents than those of the data, or in pixels; train it again")
    check_labels(job)
    wanted = len(HEADS) if prediction == "mixed" else 2 if job.learned_variance else 1
    if (answers := start.net.config["out_channels"] // job.data.images.shape[1]) != wanted:
        learned = "with" if job.learned_variance else "without"
        raise UserError(
            f"prediction '{prediction}' {learned} learned variance takes {wanted} answers of an image's size; the "
            f"network of {job.name} gives {answers}"
        )


def check_labels(job: Job) -> None:
    """Raise UserError where the classes that a network is told are not those of the data."""
    found = job.data.facts["labels"]
    if job.classes is not None and job.classes != found:
        has = "without labels" if found is None else f"of {found} classes"
        raise UserError(f"network.classes: {job.classes}; the data are {has}, allowed: {found or 'null'}, or null")


def build_objective(job: Job, schedule: NoiseSchedule) -> Objective:
    """The loss that a job trains."""
    recipe, weight = job.recipe, job.recipe.loss_weight
    if recipe.mixing is None:
        return objective_for(job, schedule, weight.kind, weight.gamma)
    return for_task(mixed_objective(recipe, recipe.mixing, schedule), job)


def mixed_objective(recipe: Recipe, mixing: Mixing, schedule: NoiseSchedule) -> Objective:
    """The loss of three heads, as a recipe mixes them."""
    weight, bins = recipe.loss_weight, schedule.snr_bins(mixing.bins)
    if mixing.half_life_images is not None:
        return BalancedHeads(schedule, bins, recipe.images, mixing.half_life_images)
    return BestHead(schedule, bins, recipe.images, weight.kind, weight.gamma, mixing.train.removeprefix("best_"))


def images_on(device: torch.device, data: PreparedData) -> Tensor:
    """The training images on the device if they take less than half of its free memory, else mapped from disk."""
    images = tensor_of(data.train)
    if device.type == "cuda" and images.nbytes < torch.cuda.mem_get_info(device)[0] / 2:
        return images.to(device)
    return images


def record_of(job: Job, trained: Trained | Snapshot) -> ModelRecord:
    """The conditions of a finished run, or of a point within it."""
    start, recipe, parent = job.start, job.recipe, job.start.parent
    cost = count_cost(start.net)
    channels, size, _ = job.data.images.shape[1:]
    return ModelRecord(
        name=job.name,
        prediction=recipe.prediction,
        schedule=start.schedule.name,
        timesteps=start.schedule.timesteps,
        image_size=size,
        channels=channels,
        seed=job.seed,
        steps=trained.steps,
        images_seen=trained.images_seen,
        training_flops=training_flops(cost.macs, trained.images_seen),
        macs=cost.macs,
        macs_with_attention=cost.macs_with_attention,
        parameters=cost.parameters,
        first=start.first,
        last=start.schedule.timesteps - 1 if start.last is None else start.last,
        parent=parent.name if parent else None,
        inherited_images=parent.total_images if parent else 0,
        inherited_flops=parent.total_flops if parent else 0,
        group=start.group,
        groups=start.groups,
        enlargement=job.enlargement,
        learned_variance=job.learned_variance,
        autoencoder=job.data.facts["autoencoder"],
        classes=job.classes,
    )


def write_results(place: Place, job: Job, trained: Trained) -> None:
    """Write what a finished run came to, by the process that leads; see `produce`."""
    if not place.leads:
        return
    record, folder = record_of(job, trained), place.output(f"artifacts/models/{job.name}")
    write_model(folder, job, job.start.net, record)
    for snapshot in trained.snapshots:
        net = deepcopy(job.start.net)
        net.load_state_dict(snapshot.weights())
        below = f"{SNAPSHOTS}/{snapshot.images_seen}"
        write_model(folder / below, job, net, replace(record_of(job, snapshot), name=f"{job.name}/{below}"))
    if trained.statistics:
        write_npz(place.output(f"artifacts/statistics/{job.name}.npz"), **trained.statistics)
    lines = curve(trained.log)
    flat = job.name.replace("/", "_")
    # Speeds differ from run to run: the log stays out of the model, whose content decides what is stale.
    shutil.copyfile(trained.log, place.output(f"artifacts/training/{flat}.jsonl"))
    write_csv(place.output(f"results/training/{flat}.csv"), lines or [{"step": 0, "images_seen": 0, "loss": ""}])
    final = {"final_loss": lines[-1]["loss"]} if lines else {}
    conditions = {field: value for field, value in asdict(record).items() if value not in (None, {})}
    place.metrics(f"results/metrics/train_{flat}.json", final | conditions)


def write_model(folder: Path, job: Job, net: UNet2DModel, record: ModelRecord) -> None:
    """Save a network as a model folder, with what combines its heads where it has several."""
    heads = None
    if job.recipe.mixing is not None and job.measure_heads is not None:
        heads = Heads.selected(job.recipe.mixing.select, job.measure_heads(net))
    save_model(folder, net, record, job.start.removals, heads)


def untrained(place: Place, job: Job) -> Trained:
    """A run without a step: what a pretrained base comes to. Raises UserError where it is told other classes."""
    check_labels(job)
    log = place.work / LOG
    log.write_text("")
    return Trained(steps=0, images_seen=0, log=log)


def curve(log: Path) -> list[dict[str, Any]]:
    """The lines of a training log."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
