"""The loop that diffusers' guide to unconditional image generation teaches, with drawn timesteps and a weight.

Model, scheduler, optimizer, accelerate and the order of the steps are the guide's; where it draws uniform timesteps and
averages the loss over a batch, stand the lines that end in `# unequal`.
"""

from typing import Any

import torch
from accelerate import Accelerator
from diffusers.models.unets.unet_2d import UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader

from unequal import Stratified, Timesteps, TimestepSampler, VariancePreserving, equal_log_snr, equal_over, loss_weights


def train(epochs: int = 2, batch_size: int = 8) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    images = torch.rand(32, 1, 8, 8) * 2 - 1
    loader: Any = DataLoader(images, batch_size=batch_size, shuffle=True)  # type: ignore[arg-type]
    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lr_scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=8 * epochs)

    schedule = VariancePreserving("theirs", noise_scheduler.betas.double())  # unequal
    sampler = TimestepSampler(
        equal_over(equal_log_snr(schedule, 8)), True, draw=Stratified(equal_log_snr(schedule, 8))
    )  # unequal
    timesteps = Timesteps(sampler, loss_weights=loss_weights("min_snr", "epsilon", schedule.snr, gamma=5.0))  # unequal

    accelerator = Accelerator(cpu=True)
    model, optimizer, loader, lr_scheduler = accelerator.prepare(model, optimizer, loader, lr_scheduler)
    curve = []
    for _ in range(epochs):
        for clean in loader:
            noise = torch.randn(clean.shape, device=clean.device)
            t, weights = timesteps.draw(len(clean), clean.device)  # unequal
            noisy = noise_scheduler.add_noise(clean, noise, t)
            with accelerator.accumulate(model):
                predicted = model(noisy, t, return_dict=False)[0]
                errors = mse_loss(predicted, noise, reduction="none").mean(dim=(1, 2, 3))
                loss = (errors * weights).mean()  # unequal
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
            curve.append(loss.item())
    return curve


if __name__ == "__main__":
    print(f"loss {train()[-1]:.4f}")
