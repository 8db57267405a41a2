"""How two models of a run differ, and how finely that was measured: FID over sampling seeds, errors over draws."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from unequal.evidence.blocks import Blocks
from unequal.measures.endpoints import Endpoint, Errors
from unequal.report.statements import Difference

LEVEL = 0.05


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
    endpoints: Mapping[str, Endpoint], errors: Mapping[str, Errors], method: str, control: str
) -> dict[str, Difference]:
    """Differences of all endpoints of two models, by name; none where one of them was not profiled.

    Args:
        endpoints: see `unequal.measures.endpoints`.
        errors: model → errors on held-out draws, the same draws for all.
        method, control: names of models.
    """
    if not {method, control} <= errors.keys():
        return {}
    changes = {name: one.change(errors[control], errors[method]) for name, one in endpoints.items()}
    return {name: difference_of(*change) for name, change in changes.items()}


def difference_of(change: float, stderr: float) -> Difference:
    """A relative change and its standard error as a difference of logarithms; draws are many, so t is normal."""
    return Difference(float(np.log1p(change)), float(norm.ppf(1 - LEVEL / 2)) * stderr / (1 + change))
