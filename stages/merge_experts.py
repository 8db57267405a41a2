"""Merge the unpruned experts into one model of the base's size, by the change of each from the base."""

from pathlib import Path

from unequal.errors import UserError
from unequal.models.folder import ModelRecord, load_model, load_record, load_removals, save_model
from unequal.models.weights import merge, shares
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Merging
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    merging: Merging


def unpruned_record(folder: Path, base: ModelRecord) -> ModelRecord:
    """Read the record of an expert. Raises UserError where it is pruned, or not trained further from this base."""
    record = load_record(folder)
    if load_removals(folder) is not None or record.parent != base.name:
        raise UserError(f"{folder}: no unpruned expert trained on from '{base.name}'")
    return record


def merged_record(base: ModelRecord, experts: list[ModelRecord]) -> ModelRecord:
    """Make the record: the base's architecture, all timesteps, and the images and costs of all experts."""
    return base.changed(
        name="merged",
        parent=base.name,
        steps=sum(expert.steps for expert in experts),
        images_seen=sum(expert.images_seen for expert in experts),
        training_flops=sum(expert.training_flops for expert in experts),
        inherited_images=base.total_images,
        inherited_flops=base.total_flops,
    )


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Merge the experts."""
    net, base = load_model(run.input("artifacts/models/base"))
    folder = run.input("artifacts/models/experts_unpruned")
    weights = shares(settings.merging.weights, load_record(folder / "group_0").groups or 1)
    experts = [folder / f"group_{group}" for group in range(len(weights))]
    records = [unpruned_record(expert, base) for expert in experts]
    merged = merge(net.state_dict(), (load_model(expert)[0].state_dict() for expert in experts), weights)
    net.load_state_dict(merged.weights)
    save_model(run.output("artifacts/models/merged"), net, merged_record(base, records))
    figures = {
        "weights": weights,
        "relative_lengths": merged.relative_lengths,
        "length_over_orthogonal": merged.length_over_orthogonal,
    }
    run.metrics("results/metrics/merge_experts.json", figures)
