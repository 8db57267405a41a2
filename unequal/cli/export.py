"""Models in further forms: as a folder that diffusers or this library loads, or with an average of another width."""

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
from torch import Tensor

from unequal.cli.loading import AUTOENCODER, FIGURES, loading_code
from unequal.errors import UserError, say
from unequal.models.autoencoder import identity
from unequal.models.backbones.backbone import Unexportable, backbone_of
from unequal.models.class_names import write_class_names
from unequal.models.folder import (
    AVERAGES,
    PRUNING,
    RECORD,
    SNAPSHOTS,
    STATE,
    ModelRecord,
    load_record,
    load_removals,
    save_model,
)
from unequal.models.pruned import load_any_model
from unequal.report.figures import computation
from unequal.report.formatting import with_prefix
from unequal.report.results import sampling_condition
from unequal.runtime.files import appearing, json_or_none, read_json, refuse_existing
from unequal.runtime.tensor_files import read_saved
from unequal.sampling.ensemble import Ensemble
from unequal.settings.schedule import FlowSchedule
from unequal.training.averaging import KEPT_WIDTHS, PowerProfile, combination, exponent_of, relative_error
from unequal.training.checkpoint import strip_prefix

#: Largest root-mean-square error of an average's profile, relative to the profile.
MOST_MISSED = 0.1
TAKE, TRAINED = Path("results/take.json"), Path("results/metrics")
MODELS, DATA = Path("artifacts/models"), Path("artifacts/data/facts.json")
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


def export_model(source: Path, target: Path) -> None:
    """Write one model as a pipeline of diffusers or, if diffusers cannot represent it, as a copy of its folder."""
    net, record = load_any_model(source)
    try:
        if (source / PRUNING).exists():
            raise Unexportable("a pruned model")
        spec = record.spec
        of_flow, velocity = isinstance(spec.schedule, FlowSchedule), spec.prediction == "velocity"
        if velocity != of_flow and spec.prediction != "mixed":  # diffusers cannot sample it
            raise Unexportable(f"a model that predicts '{spec.prediction}' on schedule '{spec.schedule.name}'")
        with appearing(target) as place:
            backbone_of(net).export(net, record.spec, place, autoencoder_of(record))
            if record.classes is not None:
                write_class_names(place, record.classes)
    except Unexportable as what:
        with appearing(target) as place:
            shutil.copytree(source, place, ignore=shutil.ignore_patterns(SNAPSHOTS, AVERAGES, STATE))
        say(f"{target}: diffusers cannot load {what}; unequal.Ensemble.load does")


def autoencoder_of(record: ModelRecord) -> Path | None:
    """Folder of a model's autoencoder; None: the model works on pixels, or the autoencoder is missing."""
    name = record.spec.space.autoencoder
    return AUTOENCODER if name is not None and AUTOENCODER.exists() and identity(AUTOENCODER) == name else None


def export(name: str, target: Path) -> None:
    """Export a model or a set of experts, `best` or by its name in params.yaml's `scored_models`, with a model card."""
    name = best() if name == "best" else name
    source = MODELS / name
    if not source.exists():
        raise UserError(f"{source}: no such model; there are: {trained()}")
    refuse_existing(target)
    if (source / RECORD).exists():
        export_model(source, target)
        records = [load_record(source)]
    else:
        records = [expert.record for expert in Ensemble.load(source).experts]  # of those that belong together
        with appearing(target) as place:
            for record in records:
                shutil.copytree(source / f"group_{record.group}", place / f"group_{record.group}")
    (target / "README.md").write_text(card(target, records, name), encoding="utf-8")
    say(f"{target}: {', '.join(sorted(path.name for path in target.iterdir()))}", "To load it:", "")
    say(*indent(loading_code(target, name, records[0]), "    ").splitlines())


def trained() -> str:
    """Names of the existing models, or the command that trains one."""
    names = ", ".join(sorted(path.name for path in MODELS.glob("*")))
    return names or "none; `dvc repro train_base` trains the base alone, and `dvc stage list` names the other stages"


def best() -> str:
    """Name of the model that the page of the last run recommends. Raises UserError."""
    if not TAKE.exists():
        raise UserError(
            f"{TAKE}: missing; `best` needs the scores of a whole run. Or name a model; there are: {trained()}"
        )
    match read_json(TAKE):
        case {"model": str(name)}:
            return name
    raise UserError(f"{TAKE}: names no model to take; make it again")


def card(folder: Path, records: list[ModelRecord], name: str) -> str:
    """Model card of an export of the run's model of that name, with its record, or those of a set's experts."""
    first, spec = records[0], records[0].spec
    images = sum(record.images_seen for record in records) + first.inherited_images
    flops = sum(record.training_flops for record in records) + first.inherited_flops
    data, training, scores = (
        known(DATA),
        known(TRAINED / f"train_{first.name.replace('/', '_')}.json"),
        known(FIGURES / f"{name}.json"),
    )
    facts = {
        "network": f"{first.backbone}, {with_prefix(sum(record.parameters for record in records))} parameters",
        "schedule, prediction": f"{spec.schedule.name}, {spec.timesteps} timesteps; {spec.prediction}",
        "images seen, FLOPs": f"{with_prefix(images)}, {with_prefix(flops)} multiply–accumulates",
        "seed": str(first.seed),
    }
    with suppress(KeyError, TypeError):
        count, digest = data["split"]["train"][1], data["sha256"][:12]
        facts["data"] = f"{data['source']}, {count:,} training images, sha256 {digest}"
    with suppress(KeyError, TypeError):
        facts["computed in"] = computation(training)
    measured = ["Nothing: this run has not scored it."]
    with suppress(KeyError, TypeError):
        measured = [
            f"- FID {scores['fid_mean']:.3g} against {scores['reference']}.",
            f"- Features: {scores['features']} of {scores['extractor']}; figures of other features do not compare.",
            f"- Samples: {scores['samples_per_seed']} a seed, by {sampling_condition(scores['sampling'])}.",
        ]
    return CARD_TEXT.format(
        library="diffusers" if (folder / "model_index.json").exists() else "unequal",
        name=name,
        shape=" × ".join(map(str, spec.space.shape)),
        experts=f", {len(records)} experts for a range of timesteps each" if len(records) > 1 else "",
        # The code runs in the folder that holds the export, so it uses the export's name alone.
        code=loading_code(folder, name, first).rstrip().replace(f'"{folder}"', f'"{folder.name}"'),
        training="\n".join(f"| {what} | {value} |" for what, value in facts.items() if value),
        measured="\n".join(measured),
    )


def known(path: Path) -> dict[str, Any]:
    """Facts in a file; empty where it is missing or damaged."""
    content = json_or_none(path)
    return content if isinstance(content, dict) else {}


def average(model: Path, width: float, target: Path) -> float:
    """Write a model of another relative width's average (see `unequal.training.averaging`) into a new folder.

    Return the error of the average's profile, relative to the profile.

    Raises:
        UserError: there are no averages, one is not named by its step, the width cannot be made from them, or the model
            has three heads.
    """
    refuse_existing(target)
    net, record = load_any_model(model)
    if record.spec.prediction == "mixed":
        raise UserError(f"{model}: has three heads, which were combined by errors of its own average; train it anew")
    files = sorted((model / AVERAGES).glob("*.safetensors"), key=lambda path: (len(path.stem), path.stem))
    for path in files:
        if not re.fullmatch(r"[0-9]{1,18}", path.stem):
            raise UserError(f"{path}: no step in its name; allowed: the names that training gives, as 5000.safetensors")
    if not files:
        raise UserError(f"{model}: keeps no averages; set keep in training.average (kind power), and train it again")
    profiles = [PowerProfile(int(path.stem), exponent_of(kept)) for path in files for kept in KEPT_WIDTHS]
    target_profile = PowerProfile(record.steps, exponent_of(width))
    weights = combination(profiles, target_profile)
    if (share := relative_error(profiles, target_profile, weights)) > MOST_MISSED:
        raise UserError(
            f"{model}: {len(files)} stored snapshot(s) miss {share:.0%} of an average of width {width:g}; "
            f"at most {MOST_MISSED:.0%}; store more, or take a width nearer to {' and '.join(map(str, KEPT_WIDTHS))}"
        )
    net.load_state_dict(net.state_dict() | combined(files, weights))
    with appearing(target) as place:
        save_model(place, net, record, load_removals(model))
    return share


def combined(files: Iterable[Path], weights: np.ndarray) -> dict[str, Tensor]:
    """Sum of averages of all widths in files, times weights [averages], by parameter. Raises UserError for damage."""
    total: dict[str, Tensor] = {}
    shares = iter(weights.tolist())
    for path in files:
        tensors = read_saved(path, "make the model again").tensors
        for width in KEPT_WIDTHS:
            share = next(shares)
            for name, value in strip_prefix(f"width.{width}.", tensors).items():
                total[name] = share * value.double() + total.get(name, 0)
    return total
