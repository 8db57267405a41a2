"""Score a mixed trial by FID and KID once for every way to combine its heads: one training, many samplings."""

from dataclasses import asdict

from studies.grid.settings import trial_name
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor, spread
from unequal.evaluation.variant import Scoring
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation
    selections: tuple[str, ...] = key("predictions.selections")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Score the selections of a mixed trial."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input(f"artifacts/models/{trial_name(recipe, batch, seed)}")
    scoring = Scoring(run, settings.sampling, settings.evaluation, data, extractor)
    name, found, headline = f"{recipe}_batch_{batch}_seed_{seed}", {}, {}
    for select in settings.selections:
        experts = Ensemble.load(folder, run.device, select)
        scores = scoring.scores(experts, select)
        found[select] = spread(scores) | scoring.costs(experts) | {"scores": [asdict(one) for one in scores]}
        headline[f"fid_{name}_{select}"] = found[select]["fid_mean"]
    facts = {"recipe": recipe, "batch": batch, "seed": seed} | scoring.conditions()
    run.metrics(f"results/selections/{name}.json", facts | {"selections": found}, headline)


if __name__ == "__main__":
    main()
