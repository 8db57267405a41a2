"""Choose the way of sampling with the models of winner and control from whole trainings, without further training."""

import math
from statistics import fmean

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.race.bracket import SAMPLING, training_name
from unequal.race.measuring import Scorer, ScoreSettings
from unequal.race.plan import whole_results
from unequal.race.results import COLLAPSED, read_done
from unequal.race.standing import best_of_arms, means
from unequal.settings.strict import key


class Settings(ScoreSettings):
    control: str = key("race.control")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, rung: str, after: str) -> None:
    """Score models by every way of sampling."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    models, done = run.input(f"artifacts/race/models/{rung}"), read_done(run.input(after))
    results = whole_results(done)
    pair = {next(iter(means(results))), best_of_arms(results)[settings.control]}
    scorer, found = Scorer(run, settings, data, extractor, rung), []
    for one in sorted(pair):
        for block in done[rung][one]:
            name = training_name(one, block)
            if (models / name / COLLAPSED).exists():
                continue
            for sampling in settings.samplings:
                figures, _ = scorer.scores(models / name, block, sampling)
                costs = {"sampling_flops_per_image": figures["sampling_flops_per_image"]}
                found.append({"sampling": sampling, "model": name, "fid": figures["fid"]} | costs)
    logs = {
        sampling: fmean(math.log(one["fid"]) for one in found if one["sampling"] == sampling)
        for sampling in settings.samplings
    }
    run.metrics(SAMPLING, {"chosen": min(logs, key=logs.__getitem__), "mean_log_fid": logs, "scores": found})
