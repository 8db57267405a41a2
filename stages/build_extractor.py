"""Prepare the features for FID: train a small network, or copy the weights of Inception or DINOv2."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from unequal.data.prepared import PreparedData, tensor_of
from unequal.errors import UserError, first_line
from unequal.evaluation.classifier import (
    ROTATIONS,
    Classifier,
    accuracy,
    check_accuracy,
    save_classifier,
    train_classifier,
)
from unequal.evaluation.dinov2 import CONFIG, TENSORS, check_files, dinov2_of
from unequal.evaluation.fidelity import CLASSIFIER, DINOV2, FACTS, INCEPTION, BuiltExtractor
from unequal.evaluation.inception import inception_of
from unequal.models.weights import check_finite
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, torch_seed
from unequal.runtime.files import content_hash, require, write_json
from unequal.settings.evaluation import Extractor
from unequal.settings.strict import StageSettings

#: Name of the weights in the extractor's folder, and a classifier's accuracy on held-out images.
Prepared = tuple[str | None, float | None]


class Settings(StageSettings):
    seed: int
    extractor: Extractor


def make_inception(run: Run, settings: Settings, images: PreparedData, folder: Path) -> Prepared:
    """Copy the weights of the settings' file; without one, torch-fidelity's own are used."""
    if settings.extractor.weights is None:
        return None, None
    copy_tensors(Path(settings.extractor.weights), folder / INCEPTION)
    return INCEPTION, None


def make_dinov2(run: Run, settings: Settings, images: PreparedData, folder: Path) -> Prepared:
    """Copy the files of the settings' folder that are read.

    Raises:
        UserError: another model, or another number of features.
    """
    source, target, features = Path(settings.extractor.weights or ""), folder / DINOV2, settings.extractor.features
    place = f"extractor.weights: {source}"
    check_files(source, place)
    target.mkdir()
    for name in (CONFIG, TENSORS):
        shutil.copyfile(source / name, target / name)
    # The copy is checked, since transformers would read further files next to the source.
    network = dinov2_of(target, place)
    if network.features != features:
        raise UserError(f"extractor.features: {features}; {source} has {network.features}, its hidden_size")
    check_finite(network.network.state_dict(), place)
    return DINOV2, None


def copy_tensors(source: Path, target: Path) -> None:
    """Copy Inception's weights into a format that holds tensors alone. Raises UserError for other weights."""
    try:
        weights = torch.load(require(source), map_location="cpu", weights_only=True)
        inception_of(weights)
        check_finite(weights, "extractor.weights")
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    except Exception as error:  # other files fail in many ways
        raise UserError(f"extractor.weights: {source}: no file of bare weights ({first_line(error)})") from None
    save_file(
        {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}, target
    )


def make_classifier(run: Run, settings: Settings, data: PreparedData, folder: Path) -> Prepared:
    """Train a small network on the labels, or on rotations.

    Raises:
        UserError: no labels; features that distinguish nothing.
    """
    chosen, (channels, size, _) = settings.extractor, data.images.shape[1:]
    labels = data.labels if chosen.kind == "classifier" else None
    if labels is None and chosen.kind == "classifier":
        raise UserError(
            "extractor.kind: 'classifier' needs labelled data; use rotations, inception, dinov2, or data with labels"
        )
    torch.manual_seed(torch_seed(settings.seed, Stream.INITIAL_WEIGHTS))
    classes = ROTATIONS if labels is None else data.facts["labels"]
    net = Classifier(channels, size, chosen.features, classes).to(run.device)
    train = slice(*data.facts["split"]["train"])
    held = slice(*data.facts["split"]["holdout"])
    learned = None if labels is None else labels[train]
    train_classifier(
        net,
        data.train,
        learned,
        chosen.images,
        chosen.batch_size,
        chosen.lr,
        settings.seed,
        shown=run.runtime.progress,
    )
    net.normalise(tensor_of(data.train))
    shown = None if labels is None else labels[held]
    accurate = accuracy(net, data.images[held], shown)
    check_accuracy(accurate, len(data.holdout), shown)
    save_classifier(folder / CLASSIFIER, net)
    return CLASSIFIER, accurate


#: Kind of an extractor → function that prepares it.
MAKERS: dict[str, Callable[[Run, Settings, PreparedData, Path], Prepared]] = {
    "classifier": make_classifier,
    "rotations": make_classifier,
    "inception": make_inception,
    "dinov2": make_dinov2,
}


@stage(Settings)
def main(run: Run, settings: Settings, data: str = "data") -> None:
    """Build the feature extractor, on the images in a folder of that name below artifacts."""
    images = PreparedData.open(run.input(f"artifacts/{data}"))
    run.source("extractor")
    folder = run.output("artifacts/extractor")
    folder.mkdir()
    chosen = settings.extractor
    weights, accurate = MAKERS[chosen.kind](run, settings, images, folder)
    sha256 = None if weights is None else content_hash(folder / weights)
    built = BuiltExtractor(
        kind=chosen.kind, features=chosen.features, weights=weights, weights_sha256=sha256, holdout_accuracy=accurate
    ).model_dump()
    write_json(folder / FACTS, built)
    run.metrics("results/metrics/extractor.json", built)
