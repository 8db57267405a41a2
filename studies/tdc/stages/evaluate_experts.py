"""Score the models of a plan by FID and KID."""

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, plan: str, seed: int) -> None:
    """Score the models of a plan that one training seed has made."""
    data, name = PreparedData.open(run.input("artifacts/data")), f"{plan}/seed_{seed}"
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    experts = Ensemble.load(run.input(f"artifacts/models/{plan}/seed_{seed}"), run.device)
    figures = Scoring(run, settings.sampling, settings.evaluation, data, extractor).figures(experts, name)
    run.metrics(
        f"results/trials/{name}.json", {"plan": plan, "seed": seed} | figures, {f"fid_{name}": figures["fid_mean"]}
    )


if __name__ == "__main__":
    main()
