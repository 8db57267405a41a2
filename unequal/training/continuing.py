"""Where a training goes on from: which weights of a model it begins with, and whose moments."""

from torch import Tensor

from unequal.errors import UserError
from unequal.models.folder import STATE
from unequal.settings.recipe import Continuing, Recipe
from unequal.training.initialisation import Start
from unequal.training.state import TrainingState


def go_on_from(start: Start, recipe: Recipe) -> dict[str, Tensor] | None:
    """Give a start the weights that its recipe asks for.

    Args:
        start: with averaged weights of a model, or fresh ones.
        recipe: by which it is trained.

    Returns:
        Moments that its optimizer goes on with, by their parameters' names; None: it begins with none.

    Raises:
        UserError: the model has no such state, or it is of another optimizer.
    """
    asked = recipe.continuing
    if not asked.needs_state:
        return None
    state = state_of(start, asked)
    if asked.weights == "last":
        start.net.load_state_dict(state.weights)
    if asked.moments == "fresh":
        return None
    if state.optimizer != recipe.optimizer.name:
        raise UserError(
            f"continuing.moments: 'carried' from {start.folder}, which '{state.optimizer}' has trained, to "
            f"'{recipe.optimizer.name}'; allowed between unlike optimizers: fresh"
        )
    return state.moments


def state_of(start: Start, asked: Continuing) -> TrainingState:
    """The state of the training that a start's model comes from. Raises UserError where there is none, or another's."""
    if start.folder is None:
        raise UserError(f"continuing: {asked}, in a training that begins with fresh weights; allowed: {Continuing()}")
    if not (start.folder / STATE).exists():
        rather = "set keep_state: true in the recipe that trains it"
        if start.removals is not None:
            rather = f"a pruned network is gone on from with {Continuing()}"
        raise UserError(f"{start.folder}: keeps no state of its training for continuing: {asked}; {rather}")
    state = TrainingState.load(start.folder)
    if not state.fits(start.net):
        raise UserError(f"{start.folder / STATE}: the state of another network; make the model again")
    return state
