"""A made-up study of experts for groups of timesteps, whose answers are known, for tests of tables and pages."""

from pathlib import Path
from typing import Any

from unequal.comparison.settings import Comparison
from unequal.runtime.files import write_json

BLOCKS = (0, 1, 2)
#: Ten timesteps in bins of 1, 1, 2, 4 and 2; experts for 0 … 3 and 4 … 9, the first of which errs 10 % less.
CURVE = {"timesteps": [10], "first": [0, 1, 2, 4, 8]}
JOINT = [8.0, 6.0, 4.0, 2.0, 1.0]
GROUPS = {
    "experts": [(0, 3, 1), (4, 9, 1)],
    "joint": [(0, 9, 1)],
    "again": [(0, 9, 1)],
    "scattered": [(0, 8, 2), (1, 9, 2)],
}
PLAN: dict[str, Any] = {
    "question": "Do they?",
    "subject": "images",
    "seeds": list(BLOCKS),
    "arms": {"bases": ["base"], "fresh": [], "heads": [], "continued": list(GROUPS)},
    "batch_sizes": {},
    "confirm": {"seeds": []},
    "comparisons": [{"arm": arm, "control": "joint"} for arm in ("experts", "scattered")],
    "repeated": {"arm": "again", "control": "joint"},
    "endpoints": {"loss_over_timesteps": 0.01, "fid": 0.1},
}


def losses(arm: str, block: int) -> list[float]:
    factors = [0.9, 0.9, 0.9, 1.0, 1.0] if arm == "experts" else [1.0] * 5
    return [(1 + 0.1 * block) * factor * loss for factor, loss in zip(factors, JOINT, strict=True)]


def write_study(folder: Path) -> Comparison:
    for arm, groups in {"base": [(0, 9, 1)], **GROUPS}.items():
        for block in BLOCKS:
            write_json(
                folder / f"endpoints/{arm}/block_{block}.json",
                {
                    "arm": arm,
                    "block": block,
                    "endpoints": {"loss_over_timesteps": 1.0 + 0.01 * block, "fid": 1.0 + 0.02 * block},
                    "scores": {},
                    "costs": dict.fromkeys(
                        ("images", "training_flops", "sampling_flops", "parameters", "parameters_per_step"), 1000
                    ),
                    "curve": CURVE | {"loss": losses(arm, block)},
                    "conditions": {"data": "made-up images"},
                },
            )
            figures = [
                {"first": first, "last": last, "stride": stride, "images_seen": 500, "inherited_images_inside": 40}
                for first, last, stride in groups
            ]
            write_json(folder / f"trainings/{arm}/block_{block}.json", {"images": 1000, "groups": figures})
    return Comparison.model_validate(PLAN, strict=False)
