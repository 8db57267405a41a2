"""Train the fresh weights of a block of the pilot by an arm's recipe, with everything that is tried of it."""

from unequal.comparison.measuring import Measuring
from unequal.comparison.training import FreshTries, try_all
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage


@stage(FreshTries)
def main(run: Run, settings: FreshTries, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    tried = try_all(measuring, settings, arm, settings.trained_from(block))
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
