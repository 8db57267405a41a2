"""Gradients of the denoising loss, which importance by Taylor expansion reads."""

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.models.artifact import ModelRecord
from unequal.timesteps.samplers import build_sampler
from unequal.training.batches import BatchSource
from unequal.training.enlarging import for_task
from unequal.training.objective import SingleHead

#: The batch goes through the network in parts, so that large networks fit.
IMAGES_AT_ONCE = 64


def accumulate_gradients(net: UNet2DModel, record: ModelRecord, images: Tensor, count: int, seed: int) -> None:
    """Leave the gradient of one batch's loss in a network, at uniform timesteps.

    Args:
        net: of a single prediction; its parameters get a `grad`.
        record: says what the network predicts and over which timesteps.
        images: [N, C, H, W] uint8.
        count: images of the batch.
        seed: of the draw.
    """
    device = next(net.parameters()).device
    sampler = build_sampler("uniform", record.timesteps)
    source = BatchSource(images, count, sampler, seed, horizontal_flips=False, device=device)
    single = SingleHead(record.prediction, record.noise_schedule().to(device), "none", None)
    objective = for_task(single, record.enlargement)
    net.requires_grad_(True)
    with torch.enable_grad():
        for start in range(0, count, IMAGES_AT_ONCE):
            batch = source.draw(0, slice(start, start + IMAGES_AT_ONCE))
            (objective(net, batch).weighted.sum() / count).backward()
