"""Give the same noise to all replicas, and measure the distances of their pictures and predictions."""

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
    means,
    mismatched,
    mse,
    nearest_of_many,
    picture_rows,
    predicted_x0,
    prediction_rows,
    sampled,
    untrained,
)
from studies.consistency.params import Comparison, replica
from unequal.data.prepared import PreparedData, tensor_of, to_model_range, to_uint8
from unequal.diffusion.spacing import sampling_timesteps
from unequal.errors import UserError
from unequal.files import rounded, write_csv, write_json, write_npz
from unequal.models.denoiser import Denoiser, load_denoiser
from unequal.models.folder import ModelRecord
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, noise_of
from unequal.settings.evaluation import Sampling
from unequal.settings.network import UNet2D
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    network: UNet2D
    sampling: Sampling
    horizontal_flips: bool = key("training.horizontal_flips")
    widths: tuple[str, ...] = key("consistency.widths")
    seeds: tuple[int, ...] = key("consistency.seeds")
    comparison: Comparison = key("consistency.comparison")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Measure the consistency phenomenon."""
    data = PreparedData.open(run.input("artifacts/data"))
    subjects, record = predictors(run.input("artifacts/models"), settings, data, run.device)
    pictures = pictures_of(subjects, settings, record, run.device)
    rows = picture_rows(pictures)
    predictions = compare_predictions(subjects, settings, record, data, run.device)
    distances, conditions = training_distances(pictures, data), conditions_of(settings, record, data)
    table = {"pictures": rows, "predictions": predictions, "nearest_training": distances, "conditions": conditions}
    write_json(run.output("artifacts/consistency/table.json"), table)
    images = {subject.name: to_uint8(images).numpy() for subject, images in pictures.items()}
    images["nearest_training"] = data.train[nearest_of_many(next(iter(pictures.values())), data.train)[1]]
    write_npz(run.output("artifacts/consistency/pictures.npz"), **images)
    write_csv(run.output("results/consistency_pictures.csv"), short(rows))
    write_csv(run.output("results/consistency_predictions.csv"), short(means(predictions, "relation", "timestep")))
    by_relation = {row.pop("relation"): row for row in means(rows, "relation")}
    run.metrics("results/consistency.json", {"pictures": by_relation, "nearest_training": distances} | conditions)


def predictors(
    folder: Path, settings: Settings, data: PreparedData, device: torch.device
) -> tuple[dict[Subject, Predict], ModelRecord]:
    """Every subject with its predictions, in the order of the report, and the record of the first replica."""
    trained, before = {}, {}
    for name, width, seed in ((replica(w, s), w, s) for w in settings.widths for s in settings.seeds):
        denoiser, record = load_denoiser(folder / name, device)
        start = Denoiser(untrained(settings.network, width, seed, record.spec).to(device), record.spec)
        trained[Subject(name, TRAINED, width)] = by_network(denoiser, settings.sampling.clip)
        before[Subject(f"{UNTRAINED}/{name}", UNTRAINED, width)] = by_network(start, settings.sampling.clip)
    optimum = {Subject(OPTIMUM, OPTIMUM): best(data, settings, record, device)} if settings.comparison.optimum else {}
    return trained | optimum | before, record


def best(data: PreparedData, settings: Settings, record: ModelRecord, device: torch.device) -> Predict:
    """The optimal denoiser of the training images."""
    images = to_model_range(tensor_of(data.train).to(device))
    known = torch.cat([images, images.flip(-1)]) if settings.horizontal_flips else images
    return by_optimum(known, record.spec.noise_schedule().to(device))


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
        rows += prediction_rows(t, predicted, with_other_noise)
    return rows


def training_distances(pictures: dict[Subject, Tensor], data: PreparedData) -> dict[str, float]:
    """Mean squared error to the nearest training image: of every subject's pictures, and of held-out images.

    Besides, that between two training images drawn at random; all three are scales for pictures of two models.
    """
    known = {subject.name: images for subject, images in pictures.items() if subject.state != UNTRAINED}
    count = len(next(iter(known.values())))
    known["held_out"] = to_model_range(tensor_of(data.holdout[:count]))
    random = to_model_range(tensor_of(data.train[:count]))
    found = {name: float(nearest_of_many(images, data.train)[0].mean()) for name, images in known.items()}
    return found | {"two_training_images": float(mse(random, mismatched(random)).mean())}


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


def short(rows: list[Row]) -> list[Row]:
    """Rows of a table with as many digits as mean something."""
    return [{name: rounded(x) if isinstance(x, float) else x for name, x in row.items()} for row in rows]


if __name__ == "__main__":
    main()
