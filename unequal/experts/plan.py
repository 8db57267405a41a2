"""TDC training by a plan: timesteps in groups, and for each a model that is pruned and trained (paper 3, Alg. 1).

What a group has come to is kept: a plan that was stopped goes on within the group where it was.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unequal.artifacts.partitions import NumberedGroup
from unequal.data.prepared import PreparedData
from unequal.experts.expert import train_expert
from unequal.files import read_json, write_json
from unequal.models.flops import images_affordable
from unequal.models.folder import ModelRecord, Removal, load_record, save_model
from unequal.pruning.bank import Candidate
from unequal.pruning.proxy import BANK
from unequal.pruning.prune import PruningJob, figures_of, prune, pruned_record
from unequal.settings.plan import Plan, SeveralGroups
from unequal.settings.recipe import RangeRecipe
from unequal.settings.training import Training
from unequal.timesteps.groups import TimestepGroup, timestep_groups
from unequal.timesteps.partition import TimestepRange
from unequal.training.results import curve, trained_record, write_model
from unequal.training.train import TrainingJob
from unequal.workspace.protocol import Nested, Workspace

#: What a group's folder holds when its pruning and its training are over.
PRUNED, MODEL = "pruned", "model"
FIGURES = "figures.json"


@dataclass(frozen=True)
class ExpertsJob:
    """A plan, and what it is carried out on.

    Attributes:
        plan: how models come about.
        name: of their folder below `artifacts/models`.
        base: folder of the base.
        data: the training images.
        training: settings that all trainings share.
        seed: of pruning, fresh weights, batches and noise.
        excess: [T], what the base loses beyond the floor; needed for groups of equal excess loss alone.
    """

    plan: Plan
    name: str
    base: Path
    data: PreparedData
    training: Training
    seed: int
    excess: np.ndarray | None = None


def carry_out(workspace: Workspace, asked: ExpertsJob) -> tuple[list[Path], list[dict[str, Any]]]:
    """Carry a plan out: a model folder and its figures for each group, from the data end to the noise end.

    Raises:
        UserError: groups that cannot be made, a limit out of reach, a recipe that does not fit the base.
    """
    groups = groups_of(asked, load_record(asked.base))
    parts = [Nested(workspace, f"group_{group.group}") for group in groups]
    found = [expert(part, asked, group, len(groups)) for part, group in zip(parts, groups, strict=True)]
    return [part.work / MODEL for part in parts], found


def groups_of(asked: ExpertsJob, base: ModelRecord) -> list[NumberedGroup]:
    """The groups of a plan, with their limits."""
    chosen, spec = asked.plan.groups, base.spec
    if isinstance(chosen, SeveralGroups):
        schedule = spec.noise_schedule()
        found = timestep_groups(chosen.kind, schedule, chosen.count, chosen.min_ratio, asked.excess)
    else:
        found = [TimestepGroup(TimestepRange(0, spec.timesteps - 1), chosen.ratio)]
    return [NumberedGroup.of(number, one) for number, one in enumerate(found)]


def expert(workspace: Workspace, asked: ExpertsJob, group: NumberedGroup, groups: int) -> dict[str, Any]:
    """Prune and train the model of a group, unless an earlier attempt has; its figures."""
    figures = workspace.work / FIGURES
    if not figures.exists():
        pruned, decided = pruned_base(workspace, asked, group, groups)
        began = time.perf_counter()
        trained = trained_model(workspace, asked, group, groups, pruned)
        took = {"training_seconds": time.perf_counter() - began}
        write_json(figures, group.model_dump() | trained | took | {"pruning": decided})
    found: dict[str, Any] = read_json(figures)
    return found


def pruned_base(
    workspace: Workspace, asked: ExpertsJob, group: NumberedGroup, groups: int
) -> tuple[Path, dict[str, Any] | None]:
    """Folder and figures of the base, pruned for a group; the base itself where the plan prunes nothing."""
    if asked.plan.pruning is None:
        return asked.base, None
    folder, figures = workspace.work / PRUNED, workspace.work / f"{PRUNED}.json"
    if not figures.exists():
        job = PruningJob.of(
            asked.name, asked.plan.pruning, asked.base, asked.data, group=group, groups=groups, seed=asked.seed
        )
        began = time.perf_counter()
        pruned, decision = prune(workspace, job)
        took = {"seconds": time.perf_counter() - began}
        save_whole(folder, pruned.net, pruned_record(job, pruned), pruned.removals)
        bank = [] if decision is None else [facts_of(one) for one in decision.bank.candidates]
        write_json(figures, figures_of(job, pruned, decision) | took | {"bank": bank})
    return folder, read_json(figures)


def facts_of(candidate: Candidate) -> dict[str, Any]:
    """What a report says of a candidate; its scheme stands in the memory bank's file."""
    return candidate.model_dump(include={"round", "candidate", "proposer", "loss"})


def save_whole(folder: Path, net: nn.Module, record: ModelRecord, removals: Sequence[Removal]) -> None:
    """Save a model folder that is there when it is whole."""
    unfinished = folder.with_name(f"unfinished-{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    save_model(unfinished, net, record, removals)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(unfinished, folder)


def trained_model(
    workspace: Workspace, asked: ExpertsJob, group: NumberedGroup, groups: int, pruned: Path
) -> dict[str, Any]:
    """Train a group's model and save it; what is worth telling of it."""
    recipe = recipe_for(asked.plan, load_record(pruned), pruned != asked.base, groups)
    job = TrainingJob(f"{asked.name}/group_{group.group}", recipe, asked.training, asked.data, asked.seed)
    outcome = train_expert(workspace, job, pruned, group, groups, fresh_weights=asked.plan.start == "scratch")
    record, made = trained_record(outcome), workspace.work / MODEL
    write_model(made, outcome, outcome.start.net, record)
    if (bank := workspace.work / BANK).exists():
        shutil.copyfile(bank, made / BANK)
    lines = curve(outcome.trained.log)
    facts = ("macs", "parameters", "images_seen", "training_flops", "inherited_images", "inherited_flops")
    return {name: getattr(record, name) for name in facts} | {"final_loss": lines[-1]["loss"] if lines else None}


def recipe_for(plan: Plan, parent: ModelRecord, is_pruned: bool, groups: int) -> RangeRecipe:
    """A plan's recipe; what starts from scratch also gets its part of the base's training FLOPs, in images."""
    if not plan.base_share:
        return plan.recipe
    spent = parent.inherited_flops if is_pruned else parent.total_flops
    more = images_affordable(plan.base_share * spent / groups, parent.macs)
    return plan.recipe.model_copy(update={"images": plan.recipe.images + more})


def totals(figures: Sequence[Mapping[str, Any]], timesteps: int) -> dict[str, Any]:
    """What a plan came to as a whole; costs of a step are means over the timesteps."""
    shares = [(one["last"] - one["first"] + 1) / timesteps for one in figures]
    searches = [one["pruning"] for one in figures if one["pruning"]]
    return {
        "limit_ratio": weighted(shares, figures, "limit_ratio"),
        "macs_a_step": weighted(shares, figures, "macs"),
        "parameters_a_step": weighted(shares, figures, "parameters"),
        "parameters": sum(one["parameters"] for one in figures),
        "images": figures[0]["inherited_images"] + sum(one["images_seen"] for one in figures),
        "training_flops": figures[0]["inherited_flops"] + sum(one["training_flops"] for one in figures),
        "search_flops": sum(one.get("search_flops", 0) for one in searches),
        "pruning_seconds": sum(one["seconds"] for one in searches),
        "training_seconds": sum(one["training_seconds"] for one in figures),
    }


def weighted(shares: Sequence[float], figures: Sequence[Mapping[str, Any]], name: str) -> float:
    """Mean of a figure over the timesteps."""
    return float(sum(share * one[name] for share, one in zip(shares, figures, strict=True)))
