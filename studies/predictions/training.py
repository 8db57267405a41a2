"""The training of an arm: one head or three, in batches of its own size where it has one."""

from studies.predictions.settings import Predictions
from studies.small_batches.settings import Arm
from studies.small_batches.training import job_of
from unequal.comparison.settings import BlockProfile, Pilot, arm_seed, shortened
from unequal.comparison.training import costs_of, made_by, train_weights
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import write_results
from unequal.training.train import Outcome, TrainingJob
from unequal.workspace import Workspace


class ArmSettings(StageSettings):
    """Keys of params.yaml that say how an arm is trained from fresh weights."""

    schedule: Schedule
    network: AnyNetwork
    training: Training
    profile: BlockProfile
    predictions: Predictions
    recipe: Recipe = key("recipes.{arm}")

    def batches(self, arm: str) -> Arm:
        """How an arm's are made; Adam's second moment forgets as fast in images at any size."""
        return Arm(batch_size=self.predictions.batch_size(arm, self.training.batch_size))


class ChosenSettings(ArmSettings):
    """With what the pilot has tried, and which of it an arm is trained by."""

    pilot: Pilot


def train_arm(workspace: Workspace, settings: ArmSettings, job: TrainingJob, block: int) -> Outcome:
    """Train the fresh weights of a block by a job's recipe, which may be of one head or of three."""
    if job.recipe.mixing is not None:
        job = with_three_heads(job, settings.network, settings.schedule, settings.profile, workspace.device)
    return train_weights(workspace, job, block, settings.network, settings.schedule)


def carry_out(run: Run, settings: ChosenSettings, data: PreparedData, arm: str, block: int) -> None:
    """Train an arm within a block, as a stage does."""
    recipe = shortened(settings.recipe, 1.0, settings.pilot.tried(arm))
    name, batches = f"{arm}/block_{block}", settings.batches(arm)
    job = job_of(name, recipe, batches, settings.training, data, arm_seed(block, arm))
    outcome = train_arm(run, settings, job, block)
    write_results(run, outcome)
    own = (settings.schedule, settings.network, settings.training, batches, recipe)
    told = made_by(*own, settings.profile) if recipe.mixing else made_by(*own)  # how heads are combined goes by it
    run.metrics(f"results/trainings/{name}.json", told | costs_of(outcome))
