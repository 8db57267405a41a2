"""A trial of a grid: one recipe, at one batch, from one training seed, comparable with the others at equal images."""

from studies.grid.settings import parsed_batch
from unequal.settings.recipe import Recipe
from unequal.settings.training import Training

EXPONENTS = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}


def training_at(training: Training, batch: str, reference: int) -> Training:
    """The training settings for a batch like `8x4`, 8 images at once and 4 such parts an optimizer step.

    Averages and intervals are kept in images: an exponential average's decay d a step of the reference batch R is
    d^(B/R) a step of B images, and a power-function average is the same share of the training at any batch.
    """
    size, parts = parsed_batch(batch)
    whole = size * parts
    log_every = max(1, training.log_every * reference // whole)
    return training.model_copy(
        update={
            "batch_size": whole,
            "gradient_accumulation": parts,
            "average": training.average.at_batch(whole / reference),
            "log_every": log_every,
            "checkpoint_every": log_every * max(1, training.checkpoint_every // training.log_every),
        }
    )


def recipe_at(recipe: Recipe, batch: str, reference: int, scaling: str) -> Recipe:
    """The recipe with its learning rate times (B/R)^p: p is 0 (`none`), ½ (`sqrt`, for Adam) or 1 (`linear`)."""
    size, parts = parsed_batch(batch)
    factor = (size * parts / reference) ** EXPONENTS[scaling]
    optimizer = recipe.optimizer.model_copy(update={"lr": recipe.optimizer.lr * factor})
    return averaged_at(recipe, size * parts / reference).model_copy(update={"optimizer": optimizer})


def averaged_at(recipe: Recipe, ratio: float) -> Recipe:
    """The recipe where batches are `ratio` times as large: an average of its own is kept in images, too."""
    own = recipe.average
    return recipe if own is None else recipe.model_copy(update={"average": own.at_batch(ratio)})
