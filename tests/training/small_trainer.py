"""A small training, what may befall it, and samplers that learn from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensors import equal
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.recipe import Optimizer
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler
from unequal.training.batches import Batch
from unequal.training.checkpoint import LOG
from unequal.training.loop import Trainer
from unequal.training.objectives import Losses, Objective, SingleHead

CPU = torch.device("cpu")
#: Figures of a log that differ from run to run.
SPEED = {"images_per_second", "compute_seconds", "mfu"}
OPTIMIZER = Optimizer(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01, warmup_images=8, decay="cosine")
SCHEDULE = NoiseSchedule.linear(50)
OBJECTIVE = SingleHead()
THREE = Partition([(0, 9), (10, 24), (25, 49)])
LEARNING: dict[str, Callable[[], TimestepSampler]] = {
    "loss_second_moment": lambda: LossSecondMomentSampler(50, history=1, uniform_share=0.1, unbiased=True),
    "adaptive": lambda: AdaptiveSampler(
        Partition([(0, 9), (10, 49)]), refresh_images=12, images_per_bin=2, memory=0.5, uniform_share=0.1
    ),
    "easy_to_hard": lambda: EasyToHardSampler(THREE, 8),
    "info_noise": lambda: InfoNoiseSampler(
        SCHEDULE.snr.log().numpy(), THREE, half_life=10, warmup_images=20, uniform_share=0.1
    ),
}


def same_weights(one: Trainer, other: Trainer) -> bool:
    return equal(one.net.state_dict(), other.net.state_dict())


def lines(folder: Path) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in SPEED} for line in found]


class Changed(Objective):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, denoiser: Any, batch: Batch) -> Losses:
        losses = OBJECTIVE(denoiser, batch)
        return Losses(self.change(losses.weighted), losses.terms)


def broken_at(step: int, value: float = float("nan")) -> Objective:
    calls = iter(range(1000))
    return Changed(lambda losses: losses * (value if next(calls) == step else 1.0))
