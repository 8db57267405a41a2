"""Score a training of a race by FID; in fresh blocks, also by the chosen way of sampling."""

import time

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.race.bracket import SAMPLING
from unequal.race.measuring import Scorer, ScoreSettings
from unequal.race.results import COLLAPSED
from unequal.runtime.files import read_json


@stage(ScoreSettings, shared=True)
def main(
    run: Run, settings: ScoreSettings, rung: str, arm: str, rate: str, block: int, name: str, sampling: str
) -> None:
    """Score a training."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input(f"artifacts/race/models/{rung}/{name}")
    known = read_json(run.input(sampling))
    began, who = time.perf_counter(), {"arm": arm, "rate": float(rate), "block": block}
    shown = run.output(f"artifacts/race/samples/{rung}/{name}.npy")
    first = next(iter(settings.samplings))
    if (folder / COLLAPSED).exists():
        images = np.zeros((0, *data.train.shape[1:]), np.uint8)
        found = {"collapsed": read_json(folder / COLLAPSED)["reason"], "fid": None}
    else:
        scorer = Scorer(run, settings, data, extractor, rung)
        figures, images = scorer.scores(folder, block, first)
        found = {"collapsed": None} | figures
        if sampling == SAMPLING and (chosen := known["chosen"]) != first:
            found["chosen"] = {"sampling": chosen} | scorer.scores(folder, block, chosen)[0]
    if not run.leads:
        return
    np.save(shown, images)
    run.metrics(f"results/race/measured/{rung}/{name}.json", who | found)
    run.metrics(f"results/race/seconds/{rung}/{name}.json", {"seconds": time.perf_counter() - began})
