"""A pruning carried out: from a trained model to its pruned form as a model folder, and its figures."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.models.artifact import ModelRecord, save_model
from unequal.pruning.anatomy import Anatomy
from unequal.pruning.fit import PrunedNetwork, fit_to_limit
from unequal.pruning.importance import ranked
from unequal.pruning.target import Target
from unequal.randomness import Stream, torch_seed
from unequal.ranges import Group
from unequal.settings.pruning import Pruning


class Place(Protocol):
    """Where a pruning happens: a device and outputs."""

    @property
    def device(self) -> torch.device: ...
    def output(self, path: str) -> Path: ...
    def metrics(self, path: str, content: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Job:
    """A pruning to be carried out.

    Attributes:
        name: of the pruned model, below `artifacts/pruned`.
        method: how.
        net, base: the trained network, and its record.
        images: [N, C, H, W] uint8, the training set.
        limit_ratio: largest multiply–accumulates as a share of the base's.
        group: whose timesteps the pruned model is for, of `groups`; None: all.
        seed: of everything random.
    """

    name: str
    method: Pruning
    net: UNet2DModel
    base: ModelRecord
    images: Tensor
    limit_ratio: float
    seed: int
    group: Group | None = None
    groups: int | None = None

    @property
    def range(self) -> tuple[int, int]:
        """First and last timestep."""
        return (self.group.first, self.group.last) if self.group else (self.base.first, self.base.last)


def produce(place: Place, job: Job) -> None:
    """Carry a pruning out and write the model folder and its figures. Raises UserError where the limit is too low."""
    torch.nn.Module.to(job.net, place.device)
    first, last = job.range
    seed = torch_seed(job.seed, Stream.PRUNING, first, last)
    limit = job.limit_ratio * job.base.macs
    target = Target(job.net, job.base, job.images, first, last, limit, seed)
    anatomy = Anatomy(job.net)
    pruned = fit_to_limit(anatomy, ranked(job.method, target, anatomy), limit)
    record = record_of(job, pruned)
    save_model(place.output(f"artifacts/pruned/{job.name}"), pruned.net, record, pruned.removals)
    figures = {
        "method": job.method.method,
        "limit_macs": limit,
        "share_of_limit": pruned.cost.macs / limit,
        "share_of_base": pruned.cost.macs / job.base.macs,
        **asdict(pruned.cost),
    }
    place.metrics(f"results/metrics/prune_{job.name.replace('/', '_')}.json", figures)


def record_of(job: Job, pruned: PrunedNetwork) -> ModelRecord:
    """The record of a pruned model that has not been trained on yet."""
    first, last = job.range
    return replace(
        job.base,
        name=f"pruned/{job.name}",
        macs=pruned.cost.macs,
        macs_with_attention=pruned.cost.macs_with_attention,
        parameters=pruned.cost.parameters,
        first=first,
        last=last,
        group=job.group.group if job.group else None,
        groups=job.groups,
        parent=job.base.name,
        images_seen=0,
        training_flops=0,
        steps=0,
        inherited_images=job.base.total_images,
        inherited_flops=job.base.total_flops,
    )
