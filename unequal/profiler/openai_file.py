"""OpenAI's checkpoints (improved-diffusion, guided-diffusion) as folders of a diffusers pipeline.

A `.pt` file holds tensors alone; the flags of its training say the rest. They are given as its own README states them.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from unequal.errors import UserError
from unequal.files import appearing, settings_hash, write_json
from unequal.models.backbones.unet2d.openai import load_openai
from unequal.models.weights import check_finite
from unequal.profiler.pipeline_folder import INDEX, PipelineFolder
from unequal.settings.network import OpenAIFlags
from unequal.settings.schedule import BetaSchedule
from unequal.settings.strict import validate

SUFFIX = ".pt"
#: Flag → its default in guided-diffusion, for those that decide what a network answers and that no tensor shows.
DEFAULTS: Mapping[str, str] = {
    "image_size": "64",
    "num_heads": "4",
    "num_head_channels": "-1",
    "use_new_attention_order": "False",
    "rescale_timesteps": "False",
    "diffusion_steps": "1000",
    "noise_schedule": "linear",
    "predict_xstart": "False",
}
#: Flags that tensors show, or that change no prediction.
SHOWN = [
    *("attention_resolutions", "channel_mult", "class_cond", "dropout", "learn_sigma", "num_channels"),
    *("num_heads_upsample", "num_res_blocks", "resblock_updown", "rescale_learned_sigmas", "sigma_small"),
    *("timestep_respacing", "use_checkpoint", "use_fp16", "use_kl", "use_scale_shift_norm"),
]
BOOLEANS = {"True": True, "False": False}


def read_flags(text: str) -> dict[str, str]:
    """Flags written as `--name value`, with the defaults of guided-diffusion. Raises UserError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--flags: {error}") from None
    names, values = words[::2], words[1::2]
    if len(names) != len(values):
        raise UserError(f"--flags: '{names[-1]}' has no value; allowed: --name value, as its training had them")
    given = {name.removeprefix("--"): value for name, value in zip(names, values, strict=True)}
    for flag, name in zip(names, given, strict=False):
        if not flag.startswith("--") or name not in (*DEFAULTS, *SHOWN):
            raise UserError(f"--flags: '{flag}' is unknown; allowed: {', '.join(f'--{one}' for one in DEFAULTS)}")
    if given.get("diffusion_steps", "1000") != "1000" and "rescale_timesteps" not in given:
        raise UserError(
            "--flags: --rescale_timesteps is missing; by default True in improved-diffusion, False in guided"
        )
    return {**DEFAULTS, **{name: value for name, value in given.items() if name in DEFAULTS}}


def whole(flags: Mapping[str, str], name: str) -> int:
    """A flag as a number. Raises UserError."""
    try:
        return int(flags[name])
    except ValueError:
        raise UserError(f"--flags: --{name} {flags[name]}; allowed: a whole number") from None


def truth(flags: Mapping[str, str], name: str) -> bool:
    """A flag that is True or False. Raises UserError."""
    if flags[name] not in BOOLEANS:
        raise UserError(f"--flags: --{name} {flags[name]}; allowed: True, False")
    return BOOLEANS[flags[name]]


def pipeline_of_file(source: str, flags: str, cache: Path) -> PipelineFolder:
    """Convert a `.pt` file once into a pipeline folder of the cache, and open it under the file's name.

    Args:
        source: the file.
        flags: of its training; see `read_flags`.
        cache: folder of converted files.

    Raises:
        UserError: flags or file are unfit, or the network takes timesteps that diffusers' does not.
    """
    path, found = Path(source), read_flags(flags)
    steps, schedule = whole(found, "diffusion_steps"), found["noise_schedule"]
    if schedule not in ("linear", "cosine"):
        raise UserError(f"--flags: --noise_schedule {schedule}; allowed: linear, cosine")
    if truth(found, "rescale_timesteps") and steps != 1000:
        raise UserError(f"--flags: --diffusion_steps {steps} with --rescale_timesteps True; allowed: 1000, or False")
    if not path.is_file():
        raise UserError(f"{source}: no such file")
    facts = path.stat()
    folder = cache / f"openai-{settings_hash([str(path.absolute()), facts.st_size, facts.st_mtime_ns, found])[:16]}"
    if not folder.exists():
        convert(path, found, validate(BetaSchedule, {"name": schedule, "timesteps": steps}, path), folder)
    return PipelineFolder.at(folder, source)


def convert(path: Path, flags: Mapping[str, str], schedule: BetaSchedule, folder: Path) -> None:
    """Write the network and its scheduler as diffusers does. Raises UserError."""
    width = whole(flags, "num_head_channels")
    heads: dict[str, Any] = {"num_head_channels": width} if width > 0 else {"num_heads": whole(flags, "num_heads")}
    chosen = OpenAIFlags(**heads, use_new_attention_order=truth(flags, "use_new_attention_order"))
    try:
        net = load_openai(path, chosen, whole(flags, "image_size"), 0.0)
    except UserError as error:
        raise UserError(str(error).removeprefix("network.pretrained: ")) from None
    check_finite(net.state_dict(), str(path))
    scheduler = DDPMScheduler(
        num_train_timesteps=schedule.timesteps,
        trained_betas=schedule.tables().betas.tolist(),
        prediction_type="sample" if truth(flags, "predict_xstart") else "epsilon",
    )
    with appearing(folder) as building:
        net.save_pretrained(building / "unet")
        scheduler.save_pretrained(building / "scheduler")
        parts = {"unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
        write_json(building / INDEX, {"_class_name": "DDPMPipeline", **parts})
