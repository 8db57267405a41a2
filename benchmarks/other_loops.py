"""Loops that this project's is measured against: minimal, as EDM trains, and the network's passes alone.

Each is written for this comparison, with the same network, batch, precision and clipping, and an average of the weights
at every step. `documented_loop` has diffusers' own.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from unequal.settings.training import Training

AVERAGE_DECAY = 0.9999
#: Mean and standard deviation of ln σ in training, and the data's standard deviation (2206.00364).
LOG_SIGMA_MEAN, LOG_SIGMA_DEVIATION, SIGMA_DATA = -1.2, 1.2, 0.5


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
        self.average = [one.detach().clone() for one in self.parameters]
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


class EDMLoop(Loop):
    """The way of EDM (2206.00364): noise levels log-normal, a preconditioned network, images from a DataLoader.

    Gradients are cleaned and weights averaged parameter by parameter; there is no clipping.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-4)
        self.batches = self.endless()

    def endless(self) -> Iterator[Tensor]:
        """Batches without end; on a GPU a further process prepares them."""
        data, on_gpu = TensorDataset(self.images), self.device.type == "cuda"
        sampler = RandomSampler(data, replacement=True, num_samples=1 << 40)
        loader = DataLoader(data, self.training.batch_size, sampler=sampler, num_workers=int(on_gpu), pin_memory=on_gpu)
        for (batch,) in loader:
            yield batch

    def step(self) -> None:
        """EDM's weighted loss of the denoised image."""
        clean = next(self.batches).to(self.device, torch.float32) / 127.5 - 1
        if self.training.horizontal_flips:
            clean = torch.where(torch.rand(len(clean), 1, 1, 1, device=self.device) < 0.5, clean.flip(3), clean)
        normal = torch.randn(len(clean), 1, 1, 1, device=self.device)
        sigma = (LOG_SIGMA_MEAN + LOG_SIGMA_DEVIATION * normal).exp()
        total = sigma**2 + SIGMA_DATA**2
        noisy = clean + sigma * torch.randn_like(clean)
        answer = self.answer(noisy / total.sqrt(), sigma.flatten().log() / 4)
        denoised = noisy * SIGMA_DATA**2 / total + answer * sigma * SIGMA_DATA / total.sqrt()
        weight = total / (sigma * SIGMA_DATA) ** 2
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = (weight * (denoised - clean) ** 2).sum().div(self.training.batch_size)
        self.loss.backward()
        for one in self.parameters:
            if one.grad is not None:
                torch.nan_to_num(one.grad, nan=0, posinf=1e5, neginf=-1e5, out=one.grad)
        self.optimizer.step()
        with torch.no_grad():
            for average, one in zip(self.average, self.parameters, strict=True):
                average.copy_(one.lerp(average, AVERAGE_DECAY))


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
