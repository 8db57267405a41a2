"""Model card of an export: the model, its training, its measurements, and how to load it."""

from pathlib import Path

from unequal.cli.loading import FIGURES, loading_code
from unequal.errors import UserError
from unequal.models.folder import ModelRecord
from unequal.report.figures import computation
from unequal.report.formatting import with_prefix
from unequal.report.results import sampling_condition
from unequal.runtime.files import read_json

CARD = "README.md"
TRAINED, DATA = Path("results/metrics"), Path("artifacts/data/facts.json")
CARD_TEXT = """\
---
library_name: {library}
pipeline_tag: unconditional-image-generation
---

# {name}

A diffusion model of {shape} values{experts}, trained with unequal.

## Load it

```python
{code}
```

## How it was trained

| | |
|---|---|
{training}

## What was measured

{measured}

## Limits

The model repeats what its training images show, their biases included. With few training images it may repeat whole
images: compare samples with their nearest training images before you publish them. The licence of the training images
may bind what is made of them.
"""


def write_card(folder: Path, records: list[ModelRecord], name: str) -> None:
    """Write the card into the export of the run's model of that name, with its record, or those of a set's experts."""
    experts = f", {len(records)} experts for a range of timesteps each" if len(records) > 1 else ""
    card = CARD_TEXT.format(
        library="diffusers" if (folder / "model_index.json").exists() else "unequal",
        name=name,
        shape=" × ".join(map(str, records[0].spec.space.shape)),
        experts=experts,
        # The code runs in the folder that holds the export, so it uses the export's name alone.
        code=loading_code(folder, name, records[0]).rstrip().replace(f'"{folder}"', f'"{folder.name}"'),
        training="\n".join(f"| {what} | {value} |" for what, value in training_facts(records).items()),
        measured="\n".join(measured(name)),
    )
    (folder / CARD).write_text(card, encoding="utf-8")


def training_facts(records: list[ModelRecord]) -> dict[str, str]:
    """Facts on the training of a model, name → text."""
    first, images = records[0], sum(one.images_seen for one in records) + records[0].inherited_images
    spec, flops = first.spec, sum(one.training_flops for one in records) + first.inherited_flops
    return {
        "data": data_line(),
        "network": f"{first.backbone}, {with_prefix(sum(one.parameters for one in records))} parameters",
        "schedule, prediction": f"{spec.schedule.name}, {spec.timesteps} timesteps; {spec.prediction}",
        "images seen, FLOPs": f"{with_prefix(images)}, {with_prefix(flops)} multiply–accumulates",
        **computed(first.name),
        "seed": str(first.seed),
    }


def data_line() -> str:
    """Line with number and source of the run's images, if its prepared data are available."""
    try:
        facts = read_json(DATA)
        return f"{facts['source']}, {facts['split']['train'][1]:,} training images, sha256 {facts['sha256'][:12]}"
    except (UserError, KeyError, TypeError):
        return "not at hand when this was exported"


def computed(name: str) -> dict[str, str]:
    """Precision of a training, if its figures are available."""
    try:
        way = computation(read_json(TRAINED / f"train_{name.replace('/', '_')}.json"))
    except (UserError, KeyError, TypeError):
        return {}
    return {"computed in": way} if way else {}


def measured(name: str) -> list[str]:
    """Lines with the run's scores and their conditions, if the run has scored the model."""
    try:
        scores = read_json(FIGURES / f"{name}.json")
        return [
            f"- FID {scores['fid_mean']:.3g} against {scores['reference']}.",
            f"- Features: {scores['features']} of {scores['extractor']}; figures of other features do not compare.",
            f"- Samples: {scores['samples_per_seed']} a seed, by {sampling_condition(scores['sampling'])}.",
        ]
    except (UserError, KeyError, TypeError):
        return ["Nothing: this run has not scored it."]
