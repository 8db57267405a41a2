"""Train an arm of the pilot from the fresh weights of a block, and measure it by the path of its training."""

from functools import partial

from unequal.comparison.measuring import Measuring, in_short
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
    measure = partial(in_short, snapshots=len(settings.recipe.snapshots))
    tried = try_all(measuring, settings, arm, settings.trained_from(block), measure)
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
