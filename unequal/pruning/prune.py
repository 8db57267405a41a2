"""A pruning carried out: from a trained model to its pruned form as a model folder, and its figures."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from unequal.artifacts.timestep_files import NumberedGroup
from unequal.data.prepared import PreparedData, tensor_of
from unequal.models.folder import ModelRecord, load_model, save_model
from unequal.pruning.anatomy import Anatomy
from unequal.pruning.bank import BANK
from unequal.pruning.fit import PrunedNetwork, fit_to_limit
from unequal.pruning.importance import Target, ranked
from unequal.pruning.proxy import Decision, decide
from unequal.randomness import Stream, torch_seed
from unequal.settings.pruning import Proxy, Pruning
from unequal.workspace import Workspace


@dataclass(frozen=True)
class PruningJob:
    """A pruning to be carried out.

    Attributes:
        name: of the pruned model, below `artifacts/pruned`.
        method: how.
        net, base: the trained network, and its record.
        images: [N, C, H, W] uint8, the training set.
        group, groups: whose timesteps the pruned model is for and what it may cost, and of how many.
        seed: of everything random.
        labels: [N] int64 of the images, where they have any.
    """

    name: str
    method: Pruning
    net: nn.Module
    base: ModelRecord
    images: Tensor
    group: NumberedGroup
    groups: int
    seed: int
    labels: Tensor | None = None

    @classmethod
    def of(
        cls,
        models: str,
        method: Pruning,
        base: Path,
        data: PreparedData,
        *,
        group: NumberedGroup,
        groups: int,
        seed: int,
    ) -> Self:
        """The pruning of a base for one group of timesteps. Raises UserError where the base cannot be loaded, or is
        for other images.

        Args:
            models: name of the folder of all groups' models, below `artifacts/pruned`.
            method, group, groups, seed: as above.
            base: folder of the trained network.
            data: whose training set it is pruned by.
        """
        net, record = load_model(base)
        record.spec.check_images(data, record.name)
        return cls(
            name=f"{models}/group_{group.group}",
            method=method,
            net=net,
            base=record,
            images=tensor_of(data.train),
            group=group,
            groups=groups,
            seed=seed,
            labels=data.labels_of("train"),
        )

    @property
    def limit_macs(self) -> float:
        return self.group.limit_ratio * self.base.macs


def produce(workspace: Workspace, job: PruningJob) -> None:
    """Carry a pruning out and write the model folder and its figures; see `prune`."""
    write(workspace, job, *prune(workspace, job))


def prune(workspace: Workspace, job: PruningJob) -> tuple[PrunedNetwork, Decision | None]:
    """The pruned network, and how it was decided on, where a proxy did.

    Raises UserError where the limit is too low, or a decision maker cannot be asked.
    """
    job.net.to(workspace.device)
    target = target_of(job)
    anatomy = Anatomy(job.net)
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


def target_of(job: PruningJob) -> Target:
    """Target of a job."""
    timesteps = job.group.range
    seed = torch_seed(job.seed, Stream.PRUNING, *timesteps)
    return Target(
        job.net, job.base, job.images, range=timesteps, limit_macs=job.limit_macs, seed=seed, labels=job.labels
    )


def write(workspace: Workspace, job: PruningJob, pruned: PrunedNetwork, decision: Decision | None) -> None:
    """Write a pruned model, with the memory bank where there is one, and its figures."""
    folder = workspace.output(f"artifacts/pruned/{job.name}")
    folder.mkdir()
    if decision is not None:
        decision.bank.publish(folder)
        decision.log.publish(folder)
        workspace.table("memory_bank", decision.bank.rows())
        if decision.log.requests:
            workspace.table("llm_requests", [one.model_dump() for one in decision.log.requests])
    save_model(folder, pruned.net, pruned_record(job, pruned), pruned.removals)
    workspace.metrics(f"results/metrics/prune_{job.name.replace('/', '_')}.json", figures_of(job, pruned, decision))


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
