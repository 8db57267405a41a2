"""Train with samplers that learn, as one of several processes; started by test_feedback.py."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.backbones.unet2d.backbone import build_unet
from unequal.settings.network import UNet2D
from unequal.settings.recipe import Optimizer
from unequal.settings.training import Runtime, Training
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import AdaptiveSampler, LossSecondMomentSampler, TimestepSampler
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer
from unequal.training.objectives import SingleHead

T = 50
SCHEDULE = NoiseSchedule.linear(T)
OBJECTIVE = SingleHead("epsilon", SCHEDULE, loss_weights("min_snr", "epsilon", SCHEDULE.snr, gamma=5.0))
OPTIMIZER = Optimizer(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.0, warmup_images=0, decay="constant")


def adaptive() -> TimestepSampler:
    bins = Partition([(0, 4), (5, 49)])
    return AdaptiveSampler(bins, refresh_images=10, images_per_bin=3, memory=0.5, uniform_share=0.1)


def info_noise() -> TimestepSampler:
    log_snr, bins = NoiseSchedule.linear(T).snr.log().numpy(), Partition([(0, 4), (5, 49)])
    return InfoNoiseSampler(log_snr, bins, half_life=10, warmup_images=12, uniform_share=0.1)


def learned(sampler: TimestepSampler, given: dict[str, Any], work: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    net = build_unet(UNet2D.model_validate_json(json.dumps(given["network"])), 8, 1, 1)
    source = BatchSource(tensor_of(PreparedData.open(given["data"]).train), 6, sampler, 0, False, torch.device("cpu"))
    training, runtime = Training(**given["training"]), Runtime(**given["runtime"])
    rest = {"optimizer": OPTIMIZER, "training": training, "runtime": runtime, "images": 36, "work": work}
    Trainer(net, source, OBJECTIVE, log=lambda *_: None, **rest).run()
    return sampler.state_dict()


def learned_by_all(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    work = Path(given["work"])
    samplers = {
        "loss_second_moment": LossSecondMomentSampler(T, history=1, uniform_share=0.1, unbiased=False),
        "adaptive": adaptive(),
        "info_noise": info_noise(),
    }
    return {kind: learned(sampler, given, work / kind) for kind, sampler in samplers.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = json.loads(Path(sys.argv[1]).read_text())
    (Path(given["work"]) / f"{os.environ['RANK']}.json").write_text(json.dumps(learned_by_all(given)))
