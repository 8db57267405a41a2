"""What the trainings of all replicas say of methods and their controls, by the rules that studies are judged by."""

from collections.abc import Mapping, Sequence

import numpy as np

from unequal.artifacts.replicas import Replicas
from unequal.evidence.blocks import Blocks
from unequal.evidence.power import Design, upper_deviation, visible_effect
from unequal.evidence.words import findings
from unequal.report.statements import Difference

#: Fewer trainings do not tell their scatter.
LEAST = 3
#: Endpoint → δ in its logarithm, below which a method counts as the same as its control; settled before any run.
SAME_WITHIN = {"fid": 0.05, "loss_over_timesteps": 0.01, "loss_over_log_snr": 0.01, "x0_loss_over_log_snr": 0.01}


def are_judged(replicas: Replicas) -> bool:
    """Whether there are trainings enough for words."""
    return len(replicas.seeds) >= LEAST


def judged(replicas: Replicas, endpoint: str, pairs: Sequence[tuple[str, str]]) -> list[Difference | None]:
    """Differences of an endpoint with their words, all pairs judged together; seeds are blocks, models their arms.

    Args:
        replicas: three or more.
        endpoint: a key of SAME_WITHIN.
        pairs: names of method and control.

    Returns:
        A difference a pair; None where one was not measured, or has a value that is not above 0 and has no logarithm.
    """
    values = {name: found for name, found in replicas.endpoints[endpoint].items() if min(found) > 0}
    asked = [pair for pair in pairs if set(pair) <= values.keys()]
    if not asked:
        return [None] * len(pairs)
    arms = tuple(dict.fromkeys(sum(asked, ())))
    blocks = Blocks(arms, np.log([values[name] for name in arms]))
    bounds = [seen(blocks, len(asked))] * len(asked)
    found = findings([blocks.contrast(*pair) for pair in asked], SAME_WITHIN[endpoint], bounds)
    told = {
        pair: Difference(float(np.log1p(one.change)), float(np.log1p(one.high) - np.log1p(one.change)), one.word)
        for pair, one in zip(asked, found, strict=True)
    }
    return [told.get(pair) for pair in pairs]


def seen(blocks: Blocks, comparisons: int) -> float:
    """The difference that as many trainings show in four of five runs, by the 80 % upper bound of their own scatter."""
    design = Design(len(blocks.arms), blocks.blocks, comparisons)
    return visible_effect(design, upper_deviation(blocks.pooled_variance**0.5, blocks.freedom))


def judged_losses(replicas: Replicas, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Difference]]:
    """The same of all endpoints but FID: pair by pair, endpoint → difference; none of those that were not measured."""
    found = {name: judged(replicas, name, pairs) for name in SAME_WITHIN if name != "fid"}
    return [
        {name: one for name, ones in found.items() if (one := ones[number]) is not None} for number in range(len(pairs))
    ]


def mean_fids(replicas: Replicas) -> Mapping[str, float]:
    """Variant → geometric mean of its FID over the trainings, to which the differences belong; 0 where one is 0."""
    return {
        name: float(np.exp(np.log(found).mean())) if min(found) > 0 else 0.0
        for name, found in replicas.endpoints["fid"].items()
    }
