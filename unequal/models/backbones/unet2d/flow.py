"""Networks of a flow beside a scheduler of diffusers, as they come in and go out."""

import json
from pathlib import Path
from typing import Any

from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.errors import UserError
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.backbones.unet2d.pretrained import check_pretrained, scheduler_config
from unequal.models.spec import ModelSpec
from unequal.settings.network import UNet2D
from unequal.settings.schedule import FlowSchedule

SCHEDULER = "FlowMatchEulerDiscreteScheduler"
#: Its settings by which times depend on the image, or on the number of steps.
BENDING = (
    "use_dynamic_shifting",
    "shift_terminal",
    "use_karras_sigmas",
    "use_exponential_sigmas",
    "use_beta_sigmas",
    "invert_sigmas",
)


def check_source(network: UNet2D, spec: ModelSpec) -> None:
    """Raise UserError where what a trained network's source says of its training is not what the settings say."""
    schedule, source = spec.schedule, str(network.pretrained)
    config = None if network.openai is not None else scheduler_config(source)
    kind = None if config is None else config.get("_class_name")
    if kind == SCHEDULER and config is not None:
        check_flow(config, source, spec)
    elif isinstance(schedule, FlowSchedule) and (config is not None or network.openai is not None):
        theirs = "betas, as OpenAI trains" if kind is None else f"a {kind}"
        raise disagreement(source, "schedule.name", "'flow'", f"{theirs}; allowed for a flow: {SCHEDULER}")
    else:
        check_pretrained(network, spec)


def check_flow(config: dict[str, Any], source: str, spec: ModelSpec) -> None:
    """Raise UserError where the scheduler of a flow tells a network other times than the settings, or bends them."""
    parts, shift = config.get("num_train_timesteps", REFERENCE_TIMESTEPS), config.get("shift", 1.0)
    if not isinstance(spec.schedule, FlowSchedule):
        raise disagreement(source, "schedule.name", f"'{spec.schedule.name}'", "'flow'")
    if shift != spec.schedule.shift:
        raise disagreement(source, "schedule.shift", spec.schedule.shift, shift)
    if bent := [key for key in BENDING if config.get(key)]:
        raise disagreement(source, "schedule", "one shift for all images", f"{bent[0]}: {json.dumps(config[bent[0]])}")
    if parts != REFERENCE_TIMESTEPS:
        ours = f"times told as parts of {REFERENCE_TIMESTEPS}"
        raise disagreement(source, "schedule", ours, f"num_train_timesteps {parts}")
    if spec.prediction != "velocity":
        raise disagreement(source, "recipes.base.prediction", spec.prediction, "velocity")


def disagreement(source: str, key: str, ours: object, theirs: object) -> UserError:
    """The refusal of a source that was trained otherwise."""
    return UserError(f"{key}: {ours}, but network.pretrained '{source}' was trained with {theirs}")


def export_flow(net: UNet2DModel, schedule: FlowSchedule, target: Path) -> None:
    """Write a network and the scheduler of its flow, each in the folder where pipelines have theirs.

    No pipeline of diffusers samples a UNet2DModel so; a loop over the scheduler does. It is to be given times before
    they are shifted, `set_timesteps(sigmas=…)`: told a number of steps, it shifts its last time twice (its issue
    13243). Networks are told 1000·s whatever T was, so that its thousand is not T.
    """
    # Imported here: schedulers take seconds to import.
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

    net.save_pretrained(target / "unet")
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=REFERENCE_TIMESTEPS, shift=schedule.shift)
    scheduler.save_pretrained(target / "scheduler")
