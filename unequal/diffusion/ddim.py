"""DDIM (2010.02502) over any falling list of timesteps, and the same with a learned variance (2102.09672)."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from unequal.diffusion.posterior import posterior_between
from unequal.diffusion.schedule import CLEAN, Level, NoiseSchedule
from unequal.errors import UserError

#: Spacings that ask for the number of timesteps alone.
OVER_TIMESTEPS = ("uniform", "quadratic")


def sampling_timesteps(steps: int | Sequence[int], timesteps: int, spacing: str | None = "uniform") -> list[int]:
    """Timesteps at which the model is asked, falling from T−1 to 0 where `steps` is a number.

    Args:
        steps: how many, or the list itself (falling, without repetition).
        timesteps: T.
        spacing: `uniform`, or `quadratic` (denser near the data, as DDIM's authors use on CIFAR-10), of a number.
    """
    if not isinstance(steps, int):
        chosen = [int(t) for t in steps]
        if not chosen or chosen[0] >= timesteps or chosen[-1] < 0 or any(np.diff(chosen) >= 0):
            raise UserError(f"sampling timesteps {chosen} must fall strictly within {timesteps - 1} … 0")
        return chosen
    if not 1 <= steps <= timesteps:
        raise UserError(f"{steps} sampling steps of {timesteps} timesteps; allowed: 1 … {timesteps}")
    if spacing not in OVER_TIMESTEPS:
        raise UserError(f"spacing '{spacing}' is unknown; allowed: {', '.join(OVER_TIMESTEPS)}")
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
    schedule: NoiseSchedule,
    predict: Callable[[Tensor, int], Tensor],
    eta: float = 0.0,
    noise: Callable[[int], Tensor] | None = None,
) -> Tensor:
    """Follow a falling list of timesteps from noise to images.

    Args:
        x_t: [B, …], N(0, 1).
        timesteps: from `sampling_timesteps`.
        schedule: gives α and σ of each.
        predict: (x_t, t) → x0, [B, …].
        eta: 0 deterministic, 1 as noisy as DDPM.
        noise: step number → [B, …]; needed where eta > 0.

    Returns:
        [B, …].
    """
    for step, (t, now, after) in enumerate(steps_of(timesteps, schedule)):
        added = noise(step) if noise is not None and eta > 0 else None
        x_t = ddim_step(x_t, predict(x_t, t), now, after, eta, added)
    return x_t


def ancestral(
    x_t: Tensor,
    timesteps: Sequence[int],
    schedule: NoiseSchedule,
    predict: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    noise: Callable[[int], Tensor],
) -> Tensor:
    """Follow a falling list of timesteps as DDIM does at η = 1, with noise of the variance that a network has learned.

    Args:
        x_t, timesteps, schedule: as for `ddim`.
        predict: (x_t, t) → x0, and the share v of log β in the step's log-variance, both [B, …].
        noise: step number → [B, …].

    Returns:
        [B, …].
    """
    for step, (t, now, after) in enumerate(steps_of(timesteps, schedule)):
        x0, share = predict(x_t, t)
        # β/β̃ = σ²/σ'²; the last step, to σ' = 0, adds no noise.
        ratio = (now.sigma / after.sigma) ** 2 if after.sigma else 1.0
        x_t = ddim_step(x_t, x0, now, after, 1.0, ratio ** (share / 2) * noise(step))
    return x_t


def ddim_step(x_t: Tensor, x0: Tensor, now: Level, after: Level, eta: float, noise: Tensor | None) -> Tensor:
    """From x_t and its predicted x0 to the next, less noisy image (2010.02502, eqs. 12 and 16).

    Args:
        x_t, x0: [B, …].
        now: α and σ of the present timestep.
        after: those of the next one; `CLEAN` at the end.
        eta: 0 is deterministic, 1 has the posterior's variance, which is DDPM's.
        noise: [B, …], fresh noise; needed where eta > 0.
    """
    if eta > 0 and noise is None:
        raise UserError(f"ddim_step: eta {eta} adds noise, and none was given")
    epsilon = (x_t - now.alpha * x0) / now.sigma
    variance = eta**2 * posterior_between(now, after).variance
    mean = after.alpha * x0 + max(0.0, after.sigma**2 - variance) ** 0.5 * epsilon
    return mean if noise is None else mean + variance**0.5 * noise


def steps_of(timesteps: Sequence[int], schedule: NoiseSchedule) -> list[tuple[int, Level, Level]]:
    """Each timestep of a falling list, its level, and the one it leads to; the last leads to the image itself."""
    # Read from the CPU: from a GPU, each reading would wait for the network.
    near = schedule.to("cpu")
    levels = [near.level(t) for t in timesteps]
    return list(zip(timesteps, levels, [*levels[1:], CLEAN], strict=True))
