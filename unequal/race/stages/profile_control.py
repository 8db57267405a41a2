"""Measure slots of equal loss on a training of the control."""

import time
from typing import Any

from unequal.data.prepared import PreparedData, tensor_of
from unequal.evaluation.loss_profile import LossProfile
from unequal.evaluation.profiling import Draws, profile
from unequal.pipeline.stage import Run, stage
from unequal.race.bracket import SLOTS
from unequal.race.results import COLLAPSED
from unequal.runtime.chunks import Chunks
from unequal.runtime.files import read_json
from unequal.sampling.ensemble import Ensemble
from unequal.settings.race import MeasuredSlots
from unequal.settings.strict import StageSettings, key
from unequal.timesteps.partition import equal_sums


class Settings(StageSettings):
    seed: int
    slots: MeasuredSlots = key("race.slots")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, rung: str, name: str) -> None:
    """Profile the control and cut its timesteps."""
    began, data = time.perf_counter(), PreparedData.open(run.input("artifacts/data"))
    folder = run.input(f"artifacts/race/models/{rung}/{name}")
    found: dict[str, Any] = {"collapsed": None, "slots": None}
    if (folder / COLLAPSED).exists():
        found["collapsed"] = read_json(folder / COLLAPSED)["reason"]
    else:
        model, chosen = Ensemble.load(folder, run.device), settings.slots
        images, labels = tensor_of(data.train), data.labels_of("train")
        draws = Draws.of(images, model.record.spec.timesteps, chosen.images, settings.seed, run.device, labels)
        errors = profile(model, draws, chosen.batch_size, run.runtime.progress, Chunks(run.work))
        found["slots"] = equal_sums(LossProfile.of(errors.epsilon).mean, chosen.count)
    if run.leads:
        run.metrics(SLOTS, found)
        run.metrics(f"results/race/seconds/{rung}/slots.json", {"seconds": time.perf_counter() - began})
