"""Start of a training: fresh weights or a model's, reinitialised parts, and the state that it resumes from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.backbones import backbone
from unequal.models.folder import STATE, Loader, ModelRecord, Removal, load_model, load_removals
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, torch_seed
from unequal.settings.network import Network
from unequal.settings.recipe import Recipe, WarmStart
from unequal.timesteps.partition import TimestepRange, TimestepSet
from unequal.training.checkpoint import TrainingState
from unequal.training.optimizer import OPTIMIZERS


@dataclass(frozen=True)
class Scope:
    """The timesteps that a model is meant for; an expert's are those of `group` of `groups`."""

    range: TimestepSet
    group: int | None = None
    groups: int | None = None

    @classmethod
    def whole(cls, spec: ModelSpec) -> Self:
        return cls(TimestepRange(0, spec.timesteps - 1))


@dataclass(frozen=True)
class Start:
    """A network to be trained.

    Attributes:
        net: trained in place.
        spec: what it is asked and answers.
        scope: for which timesteps.
        parent: record of the model whose averaged weights it has, None for fresh ones.
        folder: of that model.
        removals: what made it of the architecture in its config.
    """

    net: nn.Module
    spec: ModelSpec
    scope: Scope
    parent: ModelRecord | None = None
    removals: list[Removal] | None = None
    folder: Path | None = None

    @classmethod
    def fresh(cls, network: Network, spec: ModelSpec, seed: int) -> Self:
        """Fresh weights of a training seed. Raises UserError where the settings make no network for the images."""
        torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
        return cls(backbone.build_network(network, spec), spec, Scope.whole(spec))

    @classmethod
    def taken_over(cls, network: Network, spec: ModelSpec) -> Self:
        """The trained network that the settings name. Raises UserError where it is of another spec."""
        return cls(backbone.take_over(network, spec), spec, Scope.whole(spec))

    @classmethod
    def of_model(cls, folder: Path, scope: Scope | None = None, load: Loader = load_model) -> Self:
        """Start from a model, for its own timesteps or for others. Raises UserError where it cannot be loaded.

        Args:
            folder: of the model.
            scope: None: all timesteps.
            load: how; `unequal.models.pruned.load_any_model` where the model may be pruned.
        """
        net, parent = load(folder)
        return cls(net, parent.spec, scope or Scope.whole(parent.spec), parent, load_removals(folder), folder)

    def renewed(self, seed: int) -> Self:
        """Start with the same architecture and fresh weights, of a seed and the scope's group."""
        key = () if self.scope.group is None else (self.scope.group,)
        torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS, *key))
        reinitialise(self.net)
        return replace(self, parent=None, folder=None)


def reinitialise(net: nn.Module) -> None:
    """Draw all weights anew from PyTorch's global generator, as layers of these (perhaps pruned) sizes begin."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm | nn.Embedding):
            module.reset_parameters()


def warm_start(start: Start, recipe: Recipe) -> dict[str, Tensor] | None:
    """Give a start the weights that its recipe asks for.

    Returns:
        Moments that its optimizer begins with, by their parameters' names; None: none.

    Raises:
        UserError: the model has no such state, or it is of another optimizer.
    """
    asked = recipe.warm_start
    if not asked.needs_state:
        return None
    state = state_of(start, asked)
    if asked.weights == "last":
        start.net.load_state_dict(state.weights)
    if asked.moments == "fresh":
        if asked.weights == "last" and hasattr(OPTIMIZERS.get(state.optimizer), "evaluated"):
            raise UserError(
                f"warm_start.weights: 'last' from {start.folder}, whose optimizer '{state.optimizer}' evaluates other "
                "weights than it steps; allowed: averaged, or moments carried with them"
            )
        return None
    if state.optimizer != recipe.optimizer.name:
        raise UserError(
            f"warm_start.moments: 'carried' from {start.folder}, which '{state.optimizer}' has trained, to "
            f"'{recipe.optimizer.name}'; allowed between unlike optimizers: fresh"
        )
    return state.moments


def state_of(start: Start, asked: WarmStart) -> TrainingState:
    """The state of the training that a start's model comes from. Raises UserError where there is none, or another's."""
    if start.folder is None:
        raise UserError(f"warm_start: {asked}, in a training that begins with fresh weights; allowed: {WarmStart()}")
    if not (start.folder / STATE).exists():
        rather = "set keep_state: true in the recipe that trains it"
        if start.removals is not None:
            rather = f"a pruned network starts with {WarmStart()}"
        raise UserError(f"{start.folder}: keeps no state of its training for warm_start: {asked}; {rather}")
    state = TrainingState.load(start.folder)
    if not state.fits(start.net):
        raise UserError(f"{start.folder / STATE}: the state of another network; make the model again")
    return state
