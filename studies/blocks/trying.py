"""What a pilot tries of an arm that begins with the fresh weights of a block."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from studies.blocks.measuring import Measuring, MeasuringSettings
from studies.blocks.settings import Try, arm_seed, shortened
from studies.blocks.training import costs_of, half_and_end, train_weights, with_half
from unequal.data.prepared import PreparedData
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import key
from unequal.settings.training import Training
from unequal.training.results import write_models
from unequal.training.train import Outcome, TrainingJob
from unequal.workspace import Nested, Workspace

#: Trains by a recipe, given a place to do it in, the data, a name and the seed of its draws.
Train = Callable[[Workspace, Recipe, PreparedData, str, int], Outcome]
#: Measures models at half and at the end of a training, under a name.
Measure = Callable[[Measuring, Path, Path, str], dict[str, Any]]


class TriesSettings(MeasuringSettings):
    """Keys of params.yaml that say what is tried of an arm."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")
    recipe: Recipe = key("recipes.{arm}")


class FreshTries(TriesSettings):
    """Those of an arm that is a recipe, and nothing else."""

    schedule: Schedule
    network: AnyNetwork
    training: Training

    def trained_from(self, block: int) -> Train:
        """How each try trains the fresh weights of a block."""

        def train(place: Workspace, recipe: Recipe, data: PreparedData, name: str, seed: int) -> Outcome:
            job = TrainingJob(name, recipe, self.training, data, seed)
            return train_weights(place, job, block, self.network, self.schedule)

        return train


def try_all(
    measuring: Measuring, settings: TriesSettings, arm: str, train: Train, measure: Measure = Measuring.path
) -> dict[str, Any]:
    """Train and measure an arm once for each try, at half and at the end of each training; what came out, by try."""
    place, block, tried = measuring.workspace, measuring.block, {}
    for label, one in settings.tries.items():
        recipe = with_half(shortened(settings.recipe, settings.share, one))
        name = f"{arm}_{label}"  # with draws of its own, as in the study
        outcome = train(Nested(place, name), recipe, measuring.data, f"{name}/block_{block}", arm_seed(block, name))
        write_models(folder := place.work / f"{name}_models", outcome)
        figures = measure(measuring, *half_and_end(folder, recipe), name)
        tried[label] = figures | {"lr": recipe.optimizer.lr, "costs": figures["costs"] | costs_of(outcome)}
    return tried
