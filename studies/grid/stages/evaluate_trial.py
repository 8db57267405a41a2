"""Score a trial of a grid by FID and KID, at every snapshot and at its end."""

from dataclasses import asdict

from studies.grid.settings import trial_name
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor, spread
from unequal.evaluation.variant import Scoring
from unequal.models.folder import model_and_snapshots
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Score a trial."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input(f"artifacts/models/{trial_name(recipe, batch, seed)}")
    scoring = Scoring(run, settings.sampling, settings.evaluation, data, extractor)
    points = []
    for model in model_and_snapshots(folder):
        experts = Ensemble.load(model, run.device)
        scores = scoring.scores(experts, model.name)
        points.append(spread(scores) | scoring.costs(experts) | {"scores": [asdict(one) for one in scores]})
    name = f"{recipe}_batch_{batch}_seed_{seed}"
    facts = {"recipe": recipe, "batch": batch, "seed": seed} | scoring.conditions()
    # The FID of the end stands by itself too, where metrics are compared.
    final = {"fid": points[-1]["fid_mean"], "kid": points[-1]["kid_mean"]}
    run.metrics(f"results/trials/{name}.json", facts | final | {"points": points}, {f"fid_{name}": final["fid"]})
    for point in points:
        run.log({"fid": point["fid_mean"], "kid": point["kid_mean"]}, point["images_seen"])


if __name__ == "__main__":
    main()
