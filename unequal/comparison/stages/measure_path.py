"""Measure the endpoints of a training by a recipe, and what it had come to at each of its snapshots."""

from unequal.comparison.measuring import Measuring, MeasuringSettings, along
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.files import read_json
from unequal.models.folder import model_and_snapshots
from unequal.pipeline.stage import Run, stage


@stage(MeasuringSettings, shared=True)
def main(run: Run, settings: MeasuringSettings, arm: str, block: int) -> None:
    """Measure a training along its way."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    *snapshots, end = model_and_snapshots(run.input(f"artifacts/models/{arm}/block_{block}"))
    own = read_json(run.input(f"results/trainings/{arm}/block_{block}.json"))
    figures = along(Measuring(run, settings, data, extractor, block), snapshots, end, f"{arm}_{block}")
    figures["costs"]["training_seconds"] = own["training_seconds"]
    run.metrics(
        f"results/endpoints/{arm}/block_{block}.json",
        {"arm": arm, "block": block, "made_by": own["made_by"]} | figures,
        {f"{name}_{arm}_{block}": value for name, value in figures["endpoints"].items()},
    )


if __name__ == "__main__":
    main()
