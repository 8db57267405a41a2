"""Sample a model or a set of experts and score the images by FID and KID."""

from dataclasses import asdict
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import Extractor, spread
from unequal.evaluation.variant import Scoring
from unequal.pipeline.stage import Run, stage
from unequal.sampling import Experts
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings

#: Images kept for the report's grids.
SHOWN = 64


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation


@stage(Settings)
def main(run: Run, settings: Settings, variant: str) -> None:
    """Score a variant."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = Extractor.load(run.input("artifacts/extractor"))
    experts = Experts.load(run.input(f"artifacts/models/{variant}"), run.device)
    scoring = Scoring(run, settings.sampling, settings.evaluation, data, extractor)
    scores = scoring.scores(experts, variant)
    kept = scoring.samples(experts, variant, settings.evaluation.seeds[0])[:SHOWN]
    np.save(run.output(f"artifacts/samples/{variant}.npy"), kept)
    figures: dict[str, Any] = spread(scores) | scoring.costs(experts) | scoring.conditions()
    figures["scores"] = [asdict(one) for one in scores]
    run.metrics(f"results/fid/{variant}.json", figures, headline={f"fid_{variant}": figures["fid_mean"]})


if __name__ == "__main__":
    main()
