"""Make ready the features that FID compares: train the classifier, or note which Inception is used."""

from dataclasses import asdict
from pathlib import Path

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.evaluation.classifier import Classifier, accuracy, save_classifier, train_classifier
from unequal.evaluation.fidelity import FACTS, WEIGHTS
from unequal.evaluation.fidelity import Extractor as Built
from unequal.files import content_hash, require, write_json
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Extractor
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    extractor: Extractor


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Build the feature extractor."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.output("artifacts/extractor")
    folder.mkdir()
    figures: dict[str, float] = {}
    weights: str | None = None
    sha256: str | None = None
    if settings.extractor.kind == "classifier":
        figures = {"holdout_accuracy": trained_classifier(run, settings, data, folder / WEIGHTS)}
        sha256 = content_hash(folder / WEIGHTS)
    else:
        weights = settings.extractor.weights
        sha256 = None if weights is None else content_hash(require(Path(weights)))
    built = Built(settings.extractor.kind, settings.extractor.features, weights, sha256)
    write_json(folder / FACTS, asdict(built))
    run.metrics("results/metrics/extractor.json", asdict(built) | figures)


def trained_classifier(run: Run, settings: Settings, data: PreparedData, path: Path) -> float:
    """Train the classifier on the labels; its accuracy on held-out images."""
    if data.labels is None:
        raise UserError("extractor.kind: 'classifier' needs labelled data; use inception, or data with labels")
    chosen, (channels, size, _) = settings.extractor, data.images.shape[1:]
    net = Classifier(channels, size, chosen.features, data.facts["labels"]).to(run.device)
    train = slice(*data.facts["split"]["train"])
    held = slice(*data.facts["split"]["holdout"])
    train_classifier(net, data.train, data.labels[train], chosen.images, chosen.batch_size, chosen.lr, settings.seed)
    net.normalise(tensor_of(data.train).to(run.device))
    save_classifier(path, net)
    return accuracy(net, data.images[held], data.labels[held])


if __name__ == "__main__":
    main()
