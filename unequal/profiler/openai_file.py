"""OpenAI's checkpoints (improved-diffusion, guided-diffusion) as folders of a diffusers pipeline.

A `.pt` file holds tensors alone; the flags of its training say the rest. They are given as its own README states them.
"""

import shlex
from pathlib import Path
from typing import Any, Literal

from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from pydantic import BaseModel, ValidationError

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.backbones.unet2d.openai import load_openai
from unequal.models.weights import check_finite
from unequal.profiler.pipeline_folder import INDEX, PipelineFolder
from unequal.runtime.files import appearing, settings_hash, write_json
from unequal.settings.network import OpenAIFlags

SUFFIX = ".pt"


class Flags(BaseModel):
    """Flags that decide what a network answers and that no tensor shows, with the defaults of guided-diffusion."""

    image_size: int = 64
    num_heads: int = 4
    num_head_channels: int = -1
    use_new_attention_order: bool = False
    rescale_timesteps: bool = False
    diffusion_steps: int = 1000
    noise_schedule: Literal["linear", "cosine"] = "linear"
    predict_xstart: bool = False


#: Flags that tensors show, or that change no prediction.
SHOWN = [
    *("attention_resolutions", "channel_mult", "class_cond", "dropout", "learn_sigma", "num_channels"),
    *("num_heads_upsample", "num_res_blocks", "resblock_updown", "rescale_learned_sigmas", "sigma_small"),
    *("timestep_respacing", "use_checkpoint", "use_fp16", "use_kl", "use_scale_shift_norm"),
]


def read_flags(text: str) -> Flags:
    """Flags written as `--name value`. Raises UserError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--flags: {error}") from None
    names, values, known = words[::2], words[1::2], Flags.model_fields
    if len(names) != len(values):
        raise UserError(f"--flags: '{names[-1]}' has no value; allowed: --name value, as its training had them")
    if upsampling := [flag for flag in names if flag in ("--large_size", "--small_size")]:
        raise UserError(f"--flags: '{upsampling[0]}': of an upsampler, which studies/contribution measures")
    for flag in names:
        if not flag.startswith("--") or flag.removeprefix("--") not in (*known, *SHOWN):
            raise UserError(f"--flags: '{flag}' is unknown; allowed: {', '.join(f'--{name}' for name in known)}")
    given = {flag.removeprefix("--"): value for flag, value in zip(names, values, strict=True)}
    if given.get("diffusion_steps", "1000") != "1000" and "rescale_timesteps" not in given:
        raise UserError(
            "--flags: --rescale_timesteps is missing; by default True in improved-diffusion, False in guided"
        )
    try:
        return Flags.model_validate({name: value for name, value in given.items() if name in known})
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--flags: --{first['loc'][0]} {first['input']}: {first['msg']}") from None


def pipeline_of_file(source: str, flags: str, cache: Path) -> PipelineFolder:
    """Convert a `.pt` file once into a pipeline folder of the cache, and open it under the file's name.

    Raises UserError where flags or file are unfit, or the network takes timesteps that diffusers' does not.
    """
    path, given = Path(source), read_flags(flags)
    if given.rescale_timesteps and (steps := given.diffusion_steps) != 1000:
        raise UserError(f"--flags: --diffusion_steps {steps} with --rescale_timesteps True; allowed: 1000, or False")
    if not path.is_file():
        raise UserError(f"{source}: no such file")
    stat = path.stat()
    facts = [str(path.absolute()), stat.st_size, stat.st_mtime_ns, given.model_dump()]
    folder = cache / f"openai-{settings_hash(facts)[:16]}"
    if not folder.exists():
        convert(path, given, folder)
    return PipelineFolder.at(folder, source)


def convert(path: Path, flags: Flags, folder: Path) -> None:
    """Write the network and its scheduler as diffusers does. Raises UserError."""
    schedule = NoiseSchedule.named(flags.noise_schedule, flags.diffusion_steps)
    width = flags.num_head_channels
    heads: dict[str, Any] = {"num_head_channels": width} if width > 0 else {"num_heads": flags.num_heads}
    chosen = OpenAIFlags(**heads, use_new_attention_order=flags.use_new_attention_order)
    try:
        net = load_openai(path, chosen, flags.image_size, 0.0)
    except UserError as error:
        raise UserError(str(error).removeprefix("network.pretrained: ")) from None
    check_finite(net.state_dict(), str(path))
    scheduler = DDPMScheduler(
        num_train_timesteps=schedule.timesteps,
        trained_betas=schedule.betas.tolist(),
        prediction_type="sample" if flags.predict_xstart else "epsilon",
    )
    with appearing(folder) as building:
        net.save_pretrained(building / "unet")
        scheduler.save_pretrained(building / "scheduler")
        parts = {"unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
        write_json(building / INDEX, {"_class_name": "DDPMPipeline", **parts})
