"""Python code that loads an export and samples it as for its FID, as far as diffusers can."""

from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import Any

from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.evaluation.profiles import read_losses
from unequal.models.folder import ModelRecord
from unequal.models.spec import ModelSpec
from unequal.runtime.files import read_json
from unequal.settings.evaluation import BY_PROFILE, Sampling
from unequal.settings.strict import PARAMS, read_yaml, validate

FIGURES, LOSSES, AUTOENCODER = Path("results/fid"), Path("artifacts/profiles/base.npz"), Path("artifacts/autoencoder")
#: Images that the code samples.
COUNT = 4
#: Code that samples from noise to images with a scheduler of diffusers, with the rounding of this library.
LOOP = """
x = {noise}
with torch.no_grad():
    for t in scheduler.timesteps:
        x = scheduler.step({answer}, t, x).prev_sample
images = ((x + 1) * 127.5).round().clamp(0, 255).byte()  # [{count}, C, H, W]
"""


def sampling_of(name: str, spec: ModelSpec) -> Sampling:
    """Sampling by which the run scored a model; that of params.yaml if the model has not been scored."""
    for path, read in ((FIGURES / f"{name}.json", read_json), (Path(PARAMS), read_yaml)):
        with suppress(UserError, KeyError, TypeError):
            return validate(Sampling, read(path)["sampling"], path)
    return Sampling(
        steps=min(50, spec.timesteps), spacing="uniform", eta=0.0, clip=spec.space.autoencoder is None, batch_size=COUNT
    )


def timesteps_of(sampling: Sampling, spec: ModelSpec) -> list[int]:
    """Timesteps of these settings. Raises UserError where the losses on which they depend are missing."""
    losses = read_losses(LOSSES).mean(1) if sampling.spacing in BY_PROFILE else None
    return spaced_timesteps(sampling.steps, spec.noise_schedule(), sampling.spacing, losses)


def loading_code(folder: Path, name: str, record: ModelRecord) -> str:
    """Python code for an export of the run's model of that name, with comments on what differs from the run.

    The record is that of the model, or of one of its experts.
    """
    sampling = sampling_of(name, record.spec)
    listed = fill(f"timesteps = {timesteps_of(sampling, record.spec)}", 100, subsequent_indent="    ")
    if (index := folder / "model_index.json").exists():
        kind = read_json(index)["_class_name"]
        if kind == "DiTPipeline":
            return of_classes(folder, sampling)
        return of_pipeline(folder, kind, record.spec, sampling, listed)
    write = of_flow if (folder / "scheduler").exists() else of_library
    return write(folder, record.spec, sampling, listed)


def of_pipeline(folder: Path, kind: str, spec: ModelSpec, sampling: Sampling, listed: str) -> str:
    """Code for a pipeline of images without classes: its network, and the scheduler that takes the run's steps.

    DDIM without noise is DPM-Solver++ of first order, and only the latter's scheduler accepts any list of timesteps.
    Thresholds of at most 1 clip predicted images.
    """
    options: dict[str, Any] = {"clip_sample": sampling.clip}
    if sampling.solver == "heun":
        scheduler = "HeunDiscreteScheduler"
    elif sampling.eta == 1:
        scheduler = "DDPMScheduler"
        options["variance_type"] = "learned_range" if sampling.variance == "learned" else "fixed_small"
    else:
        scheduler, order = "DPMSolverMultistepScheduler", 1 if sampling.solver == "ddim" else 2
        options = {"solver_order": order, "thresholding": sampling.clip}
    written = "".join(f", {key}={value!r}" for key, value in options.items())
    noise = f"torch.randn({COUNT}, {', '.join(map(str, spec.space.shape))})"
    answer = "pipeline.unet(scheduler.scale_model_input(x, t), t).sample"
    if spec.variance == "learned" and sampling.variance != "learned":
        answer += f"[:, :{spec.space.shape[0]}]"  # without the variance
    eta = f"# The run added noise by eta {sampling.eta:g}; this adds none.\n" if 0 < sampling.eta < 1 else ""
    head = (
        f"{eta}import torch\nfrom diffusers import {kind}, {scheduler}\n\n"
        f'pipeline = {kind}.from_pretrained("{folder}")\n'
        f"scheduler = {scheduler}.from_config(pipeline.scheduler.config{written})\n"
        f"{listed}\nscheduler.set_timesteps(timesteps=timesteps)\n"
    )
    return head + LOOP.format(noise=f"scheduler.init_noise_sigma * {noise}", answer=answer, count=COUNT)


def of_classes(folder: Path, sampling: Sampling) -> str:
    """Code for a DiTPipeline, which selects its timesteps itself."""
    scale = 1.0 if sampling.guidance is None else sampling.guidance.scale
    steps = sampling.steps if isinstance(sampling.steps, int) else len(sampling.steps)
    return (
        f"# The run sampled by {sampling.solver} at other timesteps than the pipeline chooses.\n"
        f'from diffusers import DiTPipeline\n\npipeline = DiTPipeline.from_pretrained("{folder}")\n'
        f"images = pipeline([207, 360], guidance_scale={scale}, num_inference_steps={steps}).images\n"
    )


def of_flow(folder: Path, spec: ModelSpec, sampling: Sampling, listed: str) -> str:
    """Code for the network of a flow and its scheduler, whose Euler steps equal those of DDIM."""
    part, kind = ("unet", "UNet2DModel") if (folder / "unet").exists() else ("transformer", "DiTTransformer2DModel")
    noise = f"torch.randn({COUNT}, {', '.join(map(str, spec.space.shape))})"
    differs = [
        *([f"steps by {sampling.solver}, this by Euler"] if sampling.solver != "ddim" else []),
        *(["clips predicted images"] if sampling.clip else []),
        *([f"adds noise by eta {sampling.eta:g}"] if sampling.eta else []),
    ]
    comment = f"# The run {', and '.join(differs)}.\n" if differs else ""
    # The code passes times before the shift, since with a number of steps the scheduler shifts its last time twice.
    head = (
        f"{comment}import torch\nfrom diffusers import FlowMatchEulerDiscreteScheduler, {kind}\n\n"
        f'network = {kind}.from_pretrained("{folder}", subfolder="{part}")\n'
        f'scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained("{folder}", subfolder="scheduler")\n'
        f"{listed}\nscheduler.set_timesteps(sigmas=[(t + 0.5) / {spec.timesteps} for t in timesteps])\n"
    )
    loop = LOOP.format(noise=noise, answer="network(x, t).sample", count=COUNT)
    return head + (loop if part == "unet" else "")


def of_library(folder: Path, spec: ModelSpec, sampling: Sampling, listed: str) -> str:
    """Code for a folder that this library loads."""
    lines = [f'model = unequal.Ensemble.load("{folder}")', listed]
    options = {"solver": "ddim", "eta": 0.0, "clip": True, "variance": "posterior"}
    way = [f"{key}={value!r}" for key, other in options.items() if (value := getattr(sampling, key)) != other]
    imports = "import unequal"
    if spec.space.autoencoder is not None:
        imports += "\nfrom pathlib import Path\n\nfrom unequal.models.autoencoder import load_autoencoder"
        lines.append(f'autoencoder = load_autoencoder(Path("{AUTOENCODER}"), model.device, {COUNT})')
        way.append("decode=autoencoder.decode")
    arguments = ", ".join([str(COUNT), "timesteps", *way])
    guided = "# The run guided its samples by labels; this does not.\n" if sampling.guidance else ""
    return f"{guided}{imports}\n\n" + "\n".join([*lines, f"images = model.sample({arguments})  # uint8\n"])
