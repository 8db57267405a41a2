"""Flags of diffusers' and kohya's scripts for a recipe, where the scripts support it."""

import math
from typing import Any

from unequal.settings.recipe import Recipe
from unequal.settings.schedule import FlowSchedule, Schedule
from unequal.suggestions.flags import Flags, Phrase, Trainer, facts, phrase, shell

#: Families of scripts, by trainer and by whether the schedule is a flow; the others preserve variance.
FAMILIES: dict[tuple[Trainer, bool], tuple[str, ...]] = {
    ("diffusers", True): ("sd3", "flux"),
    ("diffusers", False): ("sd", "sdxl", "unconditional"),
    ("kohya", True): ("sd3", "flux"),
    ("kohya", False): ("sd",),
}
#: Flags for v-prediction; by default, scripts predict the noise.
PREDICTS_V: dict[Trainer, Flags] = {
    "diffusers": {"--prediction_type": "v_prediction"},
    "kohya": {"--v_parameterization": None},
}


def density_flags(recipe: Recipe, shift: float, trainer: Trainer) -> Flags | None:
    """Flags of the sampler on a flow; None: no script supports it.

    Scripts of diffusers count times from the noise end, which flips the sign of the mean, and apply the shift in their
    scheduler. Those of kohya count times as this project does, after all shifts.
    """
    sampler: Any = recipe.sampler
    if sampler.draw != "independent" or sampler.unbiased or sampler.normalised:
        return None
    if sampler.density == "uniform":
        return {}
    if sampler.density == "logit_normal" and getattr(sampler, "shift", 1.0) == 1.0:
        mean = -sampler.mean if trainer == "diffusers" else sampler.mean + math.log(shift)
        return {"--weighting_scheme": "logit_normal", "--logit_mean": mean, "--logit_std": sampler.std}
    if sampler.density == "mode" and getattr(sampler, "shift", 1.0) == 1.0:
        return {"--weighting_scheme": "mode", "--mode_scale": sampler.scale}
    return None


def weight_flags(recipe: Recipe, trainer: Trainer) -> Flags | None:
    """Flags of the loss weight on a schedule that preserves variance; None: no script supports it."""
    weight: Any = recipe.loss_weight
    if recipe.sampler.draw != "independent":
        return None
    if weight.kind == "none":
        return {}
    if weight.kind == "min_snr":
        return {"--snr_gamma" if trainer == "diffusers" else "--min_snr_gamma": weight.gamma}
    return None


def phrases(recipe: Recipe, schedule: Schedule, trainer: Trainer) -> list[Phrase]:
    """Flags of a recipe for each family of scripts, or one line which says that no script accepts it."""
    is_flow, refused = isinstance(schedule, FlowSchedule), [Phrase(f"{trainer}: no script accepts it")]
    flags: Flags | None = None
    if isinstance(schedule, FlowSchedule):
        if recipe.prediction == "velocity" and recipe.loss_weight.kind == "none":
            flags = density_flags(recipe, schedule.shift, trainer)
    elif recipe.prediction in ("epsilon", "v_prediction") and recipe.sampler.density == "uniform":
        flags = weight_flags(recipe, trainer)
    if flags is None:
        return refused
    if recipe.prediction == "v_prediction":
        flags = PREDICTS_V[trainer] | flags
    if not flags:
        return [Phrase(f"{trainer}: nothing to say; its scripts draw uniform timesteps without a weight")]
    if recipe.prediction == "epsilon" and trainer == "diffusers":
        flags = {"--prediction_type": "epsilon", **flags}
    found = [phrase(trainer, [family], f"{trainer}, {family}", flags) for family in FAMILIES[trainer, is_flow]]
    return [one for one in found if one.scripts] or refused


def script_flags(recipe: Recipe, schedule: Schedule) -> str:
    """Flags of both trainers as shell comments and lines."""
    parts = [f"# Flags of scripts as of {facts()['looked_at']}"]
    parts += [
        shell(one).strip("\n") for trainer in ("diffusers", "kohya") for one in phrases(recipe, schedule, trainer)
    ]
    return "\n".join(parts)
