"""DDIM (2010.02502) over any falling list of timesteps, and the same with a learned variance (2102.09672)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from unequal.errors import UserError


def sampling_timesteps(steps: int | Sequence[int], timesteps: int, spacing: str = "uniform") -> list[int]:
    """Timesteps at which the model is asked, falling from T−1 to 0 where `steps` is a number.

    Args:
        steps: how many, or the list itself (falling, without repetition).
        timesteps: T.
        spacing: `uniform`, or `quadratic` (denser near the data, as DDIM's authors use on CIFAR-10).
    """
    if not isinstance(steps, int):
        chosen = [int(t) for t in steps]
        if not chosen or chosen[0] >= timesteps or chosen[-1] < 0 or any(np.diff(chosen) >= 0):
            raise UserError(f"sampling timesteps {chosen} must fall strictly within {timesteps - 1} … 0")
        return chosen
    if not 1 <= steps <= timesteps:
        raise UserError(f"{steps} sampling steps of {timesteps} timesteps; allowed: 1 … {timesteps}")
    if spacing not in ("uniform", "quadratic"):
        raise UserError(f"spacing '{spacing}' is unknown; allowed: uniform, quadratic")
    if steps == 1:
        return [timesteps - 1]
    share = np.linspace(0, 1, steps) ** (2 if spacing == "quadratic" else 1)
    wanted = np.rint(share * (timesteps - 1)).astype(int)
    # Quadratic spacing rounds neighbours near 0 together: push each one above the last.
    for i in range(1, steps):
        wanted[i] = max(wanted[i], wanted[i - 1] + 1)
    return [int(t) for t in wanted[::-1]]


def ddim(
    x_t: Tensor,
    timesteps: Sequence[int],
    alphas_cumprod: Tensor,
    predict: Callable[[Tensor, int], Tensor],
    eta: float = 0.0,
    noise: Callable[[int], Tensor] | None = None,
) -> Tensor:
    """Follow a falling list of timesteps from noise to images.

    Args:
        x_t: [B, …], N(0, 1).
        timesteps: from `sampling_timesteps`.
        alphas_cumprod: [T], ᾱ.
        predict: (x_t, t) → x0, [B, …].
        eta: 0 deterministic, 1 as noisy as DDPM.
        noise: step number → [B, …]; needed where eta > 0.

    Returns:
        [B, …].
    """
    alphas_cumprod = alphas_cumprod.cpu()  # read at every step: from a GPU, each reading would wait for the network
    following = previous_alphas_cumprod(timesteps, alphas_cumprod)
    for step, (t, previous) in enumerate(zip(timesteps, following, strict=True)):
        added = noise(step) if noise is not None and eta > 0 else None
        x_t = ddim_step(x_t, predict(x_t, t), float(alphas_cumprod[t]), previous, eta, added)
    return x_t


def ancestral(
    x_t: Tensor,
    timesteps: Sequence[int],
    alphas_cumprod: Tensor,
    predict: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    noise: Callable[[int], Tensor],
) -> Tensor:
    """Follow a falling list of timesteps as DDIM does at η = 1, with noise of the variance that a network has learned.

    Args:
        x_t, timesteps, alphas_cumprod: as for `ddim`.
        predict: (x_t, t) → x0, and the share v of log β in the step's log-variance, both [B, …].
        noise: step number → [B, …].

    Returns:
        [B, …].
    """
    following = previous_alphas_cumprod(timesteps, alphas_cumprod)
    for step, (t, previous) in enumerate(zip(timesteps, following, strict=True)):
        x0, share = predict(x_t, t)
        present = float(alphas_cumprod[t])
        # Of a step from ᾱ to ᾱ', β/β̃ = (1 − ᾱ)/(1 − ᾱ'); the last step, to ᾱ' = 1, adds no noise.
        ratio = (1 - present) / (1 - previous) if previous < 1 else 1.0
        x_t = ddim_step(x_t, x0, present, previous, 1.0, ratio ** (share / 2) * noise(step))
    return x_t


def ddim_step(
    x_t: Tensor, x0: Tensor, alphas_cumprod: float, previous: float, eta: float, noise: Tensor | None
) -> Tensor:
    """From x_t and its predicted x0 to the next, less noisy image (2010.02502, eqs. 12 and 16).

    Args:
        x_t, x0: [B, …].
        alphas_cumprod: ᾱ of the present timestep.
        previous: ᾱ of the next one; 1 at the end.
        eta: 0 is deterministic, 1 has DDPM's variance.
        noise: [B, …], fresh noise; needed where eta > 0.
    """
    if eta > 0 and noise is None:
        raise UserError(f"ddim_step: eta {eta} adds noise, and none was given")
    epsilon = (x_t - alphas_cumprod**0.5 * x0) / (1 - alphas_cumprod) ** 0.5
    variance = eta**2 * (1 - previous) / (1 - alphas_cumprod) * (1 - alphas_cumprod / previous)
    mean = previous**0.5 * x0 + max(0.0, 1 - previous - variance) ** 0.5 * epsilon
    return mean if noise is None else mean + variance**0.5 * noise


def previous_alphas_cumprod(chosen: Sequence[int], alphas_cumprod: Tensor) -> list[float]:
    """ᾱ that each step of a falling list leads to; the last leads to the image itself, ᾱ = 1."""
    return [*(float(alphas_cumprod[t]) for t in chosen[1:]), 1.0]


def steps_per_range(chosen: Sequence[int], ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many sampling steps fall into each inclusive range of timesteps."""
    table = torch.tensor(list(chosen))
    return [int(((table >= first) & (table <= last)).sum()) for first, last in ranges]
