"""Train the fresh weights of a block to predict ε, v or x0 alone."""

from studies.predictions.training import ChosenSettings, carry_out
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage


@stage(ChosenSettings, shared=True)
def main(run: Run, settings: ChosenSettings, arm: str, block: int) -> None:
    """Train an arm of one head within a block."""
    carry_out(run, settings, PreparedData.open(run.input("artifacts/data")), arm, block)


if __name__ == "__main__":
    main()
