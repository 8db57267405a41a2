"""Variants that ship with the race: what each changes in a recipe, where schedule and length allow it."""

from collections.abc import Mapping
from typing import Any

from unequal.errors import UserError
from unequal.settings.race import LEAST_SHARE, Arm, first_reason
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import FlowSchedule, Schedule
from unequal.settings.strict import PARAMS, validate

#: The control.
UNIFORM = "uniform"
#: The variant over slots of the control's loss.
SLOTS = "slots"


def shipped(images: int, is_flow: bool) -> dict[str, tuple[str, dict[str, Any]]]:
    """Variant → its description, with its source, and its changes of a recipe.

    Args:
        images: number of images of a whole training, from which lengths of curricula and warm-ups follow.
        is_flow: whether the schedule is a flow, which decides what models can predict.
    """
    drawn: dict[str, tuple[str, dict[str, Any]]] = {
        UNIFORM: ("the control: uniform timesteps, no weight", plain("uniform")),
        "low_discrepancy": (
            "evenly spread in every batch (VDM, 2107.00630)",
            plain("uniform", "low_discrepancy"),
        ),
        "logit_normal": ("SD3 (2403.03206, eq. 19)", plain("logit_normal", mean=0.0, std=1.0)),
        "mode": ("SD3 (2403.03206, eq. 20)", plain("mode", scale=1.29)),
        "min_snr": ("Min-SNR (2303.09556)", weight("min_snr", gamma=5.0)),
        "soft_min_snr": ("soft Min-SNR (2401.11605)", weight("soft_min_snr", gamma=4.0)),
        "p2": ("P2 (2204.00227)", weight("p2", gamma=1.0)),
        "edm": ("EDM's density and weight (2206.00364)", plain("log_normal", mean=-1.2, std=1.2) | weight_of("edm")),
        SLOTS: ("stratified over ten slots of equal loss (paper 1)", plain("slots", "stratified")),
        "curriculum": (
            "from uniform to harder timesteps",
            plain("curriculum", target="noise_rate", ramp_images=images // 2, uniform_share=0.1),
        ),
        "easy_to_hard": (
            "the difficulty curriculum",
            plain("easy_to_hard", clusters=10, patience_images=max(1, images // 40)),
        ),
        "speed": (
            "SpeeD (2405.17403)",
            plain("asymmetric", "mirrored", boundary=0.7, ratio=5.0) | weight_of("change_aware"),
        ),
        "info_noise": ("InfoNoise (2602.18647)", plain("info_noise", warmup_images=max(1, images // 20))),
        "learned_uncertainty": ("EDM2's learned weight (2312.02696, eq. 14)", weight("learned_uncertainty")),
    }
    experts = {"kind": "snr", "count": 2, "base_share": 0.5}
    drawn["experts"] = "two experts by SNR on a base of half of the images (paper 3)", {"experts": experts}
    predictions = ("epsilon", "velocity") if is_flow else ("epsilon", "v_prediction", "velocity")
    others = {name: (f"predicts {name}", {"prediction": name}) for name in predictions}
    return drawn | {f"predicts_{name}": one for name, one in others.items()}


def plain(name: str, draw: str = "independent", **keys: Any) -> dict[str, Any]:
    """Changes to a sampler without a loss weight."""
    drawn = {} if draw == "independent" else {"draw": draw}
    return {"sampler": {"density": name} | drawn | keys, "loss_weight": {"kind": "none"}}


def weight_of(kind: str, **keys: Any) -> dict[str, Any]:
    """Changes to a loss weight alone."""
    return {"loss_weight": {"kind": kind} | keys}


def weight(kind: str, **keys: Any) -> dict[str, Any]:
    """Changes to a loss weight on uniform timesteps."""
    return {"sampler": {"density": "uniform"}} | weight_of(kind, **keys)


def fitting(
    recipe: Recipe, schedule: Schedule, batch_size: int
) -> tuple[dict[str, tuple[str, dict[str, Any]]], dict[str, str]]:
    """Shipped variants that can be trained by a recipe on a schedule, and the others with the reason.

    A variant that predicts what the recipe predicts appears in neither.
    """
    fits: dict[str, tuple[str, dict[str, Any]]] = {}
    left_out: dict[str, str] = {}
    for name, (what, changes) in shipped(recipe.images, isinstance(schedule, FlowSchedule)).items():
        if changes.get("prediction") == recipe.prediction:
            continue
        try:
            check(name, changes, recipe, schedule, batch_size)
            fits[name] = what, changes
        except (UserError, ValueError) as error:
            left_out[name] = first_reason(error)
    return fits, left_out


def check(name: str, changes: Mapping[str, Any], recipe: Recipe, schedule: Schedule, batch_size: int) -> None:
    """Raise UserError or ValueError where a variant cannot be trained, even for the smallest share of the images."""
    arm = validate(Arm, dict(changes), PARAMS)
    own = arm.of(recipe)
    if arm.experts is not None:
        arm.experts.check(int(LEAST_SHARE * own.images), batch_size, schedule.tables())
    own.check_schedule(schedule.tables())
    schedule.check({name: own.prediction}, learned_variance=False)


def chosen(names: tuple[str, ...], fits: Mapping[str, Any], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Select variants that fit, and the control; no names: all. Raises UserError for any other name."""
    for name in names:
        if name not in fits:
            reason = left_out.get(name, f"is no shipped variant; there is: {', '.join(fits)}")
            raise UserError(f"--arms: '{name}': {reason}")
    return {name: one for name, one in fits.items() if not names or name in names or name == UNIFORM}
