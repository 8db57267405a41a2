"""Noise schedules: how much signal and noise x_t = α_t·x0 + σ_t·ε holds at each timestep."""

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from unequal.errors import UserError

#: Timesteps for which the betas of DDPM and latent diffusion were chosen; a flow's time is passed in as many parts.
REFERENCE_TIMESTEPS = 1000


class Level(NamedTuple):
    """The shares of signal and noise at one point of the way from the data to the noise."""

    alpha: float
    sigma: float


#: Where the last sampling step leads: the image itself.
CLEAN = Level(1.0, 0.0)


class NoiseSchedule:
    """Tables over timesteps t = 0 … T−1 in float64, on one device; the signal-to-noise ratio falls strictly.

    Attributes:
        name: for messages and records.
        alpha: [T], share α_t of the signal.
        sigma: [T], standard deviation σ_t of the noise.
    """

    #: Whether α² + σ² = 1.
    preserves_variance = False

    def __init__(self, name: str, alpha: Tensor, sigma: Tensor) -> None:
        """
        Raises:
            UserError: shares that are not above 0 and finite, or a signal-to-noise ratio that does not fall.
        """
        self.name, self.alpha, self.sigma = name, alpha.double(), sigma.double()
        tables = torch.stack([self.alpha, self.sigma])
        if not bool((tables.isfinite() & (tables > 0)).all()) or not bool((self.snr.diff() < 0).all()):
            raise UserError(f"schedule '{name}': α and σ must be above 0, and α/σ must fall from timestep to timestep")

    @staticmethod
    def named(name: str, timesteps: int, shift: float | None = None) -> "NoiseSchedule":
        """The schedule of that name; only a flow has a shift."""
        if name not in SCHEDULES:
            raise UserError(f"schedule '{name}' is unknown; allowed: {', '.join(SCHEDULES)}")
        return SCHEDULES[name](timesteps) if shift is None else Flow(timesteps, shift)

    @staticmethod
    def linear(timesteps: int) -> "VariancePreserving":
        """DDPM's betas, 1e-4 … 0.02 at T = 1000; other T keep the total noise (betas × 1000/T)."""
        scale = REFERENCE_TIMESTEPS / timesteps
        return VariancePreserving("linear", torch.linspace(1e-4 * scale, 0.02 * scale, timesteps, dtype=torch.float64))

    @staticmethod
    def scaled_linear(timesteps: int) -> "VariancePreserving":
        """Latent diffusion's: √β runs linearly, β = 0.0015 … 0.0195 at T = 1000, × 1000/T."""
        scale = REFERENCE_TIMESTEPS / timesteps
        roots = torch.linspace(0.0015**0.5, 0.0195**0.5, timesteps, dtype=torch.float64)
        return VariancePreserving("scaled_linear", scale * roots**2)

    @staticmethod
    def cosine(timesteps: int) -> "VariancePreserving":
        """IDDPM's: ᾱ(u) = cos²((u + 0.008)/1.008 · π/2), betas clipped at 0.999 (2102.09672, eq. 17)."""
        u = torch.arange(timesteps + 1, dtype=torch.float64) / timesteps
        alphas_bar = torch.cos((u + 0.008) / 1.008 * torch.pi / 2) ** 2
        return VariancePreserving("cosine", (1 - alphas_bar[1:] / alphas_bar[:-1]).clamp(max=0.999))

    @property
    def timesteps(self) -> int:
        return len(self.alpha)

    @property
    def betas(self) -> Tensor:
        """Variances of a forward process that preserves variance, [T]. Raises UserError where this is none."""
        raise UserError(f"schedule '{self.name}' has no betas, which are needed here: it does not preserve variance")

    def level(self, timestep: int) -> Level:
        """(α_t, σ_t) as numbers; cheap where the tables are in the memory of the CPU."""
        return Level(float(self.alpha[timestep]), float(self.sigma[timestep]))

    @cached_property
    def signal_power(self) -> Tensor:
        """α_t², [T]."""
        return self.alpha**2

    @cached_property
    def noise_power(self) -> Tensor:
        """σ_t², [T]."""
        return self.sigma**2

    @cached_property
    def forward_scale(self) -> Tensor:
        """Share of x_{t−1} in x_t, α_t/α_{t−1}, [T]; x_{−1} is the image."""
        return self.alpha / shifted(self.alpha, CLEAN.alpha)

    @cached_property
    def forward_variance(self) -> Tensor:
        """Variance of the noise that x_t adds to x_{t−1}, σ_t² − (α_t/α_{t−1})²·σ_{t−1}², [T]."""
        return self.noise_power - self.forward_scale**2 * shifted(self.noise_power, CLEAN.sigma)

    @cached_property
    def snr(self) -> Tensor:
        """Signal-to-noise ratio α_t²/σ_t², linear, [T]."""
        return self.signal_power / self.noise_power

    @cached_property
    def snr_db(self) -> Tensor:
        """Signal-to-noise ratio in decibels, 10·log10 SNR_t, [T]."""
        return 10 * torch.log10(self.snr)

    def model_timestep(self, timesteps: Tensor) -> Tensor:
        """The value that a network takes for timesteps [B], integers on the schedule's device: their numbers."""
        return timesteps

    def at(self, timesteps: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """(α_t, σ_t) for each image of a batch, shaped to multiply it.

        Args:
            timesteps: [B], integers in 0 … T−1.
            like: [B, …], gives dtype, device and number of dimensions.
        """
        return at(self.alpha, timesteps, like), at(self.sigma, timesteps, like)

    def to(self, device: torch.device | str) -> Self:
        """Copy of the schedule with its tables on a device, so that look-ups need no transfer."""
        moved = copy(self)
        for name, table in vars(self).items():
            if isinstance(table, Tensor):
                setattr(moved, name, table.to(device))
        return moved


class VariancePreserving(NoiseSchedule):
    """A schedule with α² + σ² = 1, given by its betas: α = √ᾱ, σ = √(1 − ᾱ)."""

    preserves_variance = True

    def __init__(self, name: str, betas: Tensor) -> None:
        if betas.ndim != 1 or not bool(((betas > 0) & (betas < 1)).all()):
            raise UserError(
                f"schedule '{name}' with {len(betas)} timesteps has betas outside (0, 1); use more timesteps"
            )
        self._betas = betas
        #: ᾱ_t = Π_{u≤t} (1 − β_u), [T].
        self.alphas_cumprod = torch.cumprod(1 - betas, dim=0)
        super().__init__(name, self.alphas_cumprod.sqrt(), (1 - self.alphas_cumprod).sqrt())

    @property
    def betas(self) -> Tensor:
        return self._betas

    @cached_property
    def forward_scale(self) -> Tensor:
        return (1 - self.betas).sqrt()

    @cached_property
    def forward_variance(self) -> Tensor:
        return self.betas

    @cached_property
    def signal_power(self) -> Tensor:
        return self.alphas_cumprod

    @cached_property
    def noise_power(self) -> Tensor:
        return 1 - self.alphas_cumprod


class Flow(NoiseSchedule):
    """Rectified flow (2209.03003): x_t = (1 − s)·x0 + s·ε, on the grid s = (t + ½)/T, shifted towards the noise.

    A shift k takes s to k·s/(1 + (k − 1)·s), which divides every signal-to-noise ratio by k² (2403.03206, eq. 23).
    Points lie in the middle of their cells, so that neither end, without noise or without signal, is one of them.
    """

    def __init__(self, timesteps: int, shift: float = 1.0) -> None:
        if not 0 < shift < float("inf"):
            raise UserError(f"schedule 'flow' with a shift of {shift}; allowed: above 0 (1: none)")
        self.shift = shift
        #: s of each timestep before it is shifted, [T].
        self.times = (torch.arange(timesteps, dtype=torch.float64) + 0.5) / timesteps
        divisor = 1 + (shift - 1) * self.times
        super().__init__("flow", (1 - self.times) / divisor, shift * self.times / divisor)

    def model_timestep(self, timesteps: Tensor) -> Tensor:
        """1000·s, shifted: the value that the schedulers of diffusers pass to a network, whatever T is, [B] float32."""
        return (REFERENCE_TIMESTEPS * self.sigma)[timesteps].float()


#: Schedules: name → T → schedule.
SCHEDULES: dict[str, Callable[[int], NoiseSchedule]] = {
    "linear": NoiseSchedule.linear,
    "cosine": NoiseSchedule.cosine,
    "scaled_linear": NoiseSchedule.scaled_linear,
    "flow": Flow,
}


def noise_schedule(settings: Iterable[tuple[str, Any]]) -> NoiseSchedule:
    """The schedule of keys and values of settings. Raises UserError where there are too few timesteps for it."""
    return NoiseSchedule.named(**dict(settings))


def shifted(table: Tensor, first: float) -> Tensor:
    """Values of a table [T] at the timesteps before, with that of the image itself at first."""
    return torch.cat([table.new_tensor([first]), table[:-1]])


def at(table: Tensor, timesteps: Tensor, like: Tensor) -> Tensor:
    """Values of a table [T] at timesteps [B], with the dtype and device of `like` and shaped to multiply it."""
    return table[timesteps.to(table.device)].to(like).reshape((-1,) + (1,) * (like.ndim - 1))
