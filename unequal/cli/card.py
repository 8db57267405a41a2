"""The model card of an export: what the model is, how it was trained, what was measured, how it is loaded."""

from pathlib import Path

from unequal.artifacts.figures import computation
from unequal.errors import UserError
from unequal.files import read_json
from unequal.models.folder import ModelRecord
from unequal.report.formatting import with_prefix

CARD = "README.md"
FIGURES, TRAINED, DATA = Path("results/fid"), Path("results/metrics"), Path("artifacts/data/facts.json")


def loading_code(folder: Path) -> str:
    """Python that loads what was exported to a folder."""
    if (index := folder / "model_index.json").exists():
        name = read_json(index)["_class_name"]
        return (
            f"from diffusers import {name}\n\n"
            f'pipeline = {name}.from_pretrained("{folder}")\n'
            "images = pipeline(batch_size=4, num_inference_steps=50).images\n"
        )
    for part, name in (("unet", "UNet2DModel"), ("transformer", "DiTTransformer2DModel")):
        if (folder / part).exists():
            return (
                f"from diffusers import FlowMatchEulerDiscreteScheduler, {name}\n\n"
                f'network = {name}.from_pretrained("{folder}", subfolder="{part}")\n'
                f'scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained("{folder}", subfolder="scheduler")\n'
            )
    return (
        "import unequal\n\n"
        f'model = unequal.Ensemble.load("{folder}")\n'
        f"images = model.sample(4, range(model.schedule.timesteps - 1, -1, -20))  # uint8 [4, C, H, W]\n"
    )


def write_card(folder: Path, records: list[ModelRecord], name: str) -> None:
    """Write the card into an export.

    Args:
        folder: of the export.
        records: of the model, or of the experts that together are one.
        name: of the model in the run.
    """
    first, diffusers = records[0], (folder / "model_index.json").exists()
    spec, images = first.spec, sum(one.images_seen for one in records) + first.inherited_images
    flops = sum(one.training_flops for one in records) + first.inherited_flops
    experts = f", {len(records)} experts for a range of timesteps each" if len(records) > 1 else ""
    lines = [
        "---",
        f"library_name: {'diffusers' if diffusers else 'unequal'}",
        "pipeline_tag: unconditional-image-generation",
        "---",
        "",
        f"# {name}",
        "",
        f"A diffusion model of {' × '.join(map(str, spec.space.shape))} values{experts}, trained with unequal.",
        "",
        "## Load it",
        "",
        "```python",
        loading_code(folder).rstrip(),
        "```",
        "",
        "## How it was trained",
        "",
        "| | |",
        "|---|---|",
        f"| data | {data_line()} |",
        f"| network | {first.backbone}, {with_prefix(sum(one.parameters for one in records))} parameters |",
        f"| schedule, prediction | {spec.schedule.name}, {spec.timesteps} timesteps; {spec.prediction} |",
        f"| images seen, FLOPs | {with_prefix(images)}, {with_prefix(flops)} multiply–accumulates |",
        *computed(first.name),
        f"| seed | {first.seed} |",
        "",
        "## What was measured",
        "",
        *measured(name),
        "",
        "## Limits",
        "",
        "The model repeats what its training images show, their biases included. With few training images it may "
        "repeat whole images: compare samples with their nearest training images before you publish them. The licence "
        "of the training images may bind what is made of them.",
        "",
    ]
    (folder / CARD).write_text("\n".join(lines), encoding="utf-8")


def data_line() -> str:
    """Number and source of the images of the run, where its prepared data are at hand."""
    try:
        facts = read_json(DATA)
        return f"{facts['source']}, {facts['split']['train'][1]} training images, sha256 {facts['sha256'][:12]}"
    except (UserError, KeyError, TypeError):
        return "not at hand when this was exported"


def computed(name: str) -> list[str]:
    """The line on the precision of a training, where its figures are at hand."""
    try:
        way = computation(read_json(TRAINED / f"train_{name.replace('/', '_')}.json"))
    except (UserError, KeyError, TypeError):
        return []
    return [f"| computed in | {way} |"] if way else []


def measured(name: str) -> list[str]:
    """Lines with the run's scores and their conditions, as far as it has scored the model."""
    try:
        scores = read_json(FIGURES / f"{name}.json")
        sampling = scores["sampling"]
        return [
            f"- FID {scores['fid_mean']:.3g} against {scores['reference']}.",
            f"- Features: {scores['features']} of {scores['extractor']}; figures of other features do not compare.",
            f"- Samples: {scores['samples_per_seed']} a seed, {sampling['steps']} steps of "
            f"{sampling.get('solver', 'ddim')}.",
        ]
    except (UserError, KeyError, TypeError):
        return ["Nothing: this run has not scored it."]
