"""Give the same noise to all replicas, and measure the distances of their pictures and predictions."""

from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from studies.consistency.comparison import (
    OPTIMUM,
    TRAINED,
    UNTRAINED,
    Predict,
    Row,
    Subject,
    by_network,
    by_optimum,
    distances,
    mismatched,
    mse,
    nearest,
    predicted_x0,
    sampled,
    untrained,
)
from studies.consistency.params import Comparison, replica
from unequal.data.prepared import PreparedData, tensor_of, to_model_range, to_uint8
from unequal.diffusion.spacing import sampling_timesteps
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser, load_denoiser
from unequal.models.folder import ModelRecord
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, noise_of
from unequal.runtime.files import write_json, write_npz
from unequal.settings.evaluation import Sampling
from unequal.settings.network import UNet2D
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    seed: int
    network: UNet2D
    sampling: Sampling
    horizontal_flips: bool = key("training.horizontal_flips")
    widths: tuple[str, ...] = key("consistency.widths")
    seeds: tuple[int, ...] = key("consistency.seeds")
    comparison: Comparison = key("consistency.comparison")


def predictors(
    folder: Path, settings: Settings, known: Tensor, device: torch.device
) -> tuple[dict[Subject, Predict], ModelRecord]:
    """Every subject with its predictions, in the order of the report, and the record of the first replica."""
    records = list[ModelRecord]()
    trained, before, optimum = dict[Subject, Predict](), dict[Subject, Predict](), dict[Subject, Predict]()
    for width, seed in product(settings.widths, settings.seeds):
        name = replica(width, seed)
        denoiser, record = load_denoiser(folder / name, device)
        records.append(record)
        start = Denoiser(untrained(settings.network, width, seed, record.spec).to(device), record.spec)
        trained[Subject(name, TRAINED, width)] = by_network(denoiser, settings.sampling.clip)
        before[Subject(f"{UNTRAINED}/{name}", UNTRAINED, width)] = by_network(start, settings.sampling.clip)
    if settings.comparison.optimum:
        images = torch.cat([known, known.flip(-1)]) if settings.horizontal_flips else known
        optimum[Subject(OPTIMUM, OPTIMUM)] = by_optimum(images.to(device), records[0].spec.noise_schedule().to(device))
    return trained | optimum | before, records[0]


def pictures_of(
    subjects: dict[Subject, Predict], settings: Settings, record: ModelRecord, device: torch.device
) -> dict[Subject, Tensor]:
    """Pictures of each subject from the same noises, [noises, C, H, W]."""
    sampling, schedule = settings.sampling, record.spec.noise_schedule()
    timesteps = sampling_timesteps(sampling.steps, record.spec.timesteps, sampling.spacing)
    shape, ids = record.spec.space.shape, range(settings.comparison.noises)
    start = noise_of(shape, ids, settings.seed, Stream.SAMPLE_START, device=device)
    return {
        subject: sampled(predict, start, timesteps, schedule, sampling.batch_size).cpu()
        for subject, predict in subjects.items()
    }


def compare_predictions(
    subjects: dict[Subject, Predict], settings: Settings, record: ModelRecord, data: PreparedData, device: torch.device
) -> list[Row]:
    """Distances of predictions of x0 of held-out images, timestep by timestep."""
    count, schedule, size = settings.comparison.images, record.spec.noise_schedule(), settings.sampling.batch_size
    if count > len(data.holdout):
        raise UserError(f"consistency.comparison.images: {count} exceeds the {len(data.holdout)} held-out images")
    x0 = to_model_range(tensor_of(data.holdout[:count])).to(device)
    shape, ids = x0.shape[1:], range(count)
    noises = [noise_of(shape, ids, settings.seed, Stream.CONSISTENCY, number, device=device) for number in (0, 1)]
    rows = []
    for t in settings.comparison.timesteps:
        predicted, with_other_noise = (
            {subject: predicted_x0(predict, x0, epsilon, t, schedule, size) for subject, predict in subjects.items()}
            for epsilon in noises
        )
        rows += distances(predicted, with_other_noise, timestep=t)
    return rows


def training_distances(pictures: dict[Subject, Tensor], data: PreparedData, known: Tensor) -> dict[str, float]:
    """Mean squared error to the nearest training image: of every subject's pictures, and of held-out images.

    Besides, that between two training images drawn at random; all three are scales for pictures of two models.
    """
    compared = {subject.name: images for subject, images in pictures.items() if subject.state != UNTRAINED}
    count = len(next(iter(compared.values())))
    compared["held_out"] = to_model_range(tensor_of(data.holdout[:count]))
    found = {name: float(nearest(images, known)[0].mean()) for name, images in compared.items()}
    return found | {"two_training_images": mse(known[:count], mismatched(known[:count]))}


def conditions_of(settings: Settings, record: ModelRecord, data: PreparedData) -> dict[str, Any]:
    """Conditions of the figures."""
    return {
        "training_images": len(data.train),
        "images_seen": record.images_seen,
        "data": f"{data.facts['source']} {data.facts['sha256'][:12]}",
        "prediction": record.spec.prediction,
        "timesteps": record.spec.timesteps,
        "noise_seed": settings.seed,
        "sampling": settings.sampling.model_dump(mode="json"),
        "comparison": settings.comparison.model_dump(mode="json"),
    }


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Measure the consistency phenomenon."""
    data = PreparedData.open(run.input("artifacts/data"))
    known = to_model_range(tensor_of(data.train))
    subjects, record = predictors(run.input("artifacts/models"), settings, known, run.device)
    pictures = pictures_of(subjects, settings, record, run.device)
    table = {
        "pictures": distances(pictures),
        "predictions": compare_predictions(subjects, settings, record, data, run.device),
        "nearest_training": training_distances(pictures, data, known),
        "conditions": conditions_of(settings, record, data),
    }
    write_json(run.output("artifacts/consistency/table.json"), table)
    images = {subject.name: to_uint8(images).numpy() for subject, images in pictures.items()}
    images["nearest_training"] = data.train[nearest(next(iter(pictures.values())), known)[1]]
    write_npz(run.output("artifacts/consistency/pictures.npz"), **images)
