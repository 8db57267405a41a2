"""Train an arm of the pilot from the fresh weights of a block, and measure it by the path of its training."""

from functools import partial

from studies.blocks.path import in_short
from studies.blocks.trying import FreshTries, try_all
from unequal.pipeline.stage import Run, stage


@stage(FreshTries)
def main(run: Run, settings: FreshTries, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""
    measure = partial(in_short, snapshots=len(settings.recipe.snapshots))
    try_all(run, settings, arm, block, settings.trained_from(block), measure)


if __name__ == "__main__":
    main()
