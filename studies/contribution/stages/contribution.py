"""Enlarge held-out images with the true x0 in place of the predicted one in ranges of timesteps."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from studies.contribution.settings import Contribution
from unequal.data.pixels import tensor_of, to_model_range, to_uint8
from unequal.data.prepared import PreparedData
from unequal.diffusion.super_resolution import blurred, colour_shift, psnr
from unequal.errors import UserError
from unequal.files import write_npz
from unequal.measures.contribution import counted_from_1, replaced_samples, sliding_windows
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream
from unequal.sampling.ensemble import Ensemble
from unequal.settings.condition import LowResolution
from unequal.settings.strict import StageSettings
from unequal.timesteps.partition import TimestepRange


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    contribution: Contribution


@stage(Settings)
def main(run: Run, settings: Settings, variant: str) -> None:
    """Measure what ranges of timesteps contribute to a variant's samples."""
    data, chosen = PreparedData.open(run.input("artifacts/data")), settings.contribution
    experts = Ensemble.load(run.input(f"artifacts/models/{variant}"), run.device)
    condition = experts.record.spec.condition
    if not isinstance(condition, LowResolution):
        raise UserError(f"{variant}: {condition.title}; allowed: one of super-resolution (network.condition)")
    originals, ranges = held_out(data, chosen.images), replaced_ranges(chosen, experts.schedule.timesteps)
    truth, samples = to_model_range(originals), run_all(run, settings, experts, originals, ranges)
    low = blurred(truth, condition.super_resolution_factor)
    tables = {
        "psnr": torch.stack([psnr(one, truth) for one in samples]),
        "colour_shift": torch.stack([colour_shift(one, truth) for one in samples]),
        "low_psnr": psnr(low, truth),
        "low_colour_shift": colour_shift(low, truth),
        "samples": to_uint8(samples[:, : chosen.shown]),
        "low": to_uint8(low[: chosen.shown]),
        "truth": originals[: chosen.shown],
    }
    arrays, name = {key: table.numpy() for key, table in tables.items()}, variant.replace("/", "_")
    write_npz(run.output(f"artifacts/contribution/{name}.npz"), **arrays)
    low_resolution = summary(arrays["low_psnr"], arrays["low_colour_shift"])
    figures = {"runs": rows(chosen, ranges, arrays), "low_resolution": low_resolution}
    run.metrics(f"results/contribution/{name}.json", conditions(settings, variant, experts, condition) | figures)


def held_out(data: PreparedData, count: int) -> Tensor:
    """The first held-out images, uint8 [count, C, H, W]. Raises UserError where there are fewer."""
    if len(data.holdout) < count:
        raise UserError(f"contribution.images: {count}; allowed: at most the {len(data.holdout)} held-out images")
    return tensor_of(data.holdout[:count])


def replaced_ranges(chosen: Contribution, timesteps: int) -> list[TimestepRange]:
    """The named ranges, and behind them the sliding windows."""
    named = [counted_from_1(*pair) for pair in chosen.ranges]
    return named + sliding_windows(timesteps, chosen.windows.count, chosen.windows.width)


def run_all(run: Run, settings: Settings, experts: Ensemble, originals: Tensor, ranges: list[TimestepRange]) -> Tensor:
    """The unreplaced run and that of each range, cut to the range of pixels, [1 + R, n, C, H, W] on the CPU."""
    chosen, parts = settings.contribution, []
    for first in tqdm(
        range(0, len(originals), chosen.batch_size), unit="batch", disable=None if run.runtime.progress else True
    ):
        ids = range(first, min(first + chosen.batch_size, len(originals)))
        samples = replaced_samples(
            experts.predictor(chosen.clip, experts.condition(ids, originals)),
            to_model_range(originals[ids.start : ids.stop]).to(run.device),
            experts.noise_of(ids, settings.seed, Stream.SAMPLE_START),
            partial(experts.noise_of, ids, settings.seed, Stream.SAMPLE_ADDED),
            experts.schedule,
            ranges,
        )
        parts.append(samples.clamp(-1, 1).cpu())
    return torch.cat(parts, dim=1)


def rows(chosen: Contribution, ranges: list[TimestepRange], arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Figures of each run; ranges counted from 1, as in the settings."""
    kinds = ["none"] + ["range"] * len(chosen.ranges) + ["window"] * chosen.windows.count
    found = []
    for number, (kind, one) in enumerate(zip(kinds, [TimestepRange(-1, -2), *ranges], strict=True)):
        place = {} if kind == "none" else {"first": one.first + 1, "last": one.last + 1}
        figures = summary(arrays["psnr"][number], arrays["colour_shift"][number])
        found.append({"replaced": kind} | place | figures)
    return found


def summary(psnrs: np.ndarray, shifts: np.ndarray) -> dict[str, float]:
    """Mean and standard error over images of PSNR [n] and of the colour shift [n, C], averaged over channels."""
    by_image = {"psnr": psnrs, "colour_shift": shifts.mean(1)}
    means = {f"{name}_mean": float(values.mean()) for name, values in by_image.items()}
    return means | {f"{name}_stderr": standard_error(values) for name, values in by_image.items()}


def standard_error(values: np.ndarray) -> float:
    """Of the mean of values [n], n ≥ 2."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def conditions(settings: Settings, variant: str, experts: Ensemble, condition: LowResolution) -> dict[str, Any]:
    """What the figures mean nothing without."""
    record, spec = experts.record, experts.record.spec
    return {
        "variant": variant,
        "training_seed": record.seed,
        "noise_seed": settings.seed,
        "eta": 1.0,
        "spread": "standard error over images",
        "images": settings.contribution.images,
        "clip": settings.contribution.clip,
        "prediction": spec.prediction,
        "schedule": spec.schedule.name,
        **spec.schedule.model_dump(exclude={"name", "timesteps"}),
        "timesteps": spec.timesteps,
        "super_resolution_factor": condition.super_resolution_factor,
        "image_size": spec.space.size,
        "total_images": record.total_images,
        "total_flops": record.total_flops,
    }


if __name__ == "__main__":
    main()
