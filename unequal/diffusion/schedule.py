"""Noise schedules: how much signal and noise x_t = α_t·x0 + σ_t·ε holds at each timestep."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from unequal.errors import UserError

#: Timesteps for which the betas of DDPM and latent diffusion were chosen.
REFERENCE_TIMESTEPS = 1000


@dataclass(frozen=True)
class NoiseSchedule:
    """Tables over timesteps t = 0 … T−1, in float64.

    Args:
        name: one of `linear`, `cosine`, `scaled_linear`.
        betas: [T], variances of the forward process, each in (0, 1).
    """

    name: str
    betas: Tensor

    def __post_init__(self) -> None:
        if self.betas.ndim != 1 or not bool(((self.betas > 0) & (self.betas < 1)).all()):
            raise UserError(
                f"schedule '{self.name}' with {len(self.betas)} timesteps has betas outside (0, 1); use more timesteps"
            )

    @classmethod
    def named(cls, name: str, timesteps: int) -> Self:
        """The schedule of that name."""
        builders = {"linear": cls.linear, "cosine": cls.cosine, "scaled_linear": cls.scaled_linear}
        if name not in builders:
            raise UserError(f"schedule '{name}' is unknown; allowed: {', '.join(builders)}")
        return builders[name](timesteps)

    @classmethod
    def linear(cls, timesteps: int) -> Self:
        """DDPM's betas, 1e-4 … 0.02 at T = 1000; other T keep the total noise (betas × 1000/T)."""
        scale = REFERENCE_TIMESTEPS / timesteps
        return cls("linear", torch.linspace(1e-4 * scale, 0.02 * scale, timesteps, dtype=torch.float64))

    @classmethod
    def scaled_linear(cls, timesteps: int) -> Self:
        """Latent diffusion's: √β runs linearly, β = 0.0015 … 0.0195 at T = 1000, × 1000/T."""
        scale = REFERENCE_TIMESTEPS / timesteps
        roots = torch.linspace(0.0015**0.5, 0.0195**0.5, timesteps, dtype=torch.float64)
        return cls("scaled_linear", scale * roots**2)

    @classmethod
    def cosine(cls, timesteps: int) -> Self:
        """IDDPM's: ᾱ(u) = cos²((u + 0.008)/1.008 · π/2), betas clipped at 0.999 (2102.09672, eq. 17)."""
        u = torch.arange(timesteps + 1, dtype=torch.float64) / timesteps
        alphas_bar = torch.cos((u + 0.008) / 1.008 * torch.pi / 2) ** 2
        return cls("cosine", (1 - alphas_bar[1:] / alphas_bar[:-1]).clamp(max=0.999))

    @property
    def timesteps(self) -> int:
        """T."""
        return len(self.betas)

    @cached_property
    def alphas_cumprod(self) -> Tensor:
        """ᾱ_t = Π_{u≤t} (1 − β_u), [T]."""
        return torch.cumprod(1 - self.betas, dim=0)

    @cached_property
    def alpha(self) -> Tensor:
        """Share of the signal, α_t = √ᾱ_t, [T]."""
        return self.alphas_cumprod.sqrt()

    @cached_property
    def sigma(self) -> Tensor:
        """Standard deviation of the noise, σ_t = √(1 − ᾱ_t), [T]."""
        return (1 - self.alphas_cumprod).sqrt()

    @cached_property
    def snr(self) -> Tensor:
        """Signal-to-noise ratio ᾱ_t/(1 − ᾱ_t), linear, [T]."""
        return self.alphas_cumprod / (1 - self.alphas_cumprod)

    @cached_property
    def snr_db(self) -> Tensor:
        """Signal-to-noise ratio in decibels, 10·log10 SNR_t, [T]."""
        return 10 * torch.log10(self.snr)

    def snr_bins(self, bins: int) -> Tensor:
        """Bin of each timestep, [T] int64, counted from the data end: equal intervals of log-SNR.

        Losses change with SNR, so that within a bin they are of one order. Intervals without a timestep are left out.
        """
        fall = -self.snr_db
        edges = torch.linspace(float(fall.min()), float(fall.max()), bins + 1, dtype=fall.dtype, device=fall.device)
        return torch.unique(torch.bucketize(fall, edges[1:-1]), return_inverse=True)[1]

    def at(self, timesteps: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """(α_t, σ_t) for each image of a batch, shaped to multiply it.

        Args:
            timesteps: [B], integers in 0 … T−1.
            like: [B, …], gives dtype, device and number of dimensions.
        """
        return at(self.alpha, timesteps, like), at(self.sigma, timesteps, like)

    def to(self, device: torch.device | str) -> "NoiseSchedule":
        """The same schedule with its tables on a device, so that look-ups need no transfer."""
        return NoiseSchedule(self.name, self.betas.to(device))


def at(table: Tensor, timesteps: Tensor, like: Tensor) -> Tensor:
    """Values of a table [T] at timesteps [B], with the dtype and device of `like` and shaped to multiply it."""
    return table[timesteps.to(table.device)].to(like).reshape((-1,) + (1,) * (like.ndim - 1))
