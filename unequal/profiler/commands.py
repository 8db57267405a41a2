"""`unequal profile` and `unequal suggest`: options and files. PyTorch is imported when a command runs."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unequal.errors import UserError, say

if TYPE_CHECKING:
    import torch

#: Names and a number of `unequal.profiler.measure`, whose import takes seconds, while help appears at once.
PRECISIONS, STRATA = ("fp32", "bf16", "fp16"), 100
PATH = click.Path(path_type=Path)
DOCUMENT, PAGE = "timesteps.json", "index.html"


@click.command(short_help="Measure what a diffusion model loses at each timestep.")
@click.argument("model")
@click.option("--train", type=PATH, required=True, help="Folder of training images.")
@click.option("--held-out", type=PATH, help="Folder of images that the model was not trained on.")
@click.option("--against", help="A second model, folder or Hub id, measured on the same draws.")
@click.option("--lora", type=PATH, help="A LoRA in safetensors; measures the model with it on the same draws.")
@click.option("--flags", help="Training flags of OpenAI's .pt file, as its README states them.")
@click.option("--out", type=PATH, default=Path("profile"), show_default=True, help="Folder of the results.")
@click.option(
    "--draws", type=click.IntRange(2), default=64, show_default=True, help="Pairs of image and noise for each timestep."
)
@click.option(
    "--timesteps",
    type=click.IntRange(2),
    help=f"Timesteps to measure, denser where log-SNR falls fast.  [default: all, or {STRATA} of more]",
)
@click.option("--batch-size", type=click.IntRange(1), default=16, show_default=True, help="Draws in a batch.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of images and noise.")
@click.option("--resolution", type=click.IntRange(4), help="Size of images in pixels.  [default: the model's]")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1 …; auto: cuda where there is one.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True, help="Precision of networks."
)
@click.option(
    "--guidance", type=float, default=1.0, show_default=True, help="Guidance scale for networks distilled for guidance."
)
def profile(device: str, out: Path, **options: Any) -> None:
    """Measure what MODEL loses at each timestep: a folder of a diffusers pipeline, a Hub id owner/name[@revision],
    or a .pt file of improved-diffusion or guided-diffusion with its flags.

    Writes OUT/index.html and OUT/timesteps.json. After a stop, the same command continues.
    """
    from unequal.profiler.measure import ProfileConfig
    from unequal.profiler.measure import profile as measure
    from unequal.profiler.page import page
    from unequal.runtime.files import write_bytes

    if not math.isfinite(options["guidance"]):
        raise UserError(f"--guidance {options['guidance']}: not a finite number")
    if options["against"] and options["lora"]:
        raise UserError("--against and --lora: one at a time")
    if options["flags"] is not None and not any(str(options[name]).endswith(".pt") for name in ("model", "against")):
        raise UserError("--flags: of a .pt file alone; a pipeline's folder has its own configuration")
    config = ProfileConfig(device=chosen_device(device), out=placed(out), **options)
    result = measure(config)
    content = page(result, config)
    result.document.write(out / DOCUMENT)
    write_bytes(out / PAGE, content.encode())
    say(f"{out / PAGE}, {out / DOCUMENT}")


def placed(out: Path) -> Path:
    """The folder of the results, which is made with the first of them. Raises UserError where it cannot be."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: a file; allowed: a folder, or a name that is free")
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UserError(f"--out {out}: nothing can be written to {there}")
    return out


def chosen_device(name: str) -> "torch.device":
    """The device of that name, on which the same draws give the same bits. Raises UserError where there is none."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: no device; allowed: auto, cpu, cuda, cuda:1 …") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: not supported; allowed: auto, cpu, cuda, cuda:1 …")
    if device.type == "cuda":
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise UserError(f"--device {name}: {count or 'no'} CUDA devices are here; allowed: cpu")
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
    return device


FORMS = ("table", "python", "diffusers", "kohya")
#: As they are known to the mathematics, which takes seconds to import, and help shall come at once.
SPACES = ("epsilon", "v", "x0", "velocity")
DENSITIES = ("least_variance", "slots")
HALVES = ("timesteps", "log_snr")


@click.command(context_settings={"show_default": True}, short_help="Suggest settings from measured losses.")
@click.argument("file", type=PATH)
@click.option("--as", "form", type=click.Choice(FORMS), default=FORMS[0], help="Format of the output.")
@click.option("--slots", default=10, type=click.IntRange(2), help="Number of ranges of equal loss.")
@click.option("--steps", default=20, type=click.IntRange(2), help="Sampling steps.")
@click.option(
    "--space", type=click.Choice(SPACES), default=SPACES[0], help="Space of the squared error that slots share equally."
)
@click.option(
    "--density", type=click.Choice(DENSITIES), default=DENSITIES[0], help="Density that a named one should approximate."
)
@click.option(
    "--halves", type=click.Choice(HALVES), default=HALVES[0], help="Axis over which two experts share the loss equally."
)
@click.option("--json", "facts", type=PATH, help="File for all figures, including the whole density.")
def suggest(file: Path, form: str, facts: Path | None, **asked: Any) -> None:
    """Suggest settings from the losses in FILE, a timesteps.json, each with its measured reason and caveat."""
    # Imported here, so that help appears at once.
    from unequal.profiler import suggest as writing
    from unequal.profiler import trainer_flags
    from unequal.profiler.suggestion import Options

    document = writing.read(file)
    suggestions = writing.suggested(document, Options(**asked), file)
    match form:
        case "python":
            text = writing.python(suggestions, file)
        case "diffusers" | "kohya":
            text = trainer_flags.text(suggestions, form)
        case _:
            text = writing.table(suggestions, document, file)
    if facts:
        writing.write_figures(suggestions, document, facts)
    say(*text.split("\n"))
