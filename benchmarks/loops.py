"""Loops that this project's is measured against: a minimal one, diffusers' documented one, and the passes alone.

Each has the same network, batch, precision and clipping, and averages the weights at every step.
"""

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from diffusers.training_utils import EMAModel
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms.functional import to_pil_image

from unequal.settings.training import Training

AVERAGE_DECAY = 0.9999
#: Steps of the documented loop's learning-rate schedule, whose end no benchmark reaches.
STEPS = 100_000


class Loop:
    """Base of the loops: network, settings, device.

    Args:
        net: on the device; answers `net(images, timesteps).sample`.
        images: uint8 [N, C, H, W].
        training: batch, precision, clipping, flips.
        device: the network's.
        compiled: compile the network; a mode of torch.compile by its name.
    """

    def __init__(
        self, net: nn.Module, images: Tensor, training: Training, device: torch.device, compiled: bool | str = False
    ) -> None:
        self.net = net.train()
        self.called: Callable[..., Any] = (
            torch.compile(net, mode=compiled if isinstance(compiled, str) else None) if compiled else net
        )
        self.images, self.training, self.device = images, training, device
        self.parameters: list[Tensor] = list(net.parameters())
        self.average = [parameter.detach().clone() for parameter in self.parameters]
        self.loss = torch.zeros(())

    def run(self, steps: int) -> None:
        """Train on for so many steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Take one optimizer step."""
        raise NotImplementedError

    def answer(self, noisy: Tensor, timesteps: Tensor) -> Tensor:
        """Ask the network in the training's precision; the answer is float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.precision == "bf16"):
            return self.called(noisy, timesteps).sample.float()


class MinimalLoop(Loop):
    """The shortest loop that does the same: images on the device, all parameters stepped and averaged at once."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.images = self.images.to(self.device)
        betas = torch.linspace(1e-4, 0.02, 1000, device=self.device)
        self.signal = (1 - betas).cumprod(0)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, fused=True)

    def step(self) -> None:
        """DDPM's loss of uniform timesteps."""
        count = self.training.batch_size
        x0 = self.images[torch.randint(len(self.images), (count,), device=self.device)].float() / 127.5 - 1
        if self.training.horizontal_flips:
            x0 = torch.where(torch.rand(count, 1, 1, 1, device=self.device) < 0.5, x0.flip(3), x0)
        timesteps, noise = torch.randint(1000, (count,), device=self.device), torch.randn_like(x0)
        signal = self.signal[timesteps, None, None, None]
        answer = self.answer(signal.sqrt() * x0 + (1 - signal).sqrt() * noise, timesteps)
        self.loss = nn.functional.mse_loss(answer, noise)
        self.loss.backward()
        if self.training.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.training.gradient_clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.parameters, 1 - AVERAGE_DECAY)


class Passes(Loop):
    """The network forwards and backwards on one batch of noise, and nothing else."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.average = []
        self.batch = self.images[: self.training.batch_size].to(self.device) / 127.5 - 1
        self.timesteps = torch.randint(1000, (len(self.batch),), device=self.device)

    def step(self) -> None:
        """One forward pass and one backward pass."""
        self.answer(self.batch, self.timesteps).square().mean().backward()
        self.net.zero_grad()


class Pictures(Dataset[Tensor]):
    """Decoded images behind the transforms of diffusers' guide to unconditional generation."""

    def __init__(self, images: Tensor, flips: bool) -> None:
        self.images = [to_pil_image(image) for image in images]
        size = images.shape[-1]
        flip = [transforms.RandomHorizontalFlip()] if flips else []
        scale = [transforms.ToTensor(), transforms.Normalize([0.5], [0.5])]
        self.transform = transforms.Compose([transforms.Resize(size), transforms.CenterCrop(size), *flip, *scale])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(self.images[index])


class DocumentedLoop(Loop):
    """The loop of diffusers' guide and its script: a DataLoader, accelerate, AdamW, a cosine schedule, EMAModel.

    The loss is read back after every step, for the guide's progress bar.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        AcceleratorState._reset_state(reset_partial_state=True)
        precision = "bf16" if self.training.precision == "bf16" else "no"
        self.accelerator = Accelerator(cpu=self.device.type == "cpu", mixed_precision=precision)
        self.scheduler = DDPMScheduler(num_train_timesteps=1000)
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        schedule = get_cosine_schedule_with_warmup(optimizer, STEPS // 10, STEPS)
        pictures = Pictures(self.images, self.training.horizontal_flips)
        loader = DataLoader(pictures, batch_size=self.training.batch_size, shuffle=True, drop_last=True)
        self.prepared, self.optimizer, self.loader, self.schedule = self.accelerator.prepare(
            self.called, optimizer, loader, schedule
        )
        self.ema = EMAModel(self.net.parameters(), decay=AVERAGE_DECAY, use_ema_warmup=True)
        self.ema.to(self.accelerator.device)
        self.batches = chain.from_iterable(repeat(self.loader))

    def step(self) -> None:
        """DDPM's loss of uniform timesteps."""
        clean = next(self.batches)
        noise = torch.randn(clean.shape, device=clean.device)
        timesteps = torch.randint(0, 1000, (len(clean),), device=clean.device)
        noisy = self.scheduler.add_noise(clean, noise, timesteps)
        with self.accelerator.accumulate(self.prepared):
            self.loss = nn.functional.mse_loss(self.prepared(noisy, timesteps).sample, noise)
            self.accelerator.backward(self.loss)
            if self.training.gradient_clip is not None:
                self.accelerator.clip_grad_norm_(self.net.parameters(), self.training.gradient_clip)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
        self.ema.step(self.net.parameters())
        self.loss.detach().item()
