"""What stages that train trials of a grid share: the settings that they read, and the training that they ask for."""

from studies.grid.settings import trial_name
from studies.grid.trial import recipe_at, training_at
from unequal.data.prepared import PreparedData
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.train import TrainingJob


class TrialSettings(StageSettings):
    """Keys of params.yaml that every such stage reads."""

    training: Training
    recipe: Recipe = key("recipes.{recipe}")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


def trial_job(settings: TrialSettings, data: PreparedData, recipe: str, batch: str, seed: int) -> TrainingJob:
    """The training of a trial, at the batch written as images at once × parts accumulated."""
    chosen = recipe_at(settings.recipe, batch, settings.reference_batch, settings.lr_scaling)
    training = training_at(settings.training, batch, settings.reference_batch)
    return TrainingJob(trial_name(recipe, batch, seed), chosen, training, data, seed)
