"""Ten steps in float64, and samplers that learn, alone or as one of several processes.

Started by test_processes_train.py.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.state import AcceleratorState
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.backbones.backbone import build_network
from unequal.models.denoiser import Denoiser
from unequal.models.spec import ModelSpec, Space
from unequal.runtime import processes
from unequal.settings.network import DiT, Network, UNet2D
from unequal.settings.recipe import Optimizer
from unequal.settings.schedule import BetaSchedule
from unequal.settings.training import PowerAverage, Runtime, Tracking, Training
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.learning import AdaptiveSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch, BatchSource
from unequal.training.loop import Trainer
from unequal.training.objectives import Losses, Objective, OverUncertainty, SingleHead, Uncertainty

#: No number of processes but one divides it.
BATCH = 7
SHAPE: dict[str, Any] = {"block_out_channels": (8, 16), "layers_per_block": 1, "attention_resolutions": ()}
SHAPE |= {"middle_attention": True, "attention_head_dim": 4, "norm_num_groups": 4, "scale_shift": False}
NETWORK = UNet2D(pretrained=None, dropout=0.0, **SHAPE)
TRANSFORMER = DiT(kind="dit", pretrained=None, depth=2, width=16, heads=2, patch=2)
AVERAGE = PowerAverage(kind="power", width=0.1)
STEPS: dict[str, Any] = {"batch_size": BATCH, "gradient_accumulation": 1, "gradient_clip": 1.0, "average": AVERAGE}
TRAINING = Training(**STEPS, horizontal_flips=True, precision="fp32", log_every=2, checkpoint_every=100)
OPTIMIZER = Optimizer(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01, warmup_images=8, decay="cosine")
TRACKING = Tracking(uri=None, experiment="test", artifact_limit_mb=1.0, timeout_s=1.0)
RUNTIME = Runtime(device="cpu", compile=False, channels_last=False, progress=False, tracking=TRACKING)


class InDouble(SingleHead):
    """The squared error of ε, with importance weights, all in float64."""

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        noised = denoiser.ask(batch.x0.double(), batch.epsilon.double(), batch.timesteps)
        loss = (noised.output - noised.epsilon).square().flatten(1).mean(1) * (1 + batch.timesteps) / 50
        return Losses(loss * batch.weights.double(), {"mse": loss.detach().mean()})


def uncertain() -> Objective:
    return OverUncertainty(InDouble(), Uncertainty(NoiseSchedule.linear(50))).double()


#: Networks and objectives of the trainings.
KINDS: dict[str, tuple[Network, Callable]] = {
    "unet2d": (NETWORK, InDouble),
    "dit": (TRANSFORMER, InDouble),
    "uncertain": (NETWORK, uncertain),
}


def trainer_of(
    work: Path,
    steps: int,
    objective: Callable[..., Objective] = InDouble,
    network: Network = NETWORK,
    sampler: TimestepSampler | None = None,
    exchange: str = "fp32",
    compiled: bool = False,
) -> Trainer:
    AcceleratorState._reset_state(reset_partial_state=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8)
    source = BatchSource(images, BATCH, sampler or TimestepSampler(uniform(50)), 0, True, torch.device("cpu"))
    spec = ModelSpec.of(network, BetaSchedule(name="linear", timesteps=50), "epsilon", Space(channels=1, size=8))
    net = build_network(network, spec).double()
    training = TRAINING.model_copy(update={"gradient_exchange": exchange})
    runtime = RUNTIME.model_copy(update={"compile": compiled})
    rest: dict[str, Any] = {"optimizer": OPTIMIZER, "training": training, "runtime": runtime}
    return Trainer(
        Denoiser.of(net, spec), source, objective(), images=steps * BATCH, work=work, log=lambda *_: None, **rest
    )


def train(work: Path, steps: int, kind: str = "unet2d", **changes: Any) -> dict[str, Tensor]:
    network, objective = KINDS[kind]
    trainer = trainer_of(work, 10, objective, network, **changes)
    for _ in range(steps):
        trainer.advance()
    learned = trainer.net.state_dict() | dict(trainer.objective.named_parameters())
    return {name: value.detach().clone() for name, value in learned.items()}


TWO, LOG_SNR = Partition([(0, 4), (5, 49)]), NoiseSchedule.linear(50).snr.log().numpy()
LEARNING: dict[str, Callable[[], TimestepSampler]] = {
    "loss_second_moment": lambda: LossSecondMomentSampler(50, history=1, uniform_share=0.1, unbiased=False),
    "adaptive": lambda: AdaptiveSampler(TWO, refresh_images=10, images_per_bin=3, memory=0.5, uniform_share=0.1),
    "info_noise": lambda: InfoNoiseSampler(LOG_SNR, TWO, half_life=10, warmup_images=12, uniform_share=0.1),
}


def learned(work: Path) -> dict[str, dict[str, Any]]:
    """States of samplers after six steps, as JSON has them."""
    samplers = {kind: make() for kind, make in LEARNING.items()}
    for kind, sampler in samplers.items():
        trainer = trainer_of(work / kind, 6, sampler=sampler)
        for _ in range(6):
            trainer.advance()
    return json.loads(json.dumps({kind: sampler.state_dict() for kind, sampler in samplers.items()}))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    trainings = {kind: train(folder / kind, 10, kind) for kind in KINDS}
    trainings["bf16"] = train(folder / "bf16", 10, exchange="bf16")
    torch.compile = partial(torch.compile, backend="aot_eager")  # one graph each way, but no code to build
    trainings["compiled"] = train(folder / "compiled", 10, "dit", compiled=True)
    for kind, weights in trainings.items():
        np.savez(folder / f"{kind}_{processes.rank()}.npz", **{name: value.numpy() for name, value in weights.items()})
    (folder / f"learned_{processes.rank()}.json").write_text(json.dumps(learned(folder)))
