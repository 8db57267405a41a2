"""Train the fresh weights of a block of the pilot by an arm's recipe, with everything that is tried of it."""

from studies.blocks.trying import FreshTries, try_all
from unequal.pipeline.stage import Run, stage


@stage(FreshTries)
def main(run: Run, settings: FreshTries, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""
    try_all(run, settings, arm, block, settings.trained_from(block))


if __name__ == "__main__":
    main()
