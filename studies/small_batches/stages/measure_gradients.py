"""Measure the gradients of single images over the timesteps, and how batches of each sampler scatter by them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from studies.small_batches.settings import Gradients
from unequal.artifacts.partitions import read_slots
from unequal.artifacts.profiles import read_losses
from unequal.artifacts.samplers import read_sampler
from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.files import write_csv
from unequal.measures.gradient_meter import GradientMeter
from unequal.measures.gradient_variance import compare, exposure_of, mixture, settle
from unequal.measures.gradients import GradientSample, Moments
from unequal.models.folder import ModelRecord, load_model
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, numpy_generator
from unequal.settings.strict import StageSettings
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import IndependentSampler, TimestepSampler, uniform
from unequal.training.objectives.choice import objective_for

Figure = Callable[[Moments], np.ndarray]
SLOT_FIGURES: dict[str, Figure] = {
    "second_moment": lambda one: one.second,
    "variance": lambda one: one.variance,
    "mean_square": lambda one: np.diag(one.products),
    "cosines": lambda one: one.cosines,
}


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    gradients: Gradients


@stage(Settings)
def main(run: Run, settings: Settings, model: str) -> None:
    """Measure the gradients of a model."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, record = load_model(run.input(f"artifacts/models/{model}"))
    slots = read_slots(run.input("artifacts/slots.json"), record.spec.timesteps).slots
    losses = read_losses(run.input(f"artifacts/profiles/{model}.npz"))
    samplers = read_samplers(run.input("artifacts/samplers"), settings.gradients.samplers, record)
    cells = slots.split(settings.gradients.parts)
    sample = meter(net, record, data, settings, run.device).sample(cells)
    for sampler in samplers.values():
        settle(sampler, losses, sample.moments(), cells)
    table = rows(samplers, sample, cells, settings)
    write_csv(run.output(f"results/gradients/{model}.csv"), table)
    facts = {"model": model, "images_seen": record.total_images, "slots": slots, "cells": cells}
    run.metrics(f"results/gradients/{model}.json", facts | slot_figures(sample, cells, slots) | {"batches": table})


def read_samplers(folder: Path, recipes: Sequence[str], record: ModelRecord) -> dict[str, TimestepSampler]:
    """The samplers of recipes, as the stage `build_sampler` has written them."""
    return {name: read_sampler(folder / f"{name}.json", record.spec.noise_schedule()) for name in recipes}


def meter(
    net: nn.Module, record: ModelRecord, data: PreparedData, settings: Settings, device: torch.device
) -> GradientMeter:
    """What measures a model as training without loss weights sees it."""
    if record.spec.prediction == "mixed":
        raise UserError(f"model {record.name} has three heads; gradients are measured of a single prediction")
    return GradientMeter(
        net.to(device).train().requires_grad_(True),
        objective_for(record.spec, record.spec.noise_schedule().to(device)),
        tensor_of(data.train),
        folds=settings.gradients.folds,
        single_images=settings.gradients.single_images,
        mean_images=settings.gradients.mean_images,
        seed=settings.seed,
        labels=data.train_labels,
    )


def slot_figures(sample: GradientSample, cells: Partition, slots: Partition) -> dict[str, Any]:
    """Of each slot's single gradients: E‖g‖², the trace of their covariance, ‖μ‖², and cosines between mean ones."""
    mixing = mixture(cells, slots)
    found: dict[str, Any] = {}
    for name, figure in SLOT_FIGURES.items():
        values, errors = sample.estimate(partial(merged, mixing=mixing, figure=figure))
        found |= {name: known(values), f"{name}_stderr": known(errors)}
    return found


def merged(moments: Moments, mixing: np.ndarray, figure: Figure) -> np.ndarray:
    """A figure of slots, from the moments of their cells."""
    return figure(moments.merged(mixing))


def known(values: np.ndarray) -> list[Any]:
    """Numbers as JSON has them, None for those that are lost in noise."""
    table = values.astype(object)
    table[~np.isfinite(values)] = None
    return table.tolist()


def rows(
    samplers: Mapping[str, TimestepSampler], sample: GradientSample, cells: Partition, settings: Settings
) -> list[dict[str, Any]]:
    """A row for every sampler and batch."""
    even = IndependentSampler(uniform(cells.timesteps))
    generator = numpy_generator(settings.seed, Stream.GRADIENTS)
    table = []
    for name, sampler in samplers.items():
        for batch in settings.gradients.batches:
            own = exposure_of(sampler, cells, batch, generator, sampler.horizon)
            plain = exposure_of(even, cells, batch, generator)
            table.append({"sampler": name, "batch": batch} | compare(own, plain, sample, cells.shares))
    return table


if __name__ == "__main__":
    main()
