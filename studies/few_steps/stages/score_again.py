"""Score what came first with each number of calls, and the control, on the base of a fresh block."""

from studies.few_steps.findings import CONTROL, FIRST, FirstFigures
from studies.few_steps.scoring import FewSteps, ScoringSettings
from unequal.artifacts.figures import read_figures
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage


@stage(ScoringSettings)
def main(run: Run, settings: ScoringSettings, block: int) -> None:
    """Sample and score both with every number of calls."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    named = read_figures(run.input("results/first.json"), FirstFigures)["first"]
    few = FewSteps(run, settings, data, extractor, block, run.input(f"artifacts/models/base/block_{block}"))
    sweep = settings.sweep
    pairs = {calls: {FIRST: sweep.ways[named[str(calls)]], CONTROL: sweep.control} for calls in sweep.calls}
    scores = {
        str(calls): {place: {"way": way.name} | few.figures(way, calls) for place, way in pair.items()}
        for calls, pair in pairs.items()
    }
    run.metrics(f"results/again/block_{block}.json", {"block": block, "calls": scores})


if __name__ == "__main__":
    main()
