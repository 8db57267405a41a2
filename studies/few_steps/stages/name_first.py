"""Name the way that came first with each number of calls."""

from studies.few_steps.findings import first, read_found
from studies.few_steps.params import Sweep
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sweep: Sweep


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write which ways are tried once more."""
    found = read_found(run.input("results/scores"), settings.sweep)
    run.metrics("results/first.json", {"first": {str(calls): first(found, calls) for calls in settings.sweep.calls}})


if __name__ == "__main__":
    main()
