"""Name the best variant and its control, with the settings that they were trained with."""

from unequal.comparison.confirmation import named_first
from unequal.comparison.params import ComparisonParams
from unequal.comparison.results import read_results
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


@stage(StageSettings)
def main(run: Run, settings: StageSettings) -> None:
    """Write which arms are trained once more, and by which settings; the whole params.yaml is a dependency."""
    params = ComparisonParams.read(run.input("params.yaml"))
    results = read_results(run.input("results/endpoints"), params.comparison)
    run.metrics("results/confirm/first.json", named_first(results, params).model_dump(mode="json"))
