"""Placement of sampling steps, from the noisiest timestep to the cleanest.

A spacing is a coordinate that rises from timestep to timestep; steps are equally far from each other in it, and snap to
timesteps, whose α and σ are then exact. Where two snap to the same one, one step is left.
"""

from collections.abc import Callable, Sequence

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError

#: Spacings that ask for the number of timesteps alone.
OVER_TIMESTEPS = ("uniform", "quadratic")
#: ρ of EDM's noise levels (2206.00364, eq. 5).
RHO = 7.0

#: Schedule, and losses of timesteps [T] where they are known → coordinate of timesteps, [T].
Coordinate = Callable[[NoiseSchedule, np.ndarray | None], np.ndarray]


def spaced_timesteps(
    steps: int | Sequence[int], schedule: NoiseSchedule, spacing: str | None, losses: np.ndarray | None = None
) -> list[int]:
    """Timesteps T−1 … 0 at which a model is asked, falling; fewer than `steps` where some would be the same.

    Args:
        steps: 1 … T, or the list itself.
        schedule: of the model.
        spacing: of a number of steps: a key of `SPACINGS`, or one of `OVER_TIMESTEPS`.
        losses: mean ε-loss of each timestep, [T]; needed by `profile` and `rescaled_profile`.

    Raises:
        UserError: an unknown spacing, one without what it needs, or a list that does not fit.
    """
    if not isinstance(steps, int) or spacing in OVER_TIMESTEPS:
        return sampling_timesteps(steps, schedule.timesteps, spacing)
    if spacing not in SPACINGS:
        raise UserError(f"spacing '{spacing}' is unknown; allowed: {', '.join((*OVER_TIMESTEPS, *SPACINGS))}")
    if steps == 1:
        return [schedule.timesteps - 1]
    coordinate = SPACINGS[spacing](schedule, losses)
    wanted = np.linspace(coordinate[0], coordinate[-1], steps)
    return sorted({nearest(coordinate, place) for place in wanted}, reverse=True)


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


def nearest(coordinate: np.ndarray, wanted: float) -> int:
    """The timestep whose coordinate is nearest."""
    return int(np.abs(coordinate - wanted).argmin())


def log_ratios(schedule: NoiseSchedule) -> np.ndarray:
    """ln r = ln(σ/α), [T]."""
    return np.asarray(-np.log(schedule.snr.cpu().numpy()) / 2)


def equal_log_snr(schedule: NoiseSchedule, losses: np.ndarray | None) -> np.ndarray:
    """Equal steps of λ."""
    return log_ratios(schedule)


def edm(schedule: NoiseSchedule, losses: np.ndarray | None) -> np.ndarray:
    """Equal steps of r^(1/ρ), between the schedule's own ends (2206.00364, eq. 5)."""
    return np.asarray(np.exp(log_ratios(schedule) / RHO))


def profile(schedule: NoiseSchedule, losses: np.ndarray | None) -> np.ndarray:
    """Equal steps of ∫ L d ln r: where the loss is large, a step in ln r changes much (entropic time, 2504.13612)."""
    return integral("profile", losses, log_ratios(schedule))


def rescaled_profile(schedule: NoiseSchedule, losses: np.ndarray | None) -> np.ndarray:
    """Equal steps of ∫ L dr, entropic time rescaled by what solvers step in (2504.13612).

    With the best losses for normal data of standard deviation c, c²/(c² + r²), it is c·arctan(r/c), the optimum that
    2404.14507 derives for them.
    """
    return integral("rescaled_profile", losses, np.exp(log_ratios(schedule)))


def integral(spacing: str, losses: np.ndarray | None, over: np.ndarray) -> np.ndarray:
    """∫ L over a coordinate of timesteps [T], from timestep 0 to each, [T]. Raises UserError without fitting losses."""
    if losses is None:
        raise UserError(f"spacing '{spacing}' goes by a loss profile, and none was measured")
    if losses.shape != over.shape:
        raise UserError(f"spacing '{spacing}' goes by losses of {len(over)} timesteps; given: {len(losses)}")
    pieces = (losses[1:] + losses[:-1]) / 2 * np.diff(over)
    return np.concatenate([[0.0], pieces.cumsum()])


#: Spacings by the schedule, or by a profile on it; `ddim` has `uniform` and `quadratic`.
SPACINGS: dict[str, Coordinate] = {
    "log_snr": equal_log_snr,
    "edm": edm,
    "profile": profile,
    "rescaled_profile": rescaled_profile,
}
