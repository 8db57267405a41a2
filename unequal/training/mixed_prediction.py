"""Training of three heads (x0, v, ε): their objective, and the combination of their predictions."""

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import nn

from unequal.data.prepared import tensor_of
from unequal.diffusion.predictions import heads_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.evaluation.profiling import Draws, head_products
from unequal.models.denoiser import Denoiser
from unequal.models.folder import Heads
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, torch_seed
from unequal.settings.evaluation import Profile
from unequal.settings.network import Network
from unequal.settings.recipe import Mixing, Recipe, Selection
from unequal.settings.schedule import Schedule
from unequal.timesteps.partition import equal_log_snr
from unequal.timesteps.weights import weight_table
from unequal.training.objectives import Objective
from unequal.training.three_heads import BalancedHeads, BestHead
from unequal.training.train import TrainingJob, spec_for


def with_three_heads(
    job: TrainingJob, network: Network, schedule: Schedule, profile: Profile, device: torch.device
) -> TrainingJob:
    """A job of three heads; draws of held-out images, of the half that is chosen by, settle how they are combined.

    Raises:
        UserError: the recipe has one head.
    """
    mixing = job.recipe.mixing
    if mixing is None:
        raise UserError(f"a mixed model has three heads, and its recipe one, '{job.recipe.prediction}'; allowed: mixed")
    spec = spec_for(job, network, schedule)
    objective = mixed_objective(job.recipe, mixing, spec.noise_schedule().to(device))
    images, key = tensor_of(job.data.holdout_choice), torch_seed(job.seed, Stream.HEADS)
    draws = Draws.of(images, spec.timesteps, profile.images, key, device, job.data.labels_of("holdout_choice"))
    combine = partial(combined, spec=spec, draws=draws, batch_size=profile.batch_size, select=mixing.select)
    return replace(job, objective=objective, heads=combine)


def combined(net: nn.Module, spec: ModelSpec, draws: Draws, batch_size: int, select: Selection) -> Heads:
    """Combination of a network's three heads, by their errors on draws."""
    products = torch.from_numpy(head_products(Denoiser.of(net, spec), draws, batch_size).mean(1))
    return Heads.selected(select, products)


def mixed_objective(recipe: Recipe, mixing: Mixing, schedule: NoiseSchedule) -> Objective:
    """The loss of three heads, as a recipe mixes them; on a flow the second one predicts the velocity."""
    bins, device = equal_log_snr(schedule, mixing.bins, drop_empty=True), schedule.alpha.device
    if mixing.half_life_images is not None:
        return BalancedHeads(bins, recipe.images, mixing.half_life_images, device)
    weights = torch.stack([weight_table(recipe.loss_weight, head, schedule.snr) for head in heads_of(schedule)])
    compare: Literal["common", "native"] = "common" if mixing.train == "best_common" else "native"
    return BestHead(bins, recipe.images, compare, weights, device)
