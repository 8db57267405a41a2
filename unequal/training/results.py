"""Outputs of a training: the model folder, its curve and its figures."""

import json
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from unequal.models.backbones.backbone import backbone_of, count_cost, training_flops
from unequal.models.folder import AVERAGES, OBJECTIVE, SNAPSHOTS, ModelRecord, save_model
from unequal.runtime.devices import chosen_precision, is_compiled
from unequal.runtime.files import write_bytes, write_csv, write_npz
from unequal.runtime.workspace import Workspace
from unequal.timesteps.partition import stride_of
from unequal.training.checkpoint import Snapshot, Trained
from unequal.training.train import Outcome, loss_kind


def write_results(workspace: Workspace, outcome: Outcome) -> None:
    """Write the results of a training as the stage's outputs, by the main process."""
    if not workspace.leads:
        return
    name, trained = outcome.job.name, outcome.trained
    record = write_models(workspace.output(f"artifacts/models/{name}"), outcome)
    if trained.statistics:
        write_npz(workspace.output(f"artifacts/statistics/{name}.npz"), **trained.statistics)
    lines = curve(trained.log)
    flat = name.replace("/", "_")
    # Speeds differ from run to run: the log stays out of the model, whose content decides what is stale.
    shutil.copyfile(trained.log, workspace.output(f"artifacts/training/{flat}.jsonl"))
    if outcome.job.pictures:
        write_pictures(workspace.output(f"artifacts/progress/{flat}"), outcome)
    write_csv(workspace.output(f"results/training/{flat}.csv"), lines or [{"step": 0, "images_seen": 0, "loss": ""}])
    kind = loss_kind(outcome.job.recipe, outcome.start.scope)
    final = {"final_loss": {kind: lines[-1]["loss"]}} if lines else {}
    conditions = record.model_dump(exclude={"sha256"}, exclude_none=True)
    workspace.metrics(f"results/metrics/train_{flat}.json", final | conditions | computation(workspace, outcome))


def write_pictures(folder: Path, outcome: Outcome) -> None:
    """Write the grids of samples that were drawn during a training into a new folder, named by the images seen."""
    from unequal.data.grids import png_of

    folder.mkdir()
    for images, grid in outcome.trained.pictures.items():
        write_bytes(folder / f"{images:012d}.png", png_of(grid))


def computation(workspace: Workspace, outcome: Outcome) -> dict[str, Any]:
    """Record of what `auto` has chosen on the device of a training, where one took place."""
    if not outcome.trained.steps:
        return {}
    training, device = outcome.job.training, workspace.device
    calls = outcome.trained.steps * training.gradient_accumulation
    compiled = is_compiled(workspace.runtime.compile, device, calls)
    return {"precision": chosen_precision(training.precision, device), "compiled": compiled}


def write_models(folder: Path, outcome: Outcome) -> ModelRecord:
    """Save the result of a training as a model folder, with its snapshots in it; returns its record."""
    record, name, trained = trained_record(outcome), outcome.job.name, outcome.trained
    write_model(folder, outcome, outcome.start.net, record)
    write_state(folder, outcome, trained.end)
    write_averages(folder, trained.averages)
    if trained.learned:  # next to the model, as it is no part of it
        save_file(dict(trained.learned), folder / OBJECTIVE)
    for snapshot in trained.snapshots:
        net = deepcopy(outcome.start.net)
        net.load_state_dict(snapshot.weights())
        below = f"{SNAPSHOTS}/{snapshot.images_seen}"
        write_model(folder / below, outcome, net, trained_record(outcome, snapshot).changed(name=f"{name}/{below}"))
        write_state(folder / below, outcome, snapshot)
    return record


def write_model(folder: Path, outcome: Outcome, net: nn.Module, record: ModelRecord) -> None:
    """Save a network as a model folder, with what combines its heads where it has several."""
    heads = None if outcome.job.heads is None else outcome.job.heads(net)
    save_model(folder, net, record, outcome.start.removals, heads)


def write_state(folder: Path, outcome: Outcome, reached: Snapshot | None) -> None:
    """Save the training state next to a model, where the recipe asks for it and a step was taken."""
    if outcome.job.recipe.keep_state and reached is not None:
        reached.state().save(folder)


def write_averages(folder: Path, snapshots: Sequence[Snapshot]) -> None:
    """Copy into a model's folder the averages from which those of other widths are made, a file a point."""
    for snapshot in snapshots:
        target = folder / AVERAGES / f"{snapshot.steps}.safetensors"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(snapshot.file, target)


def trained_record(outcome: Outcome, trained: Trained | Snapshot | None = None) -> ModelRecord:
    """The conditions of a finished training, or of a point within it."""
    start, parent, reached = outcome.start, outcome.start.parent, trained or outcome.trained
    cost = count_cost(start.net)
    return ModelRecord(
        name=outcome.job.name,
        spec=start.spec,
        backbone=backbone_of(start.net).kind,
        seed=outcome.job.seed,
        steps=reached.steps,
        images_seen=reached.images_seen,
        training_flops=training_flops(cost.macs, reached.images_seen),
        macs=cost.macs,
        macs_with_attention=cost.macs_with_attention,
        parameters=cost.parameters,
        first=start.scope.range.first,
        last=start.scope.range.last,
        stride=stride_of(start.scope.range),
        parent=parent.name if parent else None,
        inherited_images=parent.total_images if parent else 0,
        inherited_flops=parent.total_flops if parent else 0,
        group=start.scope.group,
        groups=start.scope.groups,
        classes=class_names(outcome),
    )


def class_names(outcome: Outcome) -> tuple[str, ...] | None:
    """Names of the classes that a model has learned; None where it takes none."""
    names = outcome.job.data.facts["classes"]
    return None if names is None or outcome.start.spec.conditioning.embedded_classes is None else tuple(names)


def curve(log: Path) -> list[dict[str, Any]]:
    """The lines of a training log."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def costs_of(outcome: Outcome) -> dict[str, Any]:
    """Images, FLOPs and compute seconds of a training alone."""
    record, lines = trained_record(outcome), curve(outcome.trained.log)
    costs = {"images": record.images_seen, "training_flops": record.training_flops}
    return costs | {"compute_seconds": compute_seconds(lines)}


def compute_seconds(lines: Sequence[Mapping[str, Any]]) -> float:
    """Seconds of a GPU, or of processors, by the lines of a log, also of a resumed training."""
    return float(sum(line["compute_seconds"] for line in lines))
