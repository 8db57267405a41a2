"""Sampling: experts against the base, held against their FLOPs, and DDIM against diffusers' DDIMPipeline.

The networks have the sizes of a params file and random weights, which do not matter for time. Contestants sample the
same images in turns. `time_ratio` next to `flops_ratio` says whether saved FLOPs are saved time. DDIMPipeline hands out
arrays, as this library does: no images are encoded.
"""

import statistics
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from torch import nn

from benchmarks.timing import in_turns, ratio
from unequal.cli.architecture import limited_groups, network_of, spec_of
from unequal.diffusion.spacing import sampling_timesteps
from unequal.experts.anatomy import Anatomy, units_by
from unequal.experts.fit import fit_to_limit
from unequal.models.backbones.backbone import count_cost
from unequal.models.denoiser import Denoiser
from unequal.models.folder import ModelRecord
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.params import Params
from unequal.timesteps.partition import TimestepRange, TimestepSet

BASE = "base"


def untrained(params: Params, device: torch.device) -> dict[str, Ensemble]:
    """Base, unpruned and pruned experts of the sizes that a params file gives them, with random weights."""
    net = network_of(params)
    groups = limited_groups(params.schedule, params.groups)
    whole, ranges = [TimestepRange(0, params.schedule.timesteps - 1)], [group.range for group in groups]
    anatomy = Anatomy(net)
    # As good as any: what goes first changes no cost.
    order = units_by(lambda group: torch.rand(len(group[0].idxs)), anatomy)
    pruned = [fit_to_limit(anatomy, order, group.limit_ratio * count_cost(net).macs).net for group in groups]
    return {
        BASE: experts_of([net], whole, params, device),
        "experts_unpruned": experts_of([deepcopy(net) for _ in groups], ranges, params, device),
        "experts_pruned": experts_of(pruned, ranges, params, device),
    }


def experts_of(
    nets: Sequence[nn.Module], ranges: Sequence[TimestepSet], params: Params, device: torch.device
) -> Ensemble:
    """Networks that have seen nothing and answer for these ranges of timesteps."""
    experts = []
    for net, timesteps in zip(nets, ranges, strict=True):
        record = ModelRecord(
            name="untrained",
            spec=spec_of(params),
            backbone=params.network.kind,
            seed=params.seed,
            steps=0,
            images_seen=0,
            training_flops=0,
            **asdict(count_cost(net)),
            first=timesteps.first,
            last=timesteps.last,
        )
        experts.append(Expert(Denoiser.of(net.to(device), record.spec), record))
    return Ensemble(experts)


def experts(params: Params, device: torch.device, images: int, steps: int, rounds: int) -> dict[str, Any]:
    """Measure seconds an image of base and experts, and medians of their ratios to the base's, with those of FLOPs."""
    contestants = untrained(params, device)
    timesteps = sampling_timesteps(steps, params.schedule.timesteps, params.sampling.spacing)
    work = {
        name: partial(ensemble.sample, images, timesteps, batch_size=images) for name, ensemble in contestants.items()
    }
    times = in_turns(work, rounds, device)
    base = contestants[BASE]
    return {
        name: {
            "time_ratio": ratio(times[name], times[BASE])["median"],
            "flops_ratio": ensemble.macs_per_image(timesteps) / base.macs_per_image(timesteps),
            "seconds_per_image": [taken / images for taken in times[name]],
            "parameters": ensemble.parameters,
            "resident": ensemble.offload is None,
        }
        for name, ensemble in contestants.items()
    } | {"images": images, "batch_size": images, "steps": len(timesteps)}


def pipelines(
    params: Params, device: torch.device, steps: int, images: int, rounds: int, fast: bool = False
) -> dict[str, Any]:
    """Seconds of both, and theirs over ours; `fast`: ours compiled in bf16 too, and such a network's passes alone."""
    net = network_of(params)
    whole = [TimestepRange(0, params.schedule.timesteps - 1)]
    ours = experts_of([net], whole, params, device)
    theirs = DDIMPipeline(net, DDIMScheduler(num_train_timesteps=params.schedule.timesteps))
    theirs.set_progress_bar_config(disable=True)
    timesteps = sampling_timesteps(steps, params.schedule.timesteps, params.sampling.spacing)
    work: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.sample(images, timesteps, batch_size=images),
        "diffusers": lambda: theirs(batch_size=images, num_inference_steps=steps, output_type="np"),
    }
    if fast:
        alone = experts_of([deepcopy(net)], whole, params, device)  # compiling changes a network in place
        quick = alone.accelerated("bf16", channels_last=True, compiled=True)
        work["ours_fast"] = lambda: quick.sample(images, timesteps, batch_size=images)
        work["passes_fast"] = partial(forward_passes, quick.experts[0], images, timesteps)
    times = in_turns(work, rounds, device)
    return {
        "ratio": ratio(times["diffusers"], times["ours"]),
        "images_per_second": {name: images / statistics.median(taken) for name, taken in times.items()},
        "seconds": times,
        "steps": steps,
        "batch_size": images,
        "rounds": rounds,
        "image": [params.data.channels, params.data.image_size, params.data.image_size],
    }


@torch.no_grad()
def forward_passes(expert: Expert, images: int, timesteps: Sequence[int]) -> None:
    """Predictions of one batch of noise at each timestep, and nothing else."""
    denoiser = expert.denoiser
    batch = torch.randn(images, *expert.record.spec.space.shape, device=denoiser.device)
    for t in timesteps:
        denoiser.answer(batch, torch.full((images,), t, device=denoiser.device))
