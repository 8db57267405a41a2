"""TDC training by a plan: timesteps in groups, and for each a model that is pruned and trained (paper 3, Alg. 1).

The results of a group are stored: a plan that was stopped resumes within the group where it was. The model of a group
is the base or its pruned form, trained further within the group.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.experts.bank import Bank
from unequal.experts.llm import RequestLog
from unequal.experts.prune import PruningJob, figures_of, prune, pruned_record
from unequal.models.backbones.backbone import images_affordable
from unequal.models.folder import SNAPSHOTS, ModelRecord, load_record, save_model
from unequal.models.pruned import load_any_model
from unequal.randomness import torch_seed
from unequal.runtime.files import appearing, content_hash, read_facts, remove, write_facts
from unequal.runtime.workspace import Workspace, nested
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.settings.training import Training
from unequal.timesteps.building import sampler_inside
from unequal.timesteps.groups import foreseen_groups, planned_groups
from unequal.timesteps.partition import TimestepSet, timesteps_of
from unequal.training.initialisation import Scope, Start
from unequal.training.results import compute_seconds, curve, trained_record, write_model
from unequal.training.timestep_files import NumberedGroup
from unequal.training.train import Outcome, TrainingJob, train_further

#: Models in a group's folder after pruning, and after training.
PRUNED, MODEL = "pruned", "model"


@dataclass(frozen=True)
class ExpertsJob:
    """A plan, and what it is carried out on.

    Attributes:
        plan: how models come about.
        name: of their folder below `artifacts/models`.
        base: folder of the base, with its snapshots where the plan starts from one.
        data: the training images.
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
    base = load_record(start)
    planned = planned_groups(asked.plan.groups, base.spec.noise_schedule(), asked.excess)
    groups = [NumberedGroup.of(number, group) for number, group in enumerate(planned)]
    images = images_of_groups(asked.plan, [group.range for group in groups])
    parts = [Part(nested(workspace, f"group_{one.group}"), asked, start, one, len(groups)) for one in groups]
    return [part.model for part in parts], [part.figures(own) for part, own in zip(parts, images, strict=True)]


def images_of_groups(plan: Plan, ranges: Sequence[TimestepSet]) -> list[int]:
    """Share a plan's images out over its groups: equally, or in proportion to their timesteps; whole images."""
    lengths = [chosen.length if plan.allocation == "timesteps" else 1 for chosen in ranges]
    edges = np.rint(np.cumsum([0, *lengths]) / np.sum(lengths) * plan.recipe.images).astype(int)
    return np.diff(edges).tolist()


def check_plan(plan: Plan, schedule: NoiseSchedule, base: Recipe, batch_size: int) -> None:
    """Raise UserError where a plan cannot be carried out, except where only measured losses can show it.

    Args:
        plan: the settings.
        schedule: whose timesteps are grouped.
        base: by which the base is trained.
        batch_size: of all trainings.
    """
    recipe = plan.recipe
    if recipe.prediction != base.prediction or recipe.prediction == "mixed":
        raise UserError(f"recipe.prediction: '{recipe.prediction}'; the base's is '{base.prediction}', of one head")
    if plan.from_images is not None and plan.from_images not in base.snapshots:
        raise UserError(f"from_images: {plan.from_images} is no snapshot of the base; it keeps {[*base.snapshots]}")
    groups = foreseen_groups(plan.groups, schedule)
    least = min(images_of_groups(plan, [group.range for group in groups]))
    for what, needed in (("a batch", batch_size), ("the warm-up", recipe.optimizer.warmup_images)):
        if least < needed:
            raise UserError(f"recipe.images: {recipe.images} leave {least} to a group; {what} takes {needed}")
    for group in [] if plan.groups.needs_excess else groups:
        sampler_inside(recipe.sampler, group.range, schedule)


@dataclass(frozen=True)
class Part:
    """A group of a plan on its way.

    Attributes:
        workspace: of its own, within the plan's.
        asked: the plan.
        start: folder of the base.
        group, groups: which group, of how many.
    """

    workspace: Workspace
    asked: ExpertsJob
    start: Path
    group: NumberedGroup
    groups: int

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
        seconds = time.perf_counter() - began
        figures = self.save_and_summarize(outcome) | {"training_seconds": seconds, "pruning": decided}
        return write_figures(self.model, figures)

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

    def trained(self, images: int) -> Outcome:
        """Train the group's model with so many images, besides those that the base's compute pays for."""
        asked, (pruned, _) = self.asked, self.pruned
        more = self.images_for_base_share(load_record(pruned))
        recipe = asked.plan.recipe.model_copy(update={"images": images + more})
        job = TrainingJob(f"{asked.name}/group_{self.group.group}", recipe, asked.training, asked.data, asked.seed)
        fresh = asked.plan.start == "scratch"
        return train_expert(self.workspace, job, pruned, self.group, self.groups, fresh_weights=fresh)

    def images_for_base_share(self, parent: ModelRecord) -> int:
        """Images that a group trained from scratch gets for its part of the base's training FLOPs."""
        if not self.asked.plan.base_share:
            return 0
        spent = load_record(self.start).total_flops
        return images_affordable(self.asked.plan.base_share * spent / self.groups, parent.macs)

    def save_and_summarize(self, outcome: Outcome) -> dict[str, Any]:
        """Save the group's model, and return its figures."""
        record, net = trained_record(outcome), outcome.start.net
        write_model(self.model, outcome, net, record)
        Bank(self.workspace.work).publish(self.model)
        RequestLog(self.workspace.work).publish(self.model)
        lines = curve(outcome.trained.log)
        facts = ("macs", "parameters", "images_seen", "training_flops", "inherited_images", "inherited_flops")
        return (
            self.group.model_dump()
            | {name: getattr(record, name) for name in facts}
            | {"final_loss": lines[-1]["loss"] if lines else None, "compute_seconds": compute_seconds(lines)}
        )


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
        "pruning_seconds": sum(one["seconds"] for one in searches),
        "training_seconds": sum(one["training_seconds"] for one in figures),
        "compute_seconds": sum(one["compute_seconds"] for one in figures),
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
