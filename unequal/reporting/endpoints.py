"""The endpoints by which a run compares two models: FID over sampling seeds, and losses on held-out images over draws.

Which files and keys they stand in is known here alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from unequal.evidence.blocks import Blocks
from unequal.measures.loss_profile import relative_change
from unequal.reporting.statements import Difference

LEVEL = 0.05


class Loss(NamedTuple):
    """A mean held-out loss of a model, and its standard error over draws; None: unknown."""

    mean: float
    stderr: float | None


#: Mean over timesteps, which a profile's draws tell of a pair of models better than two means do.
OVER_TIMESTEPS = "loss_over_timesteps"
#: Keys of results/metrics/profile_<model>.json → what people call them. A standard error stands beside its mean.
HELD_OUT = {
    OVER_TIMESTEPS: "held-out loss",
    "loss_over_log_snr": "held-out loss over log-SNR",
    "x0_loss_over_log_snr": "held-out x0 loss over log-SNR",
}
STDERR = "_stderr"


def held_out_losses(figures: Mapping[str, float]) -> dict[str, Loss]:
    """The endpoints that a model's file of figures has, in the order of HELD_OUT."""
    return {key: Loss(figures[key], figures.get(f"{key}{STDERR}")) for key in HELD_OUT if key in figures}


def fid_differences(scores: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]]) -> list[Difference | None]:
    """Differences of FID of pairs of variants, resolved by the scatter over sampling seeds.

    Every variant starts from the same noise at a seed: seeds are complete blocks (`unequal.evidence.blocks`), whose
    scatter all variants that are compared tell together, since two seeds of a pair alone tell next to nothing.

    Args:
        scores: variant → FID at each sampling seed, the same seeds for all.
        pairs: names of variant and control.

    Returns:
        A difference a pair; None where one has a FID that is not above 0 and therefore no logarithm.
    """
    sound = [name for name in dict.fromkeys(sum(pairs, ())) if min(scores[name]) > 0]
    logs = {name: np.log(scores[name]) for name in sound}
    repeated = len(sound) > 1 and len(logs[sound[0]]) > 1
    blocks = Blocks(tuple(sound), np.stack(list(logs.values()))) if repeated else None
    return [fid_difference(logs, blocks, *pair) if set(pair) <= set(sound) else None for pair in pairs]


def fid_difference(logs: Mapping[str, np.ndarray], blocks: Blocks | None, method: str, control: str) -> Difference:
    """Difference of ln FID; its resolution is unknown where there was one seed, and nothing scattered."""
    if blocks is None:
        return Difference(float(logs[method].mean() - logs[control].mean()), None)
    found = blocks.contrast(method, control)
    return Difference(found.difference, float(student_t.ppf(1 - LEVEL / 2, found.freedom)) * found.error)


def loss_differences(
    draws: Mapping[str, Mapping[str, np.ndarray]],
    figures: Mapping[str, Mapping[str, Loss]],
    method: str,
    control: str,
) -> dict[str, Difference]:
    """Differences of the held-out losses that were measured of both models, in the order of HELD_OUT.

    Args:
        draws: model → split → losses of all draws, [T, n], the same draws for all.
        figures: model → its endpoints.
        method, control: names of models.
    """
    found = {}
    if {method, control} <= draws.keys():
        found[OVER_TIMESTEPS] = paired_difference(draws[method]["holdout"], draws[control]["holdout"])
    mine, its = figures.get(method, {}), figures.get(control, {})
    return found | {key: unpaired_difference(mine[key], its[key]) for key in mine if key in its and key not in found}


def paired_difference(method: np.ndarray, control: np.ndarray) -> Difference:
    """Difference of the mean loss over the same draws [T, n]: what both models find hard cancels."""
    change, stderr = relative_change(control, method)
    return Difference(float(np.log1p(change)), normal_interval(stderr / (1 + change)))


def unpaired_difference(method: Loss, control: Loss) -> Difference:
    """Difference of two mean losses whose errors are taken for independent; the same draws make it too cautious."""
    known = [one.stderr / one.mean for one in (method, control) if one.stderr is not None]
    resolution = normal_interval(float(np.hypot(*known))) if len(known) == 2 else None
    return Difference(float(np.log(method.mean / control.mean)), resolution)


def normal_interval(stderr: float) -> float:
    """Half of a 95 % interval: draws are many."""
    return float(norm.ppf(1 - LEVEL / 2)) * stderr
