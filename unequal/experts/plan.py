"""TDC training by a plan: timesteps in groups, and for each a model that is pruned and trained (paper 3, Alg. 1).

The results of a group are stored: a plan that was stopped resumes within the group where it was. The model of a group
is the base or its pruned form, trained further within the group.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.experts.allocation import Point, Trace, by_gain, measured_to_choose, shared_out, shares
from unequal.experts.bank import Bank
from unequal.experts.held_out import CHOICE, REPORT, HeldOut
from unequal.experts.llm import RequestLog
from unequal.experts.prune import PruningJob, figures_of, prune, pruned_record
from unequal.models.backbones.backbone import FORWARDS_PER_STEP, images_affordable
from unequal.models.folder import SNAPSHOTS, ModelRecord, load_record, save_model
from unequal.models.pruned import load_any_model
from unequal.randomness import torch_seed
from unequal.runtime.files import appearing, content_hash, read_facts, remove, write_facts
from unequal.runtime.workspace import Workspace, nested
from unequal.settings.groups import ByGain, Plan
from unequal.settings.training import Training
from unequal.timesteps.groups import TimestepGroup, planned_groups
from unequal.timesteps.partition import timesteps_of
from unequal.training.initialisation import Scope, Start
from unequal.training.results import curve, trained_record, write_model
from unequal.training.timestep_files import NumberedGroup
from unequal.training.train import Outcome, TrainingJob, train_further

#: Models in a group's folder after pruning, and after training.
PRUNED, MODEL = "pruned", "model"
#: Measurements of all groups from which their budgets follow.
TRACE = "allocation.json"


@dataclass(frozen=True)
class ExpertsJob:
    """A plan, and what it is carried out on.

    Attributes:
        plan: how models come about.
        name: of their folder below `artifacts/models`.
        base: folder of the base, with its snapshots where the plan starts from one.
        data: the training images, and the held-out ones where models are measured.
        training: settings that all trainings share.
        seed: of pruning, fresh weights, batches and noise.
        excess: [T], the base's loss beyond the optimal denoiser's; needed for groups of equal excess loss alone.
    """

    plan: Plan
    name: str
    base: Path
    data: PreparedData
    training: Training
    seed: int
    excess: np.ndarray | None = None

    @property
    def start(self) -> Path:
        """Folder of the base at the point from which the plan starts.

        Raises UserError where that snapshot is missing. It may hold a few images more, as batches are whole.
        """
        asked = self.plan.from_images
        if asked is None:
            return self.base
        stored = sorted(int(folder.name) for folder in (self.base / SNAPSHOTS).glob("*"))
        found = [images for images in stored if asked <= images < asked + self.training.batch_size]
        if not found:
            raise UserError(f"from_images: {asked}; {self.base} has snapshots after {stored} images")
        return self.base / SNAPSHOTS / str(found[0])


def carry_out(workspace: Workspace, asked: ExpertsJob) -> tuple[list[Path], list[dict[str, Any]]]:
    """Carry a plan out: a model folder and its figures for each group, from the data end to the noise end.

    Raises:
        UserError: groups that cannot be made, a limit out of reach, a recipe that does not fit the base.
    """
    start = asked.start
    groups = groups_of(asked, load_record(start))
    trace = Trace(workspace.work / TRACE)
    parts = [Part(nested(workspace, f"group_{one.group}"), asked, start, one, len(groups), trace) for one in groups]
    found = [part.figures(images) for part, images in zip(parts, allocated(asked, parts), strict=True)]
    return [part.model for part in parts], found


def groups_of(asked: ExpertsJob, base: ModelRecord) -> list[NumberedGroup]:
    """The groups of a plan, with their limits."""
    found = planned_groups(asked.plan.groups, base.spec.noise_schedule(), asked.excess)
    return [NumberedGroup.of(number, one) for number, one in enumerate(found)]


def allocated(asked: ExpertsJob, parts: "Sequence[Part]") -> list[int]:
    """Images of each group's training, of the plan's. Those that are measured to choose by are paid for first.

    A forward pass alone costs a third of an image in training, see `FORWARDS_PER_STEP`.
    """
    plan, chosen = asked.plan, asked.plan.allocation
    images = plan.recipe.images - math.ceil(measured_to_choose(plan, len(parts)) / FORWARDS_PER_STEP)
    if not isinstance(chosen, ByGain):
        return shared_out(images, shares(plan, [TimestepGroup(part.group.range, 1.0) for part in parts]))
    falling = 0.0 if plan.recipe.optimizer.decay == "constant" else plan.recipe.optimizer.decay_share
    before = by_gain(
        chosen,
        int((1 - falling) * images),
        len(parts),
        asked.training.batch_size,
        parts[0].trace,
        lambda group, given: parts[group].measured(given),
    )
    return [int(given / (1 - falling)) for given in before]


@dataclass(frozen=True)
class Part:
    """A group of a plan on its way.

    Attributes:
        workspace: of its own, within the plan's.
        asked: the plan.
        start: folder of the base.
        group, groups: which group, of how many.
        trace: of all groups, where budgets are settled by what they gain.
    """

    workspace: Workspace
    asked: ExpertsJob
    start: Path
    group: NumberedGroup
    groups: int
    trace: Trace

    @property
    def model(self) -> Path:
        return self.workspace.work / MODEL

    def figures(self, images: int) -> dict[str, Any]:
        """Prune and train the group's model, unless an earlier attempt has; its figures."""
        if (known := figures_with(self.model)) is not None:
            return known
        _, decided = self.pruned
        began = time.perf_counter()
        outcome = self.trained(images)
        seconds = time.perf_counter() - began + sum(point.seconds for point in self.points)
        figures = self.save_and_summarize(outcome) | {"training_seconds": seconds, "pruning": decided}
        return write_figures(self.model, figures)

    @property
    def points(self) -> list[Point]:
        return self.trace.of(self.group.group)

    @cached_property
    def pruned(self) -> tuple[Path, dict[str, Any] | None]:
        """Folder and figures of the base, pruned for the group; the base itself where the plan prunes nothing."""
        asked, group = self.asked, self.group
        if asked.plan.pruning is None:
            return self.start, None
        folder = self.workspace.work / PRUNED
        if (known := figures_with(folder)) is not None:
            return folder, known
        job = PruningJob(asked.name, asked.plan.pruning, self.start, asked.data, group, self.groups, asked.seed)
        began = time.perf_counter()
        pruned, decision = prune(self.workspace, job)
        took = {"seconds": time.perf_counter() - began}
        remove(folder)
        with appearing(folder) as place:
            save_model(place, pruned.net, pruned_record(job, pruned), pruned.removals)
        # Schemes are in the memory bank's file.
        facts = {"round", "candidate", "proposer", "loss"}
        bank = [] if decision is None else [one.model_dump(include=facts) for one in decision.bank.candidates]
        return folder, write_figures(folder, figures_of(job, pruned, decision) | took | {"bank": bank})

    def trained(self, images: int, *, falls: bool = True) -> Outcome:
        """Train the group's model up to so many images, resuming where its training was stopped.

        Args:
            images: of the group, without those that the base's compute pays for.
            falls: whether the learning rate falls at the end, as the recipe says; else the training may be resumed.
        """
        asked, (pruned, _) = self.asked, self.pruned
        more = self.images_for_base_share(load_record(pruned))
        recipe = asked.plan.recipe.model_copy(update={"images": images + more})
        if not falls:
            steady = recipe.optimizer.model_copy(update={"decay": "constant", "decay_share": 1.0})
            recipe = recipe.model_copy(update={"optimizer": steady})
        job = TrainingJob(f"{asked.name}/group_{self.group.group}", recipe, asked.training, asked.data, asked.seed)
        fresh = asked.plan.start == "scratch"
        return train_expert(self.workspace, job, pruned, self.group, self.groups, fresh_weights=fresh)

    def images_for_base_share(self, parent: ModelRecord) -> int:
        """Images that a group trained from scratch gets for its part of the base's training FLOPs."""
        if not self.asked.plan.base_share:
            return 0
        spent = load_record(self.start).total_flops
        return images_affordable(self.asked.plan.base_share * spent / self.groups, parent.macs)

    def measured(self, images: int) -> tuple[float, float]:
        """Error of the group's model after so many images at a constant rate, by which budgets are settled; seconds."""
        folder, _ = self.pruned
        began = time.perf_counter()
        net = self.trained(images, falls=False).start.net if images else load_any_model(folder)[0]
        seconds = time.perf_counter() - began
        return self.held_out(CHOICE).error(net, self.group.range), seconds

    def held_out(self, half: int) -> HeldOut:
        count = self.asked.plan.holdout_images
        assert count is not None  # as the settings see to
        return HeldOut.of(
            self.asked.data,
            half,
            count=count,
            spec=load_record(self.start).spec,
            seed=self.asked.seed,
            device=self.workspace.device,
        )

    def save_and_summarize(self, outcome: Outcome) -> dict[str, Any]:
        """Save the group's model, and return its figures."""
        record, net = trained_record(outcome), outcome.start.net
        write_model(self.model, outcome, net, record)
        Bank(self.workspace.work).publish(self.model)
        RequestLog(self.workspace.work).publish(self.model)
        lines, share = curve(outcome.trained.log), self.group.range.length / record.spec.timesteps
        facts = ("macs", "parameters", "images_seen", "training_flops", "inherited_images", "inherited_flops")
        return (
            self.group.model_dump()
            | {name: getattr(record, name) for name in facts}
            | {
                "inherited_images_inside": round(record.inherited_images * share),
                # Measurements that select; those that are reported do not count.
                "measuring_flops": (self.asked.plan.holdout_images or 0) * len(self.points) * record.macs,
            }
            | {"final_loss": lines[-1]["loss"] if lines else None}
            | self.errors_on_held_out(net)
        )

    def errors_on_held_out(self, net: nn.Module) -> dict[str, Any]:
        """Errors of the base and of the group's model on held-out images, where the plan asks for them."""
        if self.asked.plan.holdout_images is None:
            return {}
        report, models = self.held_out(REPORT), {"base": load_any_model(self.start)[0], "expert": net}
        return {"holdout_error": {name: report.error(one, self.group.range) for name, one in models.items()}}


def figures_with(folder: Path) -> dict[str, Any] | None:
    """Figures that are stored with a model folder; None where they are missing, or either was altered since."""
    known = read_facts(folder.with_suffix(".json"))
    unaltered = known is not None and folder.exists() and content_hash(folder) == known["folder"]
    return known["figures"] if unaltered else None


def write_figures(folder: Path, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Store figures with a model folder that is whole; return them as they are read again."""
    path = folder.with_suffix(".json")
    write_facts(path, {"figures": figures, "folder": content_hash(folder)})
    found: dict[str, Any] = read_facts(path)["figures"]
    return found


def totals(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Totals of a plan; costs of a step are means over the timesteps."""
    lengths = [timesteps_of(one["first"], one["last"], one["stride"]).length for one in figures]
    shares = [length / sum(lengths) for length in lengths]
    searches = [one["pruning"] for one in figures if one["pruning"]]
    return {
        "limit_ratio": weighted(shares, figures, "limit_ratio"),
        "macs_a_step": weighted(shares, figures, "macs"),
        "parameters_a_step": weighted(shares, figures, "parameters"),
        "parameters": sum(one["parameters"] for one in figures),
        "images": figures[0]["inherited_images"] + sum(one["images_seen"] for one in figures),
        "training_flops": figures[0]["inherited_flops"] + sum(one["training_flops"] for one in figures),
        "search_flops": sum(one.get("search_flops", 0) for one in searches),
        "measuring_flops": sum(one["measuring_flops"] for one in figures),
        "pruning_seconds": sum(one["seconds"] for one in searches),
        "training_seconds": sum(one["training_seconds"] for one in figures),
    }


def weighted(shares: Sequence[float], figures: Sequence[Mapping[str, Any]], name: str) -> float:
    """Mean of a figure over the timesteps."""
    return float(sum(share * one[name] for share, one in zip(shares, figures, strict=True)))


def train_expert(
    workspace: Workspace,
    job: TrainingJob,
    model: Path,
    group: NumberedGroup,
    groups: int,
    fresh_weights: bool = False,
) -> Outcome:
    """Train the expert of a group, by draws of its own.

    Of one seed all groups would see the same images and noise, and interleaved ones hardly other timesteps.

    Args:
        workspace, job: where, and what is asked; the seed is that of all groups.
        model: folder of what it begins with, pruned or not.
        group, groups: whose timesteps it is for, and of how many.
        fresh_weights: keep the architecture alone; nothing is inherited then.

    Raises:
        UserError: the model cannot be loaded, or it, the recipe and the data are not made for each other.
    """
    job = replace(job, seed=torch_seed(job.seed, group.group))
    start = Start.of_model(model, Scope(group.range, group.group, groups), load_any_model)
    return train_further(workspace, job, start.renewed(job.seed) if fresh_weights else start)
