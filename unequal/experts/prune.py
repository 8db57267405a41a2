"""A pruning carried out: from a trained model to its pruned form as a model folder, and its figures."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from unequal.data.prepared import PreparedData, tensor_of
from unequal.experts.anatomy import Anatomy
from unequal.experts.bank import BANK
from unequal.experts.fit import PrunedNetwork, fit_to_limit
from unequal.experts.importance import Target, ranked
from unequal.experts.proxy import Decision, decide
from unequal.models.folder import ModelRecord, load_model, save_model
from unequal.randomness import Stream, torch_seed
from unequal.runtime.workspace import Workspace
from unequal.settings.pruning import Proxy, Pruning
from unequal.training.timestep_files import NumberedGroup


@dataclass(frozen=True)
class PruningJob:
    """A pruning of a base for one group of timesteps.

    Attributes:
        models: name of the folder of all groups' models, below `artifacts/pruned`.
        method: how.
        folder: of the trained network.
        data: whose training set it is pruned by.
        group, groups: whose timesteps the pruned model is for and what it may cost, and of how many.
        seed: of everything random.
    """

    models: str
    method: Pruning
    folder: Path
    data: PreparedData
    group: NumberedGroup
    groups: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.models}/group_{self.group.group}"

    @cached_property
    def loaded(self) -> tuple[nn.Module, ModelRecord]:
        """The trained network and its record. Raises UserError where it cannot be loaded, or is for other images."""
        net, record = load_model(self.folder)
        record.spec.check_images(self.data, record.name)
        return net, record

    @property
    def base(self) -> ModelRecord:
        return self.loaded[1]

    @property
    def limit_macs(self) -> float:
        return self.group.limit_ratio * self.base.macs


def produce(workspace: Workspace, job: PruningJob) -> None:
    """Carry a pruning out as `prune` does, and write model, figures and any memory bank."""
    pruned, decision = prune(workspace, job)
    folder = workspace.output(f"artifacts/pruned/{job.name}")
    folder.mkdir()
    if decision is not None:
        decision.bank.publish(folder)
        decision.log.publish(folder)
    save_model(folder, pruned.net, pruned_record(job, pruned), pruned.removals)
    workspace.metrics(f"results/metrics/prune_{job.name.replace('/', '_')}.json", figures_of(job, pruned, decision))


def prune(workspace: Workspace, job: PruningJob) -> tuple[PrunedNetwork, Decision | None]:
    """The pruned network, and how it was decided on, where a proxy did.

    Raises UserError where the base cannot be loaded or is for other images, the limit is too low, or a decision maker
    cannot be asked.
    """
    net, base = job.loaded
    timesteps = job.group.range
    target = Target(
        net.to(workspace.device),
        base,
        tensor_of(job.data.train),
        range=timesteps,
        limit_macs=job.limit_macs,
        seed=torch_seed(job.seed, Stream.PRUNING, *timesteps),
        labels=job.data.labels_of("train"),
    )
    anatomy = Anatomy(net)
    if isinstance(job.method, Proxy) and job.group.limit_ratio < 1:
        recorded = None if job.method.replay is None else bank_of(Path(job.method.replay), job.group.group)
        decision = decide(workspace, job.method, target, anatomy, recorded)
        return decision.pruned, decision
    # Where all may stay, there is nothing to decide.
    importance = job.method.ranking if isinstance(job.method, Proxy) else job.method
    return fit_to_limit(anatomy, ranked(importance, target, anatomy), target.limit_macs), None


def bank_of(recording: Path, group: int) -> Path:
    """The memory bank of a group in a recording: a file for any group, or a folder with a folder for each."""
    return recording / f"group_{group}" / BANK if recording.is_dir() else recording


def figures_of(job: PruningJob, pruned: PrunedNetwork, decision: Decision | None) -> dict[str, Any]:
    """Figures of a pruning."""
    return {
        "method": job.method.method,
        "limit_macs": job.limit_macs,
        "share_of_limit": pruned.cost.macs / job.limit_macs,
        "share_of_base": pruned.cost.macs / job.base.macs,
        **asdict(pruned.cost),
        **(decision.figures if decision else {}),
    }


def pruned_record(job: PruningJob, pruned: PrunedNetwork) -> ModelRecord:
    """The record of a pruned model before further training."""
    return job.base.changed(
        name=f"pruned/{job.name}",
        macs=pruned.cost.macs,
        macs_with_attention=pruned.cost.macs_with_attention,
        parameters=pruned.cost.parameters,
        first=job.group.first,
        last=job.group.last,
        stride=job.group.stride,
        group=job.group.group,
        groups=job.groups,
        parent=job.base.name,
        images_seen=0,
        training_flops=0,
        steps=0,
        inherited_images=job.base.total_images,
        inherited_flops=job.base.total_flops,
    )
