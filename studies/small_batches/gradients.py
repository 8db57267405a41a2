"""How gradients scatter at a point of a training, and how those of different slots stand to each other."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from studies.small_batches.densities import DENSITY_NAMES, Densities
from studies.small_batches.params import Gradients
from unequal.data.prepared import PreparedData, tensor_of
from unequal.errors import UserError
from unequal.measures.gradients import Exposure, GradientSample, Moments, compare, exposure_of, mixture, scatter
from unequal.models.folder import ModelRecord
from unequal.randomness import numpy_generator
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.gradient_meter import GradientMeter
from unequal.training.objectives import objective_for


def meter_of(
    net: nn.Module, record: ModelRecord, data: PreparedData, chosen: Gradients, seed: int, device: torch.device
) -> GradientMeter:
    """Meter of a model on training images, as training without loss weights sees it.

    Raises:
        UserError: a model of three heads.
    """
    if record.spec.prediction == "mixed":
        raise UserError(f"model {record.name} has three heads; gradients are measured of a single prediction")
    return GradientMeter(
        net.to(device).train().requires_grad_(True),
        objective_for(record.spec, record.spec.noise_schedule().to(device)),
        tensor_of(data.train),
        folds=chosen.folds,
        single_images=chosen.single_images,
        mean_images=chosen.mean_images,
        seed=seed,
        labels=data.train_labels,
    )


def figures_of(sample: GradientSample, densities: Densities, batch_size: int) -> dict[str, Any]:
    """Return all figures of a point in one metric, each figure with its jackknife error over folds of images.

    `noise_scale`: images a step at which a gradient's noise is as long as the gradient (1812.06162, B_simple).
    `between_share`: what the timesteps' differing mean gradients have of the variance at uniform timesteps; all else
    is the scatter of images and noise, which no choice of timesteps evens out.
    `variance_<density>`: of a batch drawn from a density and weighted back, as a share of uniform draws' variance.
    `cosines`: between the mean gradients of two slots, [K, K], free of the bias that noise gives to lengths.
    """
    cells, generator = densities.cells, numpy_generator(0)

    def exposure(sampler: TimestepSampler) -> Exposure:
        return exposure_of(sampler, cells, batch_size, generator)  # of these in closed form: nothing is drawn

    even, mixing = exposure(TimestepSampler(uniform(cells.timesteps))), mixture(cells, densities.slots)
    against = {name: exposure(densities.drawn(name)) for name in DENSITY_NAMES}
    compared = {name: compare(own, even, sample, cells.shares) for name, own in against.items()}
    plain = compare(even, even, sample, cells.shares)
    return {
        "noise_scale": with_errors(
            *sample.estimate(partial(noise_scale, cells=cells, even=even, batch_size=batch_size))
        ),
        "between_share": {"value": plain["between_share"], "stderr": plain["between_share_stderr"]},
        "cosines": with_errors(*sample.estimate(lambda moments: moments.merged(mixing).cosines)),
    } | {
        f"variance_{name}": {"value": one["relative_variance"], "stderr": one["relative_variance_stderr"]}
        for name, one in compared.items()
    }


def noise_scale(moments: Moments, cells: Partition, even: Exposure, batch_size: int) -> np.ndarray:
    """B times the variance of a batch's gradient over the square of the mean one; NaN where that is lost in noise."""
    found = scatter(even, moments, cells.shares)
    return np.array(batch_size * found.variance / found.mean_square if found.mean_square > 0 else np.nan)


def with_errors(values: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """A figure or a table of them as JSON has them, null for those that are lost in noise."""
    return {"value": known(values), "stderr": known(errors)}


def known(values: np.ndarray) -> Any:
    """Numbers as lists, None for those that are none."""
    table = np.asarray(values, dtype=object)
    table[~np.isfinite(values)] = None
    return table.tolist()
