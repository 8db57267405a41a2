"""Schedulers of diffusers: those of trained networks, compared with the settings, and export of a flow's."""

import json
from pathlib import Path
from typing import Any

import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.errors import UserError
from unequal.models.spec import ModelSpec
from unequal.runtime.files import read_json
from unequal.runtime.outside import located
from unequal.settings.network import Network
from unequal.settings.schedule import FlowSchedule

SCHEDULER, FLOW = "scheduler_config.json", "FlowMatchEulerDiscreteScheduler"
#: Betas that differ by less are the same, computed in float32.
BETAS_AGREE = 1e-4
#: A flow's settings by which times depend on the image, or on the number of steps.
BENDING = (
    "use_dynamic_shifting",
    "shift_terminal",
    "use_karras_sigmas",
    "use_exponential_sigmas",
    "use_beta_sigmas",
    "invert_sigmas",
)


def check_beside(network: Network, spec: ModelSpec) -> None:
    """Raise UserError where the scheduler of a trained network contradicts the settings.

    A network alone says nothing, and is taken as the settings say.
    """
    source = str(network.pretrained)
    if (config := scheduler_config(source)) is None:
        return
    if (kind := config.get("_class_name")) == FLOW:
        check_flow(config, source, spec)
    elif isinstance(spec.schedule, FlowSchedule):
        raise disagreement(source, "schedule.name", "'flow'", f"a {kind}; allowed for a flow: {FLOW}")
    else:
        check_betas(config, network, spec)


def scheduler_config(source: str) -> dict[str, Any] | None:
    """Settings of the scheduler next to a network, in a folder or on the Hub; None where there is none."""
    place, revision = on_hub_or_here(source)
    for name in (SCHEDULER, f"scheduler/{SCHEDULER}"):
        try:
            path = Path(place) / name if revision is None else Path(hf_hub_download(place, name, revision=revision))
        except EntryNotFoundError as error:
            if isinstance(error, LocalEntryNotFoundError):
                raise UserError(f"network.pretrained: '{source}': {name} cannot be reached on the Hub") from None
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"network.pretrained: '{source}': {str(error).splitlines()[0]}") from None
        if path.exists():
            config = read_json(path)
            if not isinstance(config, dict):
                raise UserError(f"{path}: no settings of a scheduler")
            return config
    return None


def on_hub_or_here(source: str) -> tuple[str, str | None]:
    """Arguments for libraries: a folder, or a Hub id and its revision. Raises UserError."""
    place = located(source, "network.pretrained")
    return (str(place), None) if isinstance(place, Path) else place


def check_flow(config: dict[str, Any], source: str, spec: ModelSpec) -> None:
    """Raise UserError where the scheduler of a flow has other times than the settings, or bends them."""
    parts, shift = config.get("num_train_timesteps", REFERENCE_TIMESTEPS), config.get("shift", 1.0)
    if not isinstance(spec.schedule, FlowSchedule):
        raise disagreement(source, "schedule.name", f"'{spec.schedule.name}'", "'flow'")
    if shift != spec.schedule.shift:
        raise disagreement(source, "schedule.shift", spec.schedule.shift, shift)
    if bent := [key for key in BENDING if config.get(key)]:
        raise disagreement(source, "schedule", "one shift for all images", f"{bent[0]}: {json.dumps(config[bent[0]])}")
    if parts != REFERENCE_TIMESTEPS:
        ours = f"times as parts of {REFERENCE_TIMESTEPS}"
        raise disagreement(source, "schedule", ours, f"num_train_timesteps {parts}")
    if spec.prediction != "velocity":
        raise disagreement(source, "recipes.base.prediction", spec.prediction, "velocity")


def check_betas(config: dict[str, Any], network: Network, spec: ModelSpec) -> None:
    """Raise UserError at the first thing that a pipeline's scheduler and the settings say differently."""
    source, kind, schedule = str(network.pretrained), config.get("_class_name"), spec.noise_schedule()
    if not {"beta_schedule", "trained_betas"} & set(config):
        raise UserError(f"network.pretrained: '{source}' belongs to a {kind}, which has no betas; allowed: DDPM's kind")
    try:
        known = DDPMScheduler.from_config(config)
    except (NotImplementedError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"network.pretrained: '{source}': its {kind} cannot be read ({error})") from None
    if len(known.betas) != schedule.timesteps:
        raise disagreement(source, "schedule.timesteps", schedule.timesteps, len(known.betas))
    if not torch.allclose(known.betas.double(), schedule.betas, rtol=BETAS_AGREE, atol=0):
        raise disagreement(source, "schedule.name", f"{schedule.name}, {span(schedule.betas)}", span(known.betas))
    if known.config.prediction_type != spec.prediction:
        raise disagreement(source, "recipes.base.prediction", spec.prediction, known.config.prediction_type)
    learned = spec.variance == "learned"
    variance = config.get("variance_type", "learned_range" if learned else "fixed_small")
    if variance == "learned" or (variance == "learned_range") != learned:
        raise disagreement(source, "network.variance", spec.variance, f"variance_type '{variance}'")
    if known.config.thresholding or (known.config.clip_sample and known.config.clip_sample_range != 1):
        limits = "thresholding" if known.config.thresholding else f"clip_sample_range {known.config.clip_sample_range}"
        raise disagreement(source, "sampling.clip", "to [-1, 1] or not at all", limits)


def disagreement(source: str, key: str, ours: object, theirs: object) -> UserError:
    """The refusal of a source that was trained otherwise."""
    return UserError(f"{key}: {ours}, but network.pretrained '{source}' was trained with {theirs}")


def span(betas: torch.Tensor) -> str:
    """First and last beta of a schedule, in words."""
    return f"betas {float(betas[0]):.4g} … {float(betas[-1]):.4g}"


def write_flow(schedule: FlowSchedule, target: Path) -> None:
    """Write the scheduler of a flow into the folder where pipelines have theirs.

    A loop over it is to give it times before they are shifted, `set_timesteps(sigmas=…)`: given a number of steps, it
    shifts its last time twice (its issue 13243). Networks take 1000·s whatever T was: its thousand is not T.
    """
    # Imported here: it takes seconds to import.
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=REFERENCE_TIMESTEPS, shift=schedule.shift)
    scheduler.save_pretrained(target / "scheduler")
