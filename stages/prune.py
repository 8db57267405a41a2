"""Prune the base to the FLOPs limit of one group of timesteps."""

from dataclasses import asdict, replace

import torch

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.models.artifact import load_model, save_model
from unequal.pipeline.stage import Run, stage
from unequal.pruning.fit import fit_to_limit
from unequal.pruning.gradients import accumulate_gradients
from unequal.pruning.units import importance_of, prunable_units
from unequal.randomness import Stream, torch_seed
from unequal.ranges import read_groups
from unequal.settings.pruning import Pruning
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    pruning: Pruning


@stage(Settings)
def main(run: Run, settings: Settings, group: int) -> None:
    """Prune the base for a group, counted from 0 at the data end."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    groups = read_groups(run.input("artifacts/groups.json"))
    torch.nn.Module.to(net, run.device)
    chosen = groups.of(group)
    if settings.pruning.method == "taylor":
        accumulate_gradients(net, base, tensor_of(data.train), settings.pruning.images, settings.seed)
    importance = importance_of(settings.pruning.method, torch_seed(settings.seed, Stream.PRUNING, group))
    limit = chosen.limit_ratio * base.macs
    pruned = fit_to_limit(net, prunable_units(net, importance), limit)
    record = replace(
        base,
        name=f"pruned/group_{group}",
        macs=pruned.cost.macs,
        macs_with_attention=pruned.cost.macs_with_attention,
        parameters=pruned.cost.parameters,
        first=chosen.first,
        last=chosen.last,
        group=group,
        groups=len(groups.groups),
        parent=base.name,
        images_seen=0,
        training_flops=0,
        steps=0,
        inherited_images=base.total_images,
        inherited_flops=base.total_flops,
    )
    save_model(run.output(f"artifacts/pruned/group_{group}"), pruned.net, record, pruned.removals)
    run.metrics(
        f"results/metrics/prune_group_{group}.json",
        {
            "method": settings.pruning.method,
            "limit_macs": limit,
            "share_of_limit": pruned.cost.macs / limit,
            "share_of_base": pruned.cost.macs / base.macs,
            **asdict(pruned.cost),
        },
    )


if __name__ == "__main__":
    main()
