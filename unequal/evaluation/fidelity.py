"""Scores of images by features of Inception, DINOv2 or a small network; features of real images are stored.

Weights and features are stored in formats that hold numbers alone.
"""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "safetensors", "scipy", "torch_fidelity", "tqdm")

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file

from unequal.errors import UserError, one_line
from unequal.evaluation.classifier import load_classifier
from unequal.evaluation.dinov2 import dinov2_of
from unequal.evaluation.distances import (
    Features,
    RealFeatures,
    frechet_distance,
    kernel_distance,
    precision_and_recall,
)
from unequal.evaluation.features import Network, features_of
from unequal.evaluation.inception import QUOTED, downloaded, inception_of
from unequal.evaluation.sets import ImageSet
from unequal.runtime.devices import computed_on
from unequal.runtime.files import SHA256, content_hash, read_json, require, settings_hash
from unequal.runtime.tensor_files import Saved, saved_or_none, write_saved
from unequal.settings.strict import Strict, validate

FACTS, CLASSIFIER, INCEPTION, DINOV2 = "extractor.json", "classifier.safetensors", "inception.safetensors", "dinov2"
#: Number of sets of reference images whose features are stored.
REFERENCES = 4
#: Modules next to this one that make features.
CODE = ("classifier", "dinov2", "distances", "features", "fidelity", "inception")
#: Name of the key of stored features, in their file.
KEY = "key"


class BuiltExtractor(Strict):
    """Kind of features, and the file or folder of weights next to extractor.json; None: torch-fidelity's."""

    kind: Literal["classifier", "rotations", "inception", "dinov2"]
    features: PositiveInt
    weights: str | None
    weights_sha256: Annotated[str, Field(pattern=SHA256)] | None
    holdout_accuracy: float | None = Field(
        default=None, description="of a network trained here: share of held-out images"
    )

    @classmethod
    def load(cls, folder: Path) -> "BuiltExtractor":
        """Load the folder that `build_extractor` makes. Raises UserError where something in it has changed."""
        extractor = validate(cls, read_json(folder / FACTS), folder / FACTS)
        if extractor.weights is None and extractor.kind == "inception":
            return extractor
        if extractor.weights not in (CLASSIFIER, INCEPTION, DINOV2):
            raise UserError(f"{folder / FACTS}: weights '{extractor.weights}'; build the extractor again")
        path = folder / extractor.weights
        if content_hash(require(path)) != extractor.weights_sha256:
            raise UserError(f"{path}: altered or cut short since the extractor was built; build it again")
        return extractor.model_copy(update={"weights": str(path)})

    @property
    def label(self) -> str:
        """Name and version, as recorded with every figure."""
        return f"{self.kind}-{(self.weights_sha256 or 'torch-fidelity')[:12]}"


@dataclass(frozen=True)
class Scores:
    """Scores of images against real ones: FID, KID, precision and recall.

    Attributes:
        fid: Fréchet distance of all images; for n of them biased upwards by about a constant over n.
        fid_half: that of their first half, see `half_of`, from the same reference: twice that bias.
        kid: squared distance by cubic kernels, unbiased; `kid_std` is its spread over subsets.
        precision: share of the images that lie within the real ones' neighbourhoods (1904.06991).
        recall: share of the real ones that lie within the images' neighbourhoods.
    """

    fid: float
    fid_half: float
    kid: float
    kid_std: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Scorer:
    """Scores sets of images against real ones, whose features are computed once.

    Args:
        reference: real images, uint8 [N, C, H, W], which may be mapped from disk.
        extractor: of the features.
        device: where features are computed.
        kid_subset: images a subset of KID.
        allow_singular: score fewer images than features all the same.
        neighbourhood: of precision and recall, the neighbour whose distance is the radius around an image.
        cache: folder and name under which the reference's features are stored; see `features_key`.
        shown: with the progress of the features.
        what: the real images in refusals.
    """

    reference: np.ndarray
    extractor: BuiltExtractor
    device: torch.device
    kid_subset: int
    allow_singular: bool = False
    neighbourhood: int = 3
    cache: tuple[Path, str] | None = None
    shown: bool = False
    what: str = "reference images"

    def __call__(self, images: ImageSet | np.ndarray) -> Scores:
        """Score uint8 images [n, C, H, W]. Raises UserError for too few images, or features that are no numbers."""
        self.check(len(images))
        ours, real, device = Features.of(self.features(images), self.device), self.real, self.device
        return Scores(
            frechet_distance(ours, real, device),
            frechet_distance(Features.of(ours.features[: half_of(len(images))], device), real, device),
            *kernel_distance(ours.features, real.features, self.kid_subset, device),
            *precision_and_recall(ours.features, real, self.neighbourhood, device),
        )

    def check(self, samples: int) -> None:
        """Raise UserError where so many samples, or the real images, are too few for a score."""
        for what, count in (("samples", samples), (self.what, len(self.reference))):
            require_enough(
                what, count, self.extractor.features, self.kid_subset, self.allow_singular, self.neighbourhood
            )

    @cached_property
    def network(self) -> Network:
        return network_of(self.extractor, self.reference.shape[-1], self.device)

    @cached_property
    def real(self) -> RealFeatures:
        """Features of the real images, from the cache where it holds them."""
        if self.cache is None:
            return self.made()
        return stored(self.cache[0] / f"{self.cache[1]}.features", len(self.reference), self.made)

    def made(self) -> RealFeatures:
        return RealFeatures.around(self.features(self.reference), self.neighbourhood, self.device)

    def features(self, images: ImageSet | np.ndarray) -> np.ndarray:
        """Features [n, F] of images, of many of them in a file next to the cache."""
        folder = None if self.cache is None else self.cache[0]
        return features_of(images, self.network, self.extractor, self.device, folder, self.shown)


def half_of(count: int) -> int:
    """Number of images in the first half of a set; a covariance needs two or more."""
    return max(2, count // 2)


def features_key(images: str, extractor: BuiltExtractor, neighbourhood: int, device: torch.device) -> str:
    """Hash of all that features of images, named by their content, depend on: weights, code, device and threads."""
    weights = extractor.model_dump(include={"kind", "features", "weights_sha256"})
    code = [content_hash(Path(__file__).with_name(f"{name}.py")) for name in CODE]
    return settings_hash([images, weights, neighbourhood, computed_on(device), torch.get_num_threads(), code])


def stored(path: Path, count: int, make: Callable[[], RealFeatures]) -> RealFeatures:
    """The features that a file holds, made anew where it is missing, damaged or of another number of images.

    The most recently used files next to it stay.
    """
    saved = saved_or_none(path)
    if saved is not None and saved.facts == {KEY: path.stem} and len(saved.tensors["features"]) == count:
        path.touch()
        return RealFeatures(**{name: tensor.numpy() for name, tensor in saved.tensors.items()})
    made = make()
    arrays = {field.name: torch.from_numpy(getattr(made, field.name)) for field in fields(RealFeatures)}
    # Stages side by side may make the same features.
    write_saved(own := path.with_name(f"{os.getpid()}-{path.name}"), Saved(arrays, {KEY: path.stem}))
    os.replace(own, path)
    files = sorted(path.parent.glob("[!.]*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for needless in files[REFERENCES:]:
        needless.unlink(missing_ok=True)
    return made


def network_of(extractor: BuiltExtractor, image_size: int, device: torch.device) -> Network:
    """Network that computes an extractor's features, on a device. Raises UserError where the weights do not fit."""
    path = Path(extractor.weights or "")
    try:
        match extractor.kind:
            case "inception":
                inception = inception_of(load_file(path) if extractor.weights else downloaded())
                return lambda batch: inception.to(device)(batch)[0]
            case "dinov2":
                dinov2 = dinov2_of(path, str(path))
                return lambda batch: dinov2.to(device)(batch)
            case "classifier" | "rotations":
                classifier = load_classifier(path, image_size)
                return lambda batch: classifier.to(device).features(batch)
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        reason = one_line(error)[:QUOTED]
        raise UserError(f"{extractor.weights}: no weights of its kind ({reason}); build the extractor again") from None


def require_enough(
    what: str, count: int, features: int, kid_subset: int, allow_singular: bool, neighbourhood: int
) -> None:
    """Raise UserError where FID has no covariance or a singular one, or KID's subsets or neighbours exceed the set."""
    if count < 2:
        raise UserError(f"FID: {count} {what}; their covariance takes 2 or more")
    if count < features and not allow_singular:
        raise UserError(
            f"FID: {count} {what} for {features} features make the covariance singular; "
            "use more, or set evaluation.allow_singular: true"
        )
    if not 2 <= kid_subset <= count:
        raise UserError(f"KID: subsets of {kid_subset} of {count} {what}; allowed: 2 … {count}, evaluation.kid_subset")
    if neighbourhood >= count:
        raise UserError(
            f"precision: {neighbourhood} neighbours of one of {count} {what}; allowed: 1 … {count - 1}, "
            "evaluation.neighbourhood"
        )


def spread(scores: list[Scores]) -> dict[str, float]:
    """Mean and standard deviation of each score over sampling seeds."""
    figures = {}
    for field in fields(Scores):
        if field.name != "kid_std":  # a spread of its own
            values = [getattr(score, field.name) for score in scores]
            figures[f"{field.name}_mean"] = float(np.mean(values))
            figures[f"{field.name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return figures
