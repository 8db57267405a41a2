"""Merge the unpruned experts into one model of the base's size, by what each has learned since the base."""

import math

import torch

from unequal.errors import UserError
from unequal.models.folder import ModelRecord, load_model, load_pruning, load_record, save_model
from unequal.models.merging import moved, shares, task_vector
from unequal.pipeline.stage import Run, stage
from unequal.settings.merging import Merging
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    merging: Merging


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Merge the experts."""
    net, base = load_model(run.input("artifacts/models/base"))
    folder = run.input("artifacts/models/experts_unpruned")
    weights = shares(settings.merging.weights, load_record(folder / "group_0").groups or 1)
    start = net.state_dict()
    whole = torch.cat([one.flatten() for one in start.values()])
    change, lengths, records = torch.zeros_like(whole), [], []
    # One expert after the other, so that never more than one is in memory.
    for group, weight in enumerate(weights):
        expert, record = load_model(folder / f"group_{group}")
        if load_pruning(folder / f"group_{group}") is not None or record.parent != base.name:
            raise UserError(f"{folder}/group_{group}: no unpruned expert trained on from '{base.name}'")
        vector = task_vector(start, expert.state_dict())
        change += weight * vector
        lengths.append(float(vector.norm()))
        records.append(record)
    net.load_state_dict(moved(start, change))
    save_model(run.output("artifacts/models/merged"), net, merged_record(base, records))
    apart = math.hypot(*(weight * length for weight, length in zip(weights, lengths, strict=True)))
    figures = {
        "weights": weights,
        # Of each task vector, as a share of the base's weights.
        "relative_lengths": [length / float(whole.norm()) for length in lengths],
        # 1: what the experts have learned is orthogonal; √N: all have learned the same; less than 1: they disagree.
        "length_over_orthogonal": float(change.norm()) / apart,
    }
    run.metrics("results/metrics/merge_experts.json", figures)


def merged_record(base: ModelRecord, experts: list[ModelRecord]) -> ModelRecord:
    """The base's architecture and all timesteps; behind the weights stands what all experts have seen and cost."""
    return base.changed(
        name="merged",
        parent=base.name,
        steps=sum(expert.steps for expert in experts),
        images_seen=sum(expert.images_seen for expert in experts),
        training_flops=sum(expert.training_flops for expert in experts),
        inherited_images=base.total_images,
        inherited_flops=base.total_flops,
    )


if __name__ == "__main__":
    main()
