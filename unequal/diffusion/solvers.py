"""Solvers of the path from noise to images over any falling list of timesteps: DDIM, Heun, DPM-Solver++.

DDIM (2010.02502) is Euler's method; `ancestral` is the same with a learned variance (2102.09672). With y = x/α and
r = σ/α the path is dy/dr = ε(x_t, t) on every schedule, so that no solver needs to know which.
"""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from unequal.diffusion.posterior import posterior_between
from unequal.diffusion.schedule import CLEAN, Level, NoiseSchedule
from unequal.errors import UserError

#: (x_t, t) → x0, both [B, …].
Predict = Callable[[Tensor, int], Tensor]


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
        timesteps: from `unequal.diffusion.spacing.sampling_timesteps`.
        schedule: gives α and σ of each.
        predict: (x_t, t) → x0, [B, …].
        eta: 0 deterministic, 1 as noisy as DDPM.
        noise: step number → [B, …]; needed where eta > 0.

    Returns:
        [B, …].
    """
    for step, (t, now, after) in enumerate(steps_of(timesteps, schedule)):
        added = noise(step) if noise is not None and eta > 0 else None
        x_t = ddim_step(x_t, x0_of(predict, x_t, t), now, after, eta, added)
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


def heun(x_t: Tensor, timesteps: Sequence[int], schedule: NoiseSchedule, predict: Predict) -> Tensor:
    """Heun's method (2206.00364, algorithm 1 without noise): N timesteps, 2N − 1 predictions; the last step is Euler's.

    Args:
        x_t: [B, …], N(0, 1).
        timesteps: falling; each prediction is asked at its own, the corrector's at the one that the step leads to.
        schedule: gives α and σ of each.
        predict: (x_t, t) → x0.

    Returns:
        [B, …].
    """
    for number, (t, now, after) in enumerate(steps_of(timesteps, schedule), start=1):
        slope = noise_in(x_t, x0_of(predict, x_t, t), now)
        reached = moved(x_t, slope, now, after)
        if number < len(timesteps):
            slope = (slope + noise_in(reached, predict(reached, timesteps[number]), after)) / 2
            reached = moved(x_t, slope, now, after)
        x_t = reached
    return x_t


def dpm_solver_2m(x_t: Tensor, timesteps: Sequence[int], schedule: NoiseSchedule, predict: Predict) -> Tensor:
    """DPM-Solver++ (2M, 2211.01095, algorithm 2): of second order by the prediction before, one prediction a timestep.

    The first step and the last, to the image itself, are of first order.

    Args:
        x_t, timesteps, schedule, predict: as for `heun`.

    Returns:
        [B, …].
    """
    x0_before, step_before = None, math.inf
    for t, now, after in steps_of(timesteps, schedule):
        x0 = x0_of(predict, x_t, t)
        step = log_ratio(after) - log_ratio(now)
        aim = x0
        if x0_before is not None and after.sigma:
            weight = step / step_before / 2
            aim = (1 + weight) * x0 - weight * x0_before
        x_t = after.sigma / now.sigma * x_t - after.alpha * math.expm1(-step) * aim
        x0_before, step_before = x0, step
    return x_t


def x0_of(predict: Predict, x_t: Tensor, t: int) -> Tensor:
    """The predicted x0. Raises UserError where it would be broadcast."""
    if (x0 := predict(x_t, t)).shape != x_t.shape:
        raise UserError(f"x0 is predicted as {list(x0.shape)} for x_t of {list(x_t.shape)}; allowed: equal shapes")
    return x0


def noise_in(x_t: Tensor, x0: Tensor, level: Level) -> Tensor:
    """ε of an image and its predicted x0."""
    return (x_t - level.alpha * x0) / level.sigma


def moved(x_t: Tensor, slope: Tensor, now: Level, after: Level) -> Tensor:
    """Result of a straight step in (r, y): y' = y + (r' − r)·slope, as x' = α'·y'."""
    kept = after.alpha / now.alpha
    return kept * x_t + (after.sigma - kept * now.sigma) * slope


def log_ratio(level: Level) -> float:
    """ln(α/σ), half the log-SNR; ∞ for the image itself."""
    return math.log(level.alpha / level.sigma) if level.sigma else math.inf


def network_calls(solver: str, timesteps: Sequence[int]) -> list[int]:
    """The timestep of every prediction that a solver asks for, in order."""
    if solver != "heun":
        return list(timesteps)
    first, *rest = timesteps
    return [first, *(t for t in rest for _ in range(2))]


#: Deterministic ones, by name.
SOLVERS: dict[str, Callable[..., Tensor]] = {"ddim": ddim, "heun": heun, "dpm_solver_2m": dpm_solver_2m}
