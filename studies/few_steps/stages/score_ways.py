"""Score the samples of a block's base by all ways of taking steps, with one number of calls of its network."""

from studies.few_steps.scoring import FewSteps, ScoringSettings
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage


@stage(ScoringSettings)
def main(run: Run, settings: ScoringSettings, block: int, calls: int) -> None:
    """Sample and score."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    few = FewSteps(run, settings, data, extractor, block, run.input(f"artifacts/models/base/block_{block}"))
    content = {"block": block, "calls": calls, "ways": few.all(calls), "conditions": few.conditions}
    run.metrics(f"results/scores/calls_{calls}/block_{block}.json", content)


if __name__ == "__main__":
    main()
