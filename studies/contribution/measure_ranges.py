"""Enlarge held-out images with the true x0, or with an error of one size, in ranges of timesteps (paper 1, Fig. 3).

An oracle in a range shows what the model's own errors there cost, which are larger near the noise. The same error
injected in every range shows how much an error costs there, whatever the model.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from unequal.data.prepared import PreparedData, tensor_of, to_model_range
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.solvers import ddim_step, steps_of
from unequal.diffusion.spacing import spaced_timesteps
from unequal.diffusion.super_resolution import UNITS, blurred, psnr
from unequal.errors import UserError
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, noise_of, torch_seed
from unequal.sampling.ensemble import Ensemble
from unequal.settings.condition import LowResolution
from unequal.settings.evaluation import Sampling
from unequal.settings.strict import StageSettings, Strict
from unequal.timesteps.partition import TimestepRange

#: Runs of a range: x0 is the truth in it, or the predicted one with the injected error.
ORACLE, ERROR = "oracle", "error"
Predict = Callable[[Tensor, int], Tensor]


class Ranges(Strict):
    """`study`: ranges of timesteps in which x0 is replaced, and on how many images."""

    images: PositiveInt = Field(ge=2, description="held-out images that are enlarged in every run")
    ranges: tuple[tuple[PositiveInt, PositiveInt], ...] = Field(
        min_length=1, description="[a, b], counted from 1 as in the paper; the last step, 1, is never changed"
    )
    samples: PositiveInt = Field(
        ge=2, description="samples of each image, whose mean is held against bilinear enlargement"
    )
    injected: PositiveFloat = Field(description="root mean square of the error in x0, in values of 0 to 255")

    def of(self, timesteps: int) -> list[TimestepRange]:
        """The ranges, counted from 0. Raises UserError where one has nothing to change or goes beyond T."""
        for first, last in self.ranges:
            if not max(first, 2) <= last <= timesteps:
                raise UserError(f"study.ranges: [{first}, {last}]; allowed: rising, from 2 to {timesteps} at its end")
        return [TimestepRange(max(first, 2) - 1, last - 1) for first, last in self.ranges]


def changed_samples(
    predict: Predict,
    truth: Tensor,
    error: Tensor,
    start: Tensor,
    noise: Callable[[int], Tensor],
    schedule: NoiseSchedule,
    ranges: Sequence[TimestepRange],
) -> Tensor:
    """Samples at all T steps with DDPM's variance: unchanged, with an oracle in each range, with an error in each.

    Args:
        predict: (x_t, t) → x0, of the images of several runs, one run behind the other.
        truth, error: x0, and what is added to a predicted one, [B, C, H, W].
        start: x_T, [B, C, H, W].
        noise: step number → [B, C, H, W], which all runs share.
        schedule: of all T timesteps.
        ranges: R of them.

    Returns:
        [1 + 2·R, B, C, H, W].
    """
    count = len(ranges)
    runs = torch.stack([start] * (1 + 2 * count))
    for step, (t, now, after) in enumerate(steps_of(range(schedule.timesteps)[::-1], schedule)):
        x0 = predict(runs.flatten(0, 1), t).unflatten(0, runs.shape[:2]).clone()
        for number, one in enumerate(ranges, start=1):
            if one.holds(t):
                x0[number] = truth
                x0[count + number] += error
        runs = torch.stack(
            [ddim_step(x, x0_run, now, after, 1.0, noise(step)) for x, x0_run in zip(runs, x0, strict=True)]
        )
    return runs


def mean_of_samples(
    model: Ensemble, originals: Tensor, settings: "Settings", seed: int, labels: Tensor | None
) -> Tensor:
    """The mean of several samples of each image, as FID's are sampled, [B, C, H, W] in the model's range.

    A sample that is drawn as its truth is has twice the squared error of the mean of all such samples, 3 dB of PSNR:
    a model that is better than bilinear enlargement shows it by the mean.
    """
    sampling, count = settings.sampling, settings.study.samples
    steps = spaced_timesteps(sampling.steps, model.schedule, sampling.spacing)
    images = model.sample(
        count * len(originals),
        steps,
        batch_size=sampling.batch_size,
        seed=seed,
        eta=sampling.eta,
        clip=sampling.clip,
        originals=originals,
        labels=labels,
        solver=sampling.solver,
    )
    return to_model_range(images).unflatten(0, (count, len(originals))).mean(0)


def hue_deviation(images: Tensor, truth: Tensor) -> Tensor:
    """Mean angle between the hues of images and truth, weighted by the truth's chroma, [B] in degrees, float64.

    Args:
        images, truth: RGB, [B, 3, H, W].
    """
    (a, b), (c, d) = chroma(images), chroma(truth)
    angle = torch.atan2(a * d - b * c, a * c + b * d).abs() * 180 / math.pi
    weight = torch.hypot(c, d)
    return (weight * angle).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp_min(1e-12)


def chroma(images: Tensor) -> tuple[Tensor, Tensor]:
    """Two axes of colour whose angle is the hue, [B, H, W] each."""
    red, green, blue = images.double().unbind(1)
    return red - (green + blue) / 2, math.sqrt(3) / 2 * (green - blue)


def quality(images: Tensor, truth: Tensor) -> dict[str, float]:
    """Means over images [B, C, H, W]: PSNR in dB, colour shift in values of 0 to 255, hue deviation in degrees."""
    shift = (UNITS * (images.double() - truth.double())).flatten(2).mean(2).abs().mean()
    hue = hue_deviation(images, truth).mean()
    return {"psnr": float(psnr(images, truth).mean()), "colour_shift": float(shift), "hue": float(hue)}


class Settings(StageSettings):
    seed: int
    sampling: Sampling
    study: Ranges


def measured_runs(
    model: Ensemble, data: PreparedData, settings: Settings, seed: int, name: str
) -> list[dict[str, Any]]:
    """Quality of the enlarged images of each run, a row a run.

    Raises:
        UserError: the model enlarges no colour images, or images are missing; the message begins with `name`.
    """
    chosen, condition = settings.study, model.record.spec.condition
    if not isinstance(condition, LowResolution):
        raise UserError(f"{name}: {condition.title}; allowed: one of super-resolution (network.condition)")
    if model.record.spec.space.channels != 3:
        raise UserError(f"{name}: images of {model.record.spec.space.channels} channels have no hue; allowed: 3")
    if chosen.images > len(data.holdout):
        raise UserError(f"study.images: {chosen.images}; allowed: at most the {len(data.holdout)} held-out images")
    originals, ids = tensor_of(data.holdout[: chosen.images]), range(chosen.images)
    ranges = chosen.of(model.schedule.timesteps)
    held_out = data.labels_of("holdout") if condition.takes_labels_of_images else None
    labels = None if held_out is None else held_out[: chosen.images]
    truth = to_model_range(originals).to(model.device)
    error = noise_of(truth.shape[1:], ids, seed, Stream.PROFILE_NOISE, device=model.device)
    samples = changed_samples(
        model.predictor(True, model.condition(ids, originals, seed, labels)),
        truth,
        chosen.injected / UNITS * error,
        model.noise_of(ids, seed, Stream.SAMPLE_START),
        partial(model.noise_of, ids, seed, Stream.SAMPLE_ADDED),
        model.schedule,
        ranges,
    ).clamp(-1, 1)
    named = [("unchanged", None), *((kind, one) for kind in (ORACLE, ERROR) for one in chosen.ranges)]
    rows: list[dict[str, Any]] = [
        {"run": kind, "range": None if one is None else list(one)} | quality(images, truth)
        for (kind, one), images in zip(named, samples, strict=True)
    ]
    both = {
        "bilinear": blurred(truth, condition.super_resolution_factor),
        "mean": mean_of_samples(model, originals, settings, seed, labels).to(model.device),
    }
    first = [{"run": kind, "range": None} | quality(images, truth) for kind, images in both.items()]
    return [*first, *rows]


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Measure what ranges of timesteps contribute to an arm's enlarged images."""
    data = PreparedData.open(run.input("artifacts/data"))
    model = Ensemble.load(run.input(f"artifacts/models/{arm}/block_{block}"), run.device)
    runs = measured_runs(model, data, settings, torch_seed(settings.seed, block), arm)
    run.metrics(f"results/ranges/{arm}/block_{block}.json", {"arm": arm, "block": block, "runs": runs})
