"""FID, KID, precision and recall by torch-fidelity's formulas, of features of Inception, DINOv2 or a small network.

torch-fidelity unpickles the weights and the features that it reads. Here both are stored in formats that hold numbers
alone, and what it reads has been written by this process.
"""

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unequal.code import fingerprint
from unequal.errors import UserError, one_line
from unequal.evaluation.classifier import load_classifier
from unequal.evaluation.dinov2 import dinov2_of
from unequal.evaluation.formulas import (
    KEY_METRIC_FID,
    KEY_METRIC_KID_MEAN,
    KEY_METRIC_KID_STD,
    KEY_METRIC_PRECISION,
    KEY_METRIC_RECALL,
    URL_INCEPTION_V3,
    FeatureExtractorInceptionV3,
    fid_statistics_to_metric,
    kid_features_to_metric,
    prc_features_to_metric,
)
from unequal.evaluation.sets import TILE, ImageSet
from unequal.files import SHA256, content_hash, read_json, require, settings_hash
from unequal.saved import Saved, saved_or_none, write_saved
from unequal.settings.evaluation import TRAINED_HERE
from unequal.settings.strict import Strict, validate
from unequal.workspace import computed_on

FACTS, CLASSIFIER, INCEPTION, DINOV2 = "extractor.json", "classifier.safetensors", "inception.safetensors", "dinov2"
#: Inception's layer, by torch-fidelity's name, whose 2,048 features FID compares.
LAYER = "2048"
#: Features of so many images are taken to float64 at once.
ROWS = 4096
#: Number of sets of reference images whose features are stored.
REFERENCES = 4
#: What stored features are of, in their file.
KEY = "key"
#: Characters of a reason that may be as long as a network's list of weights.
QUOTED = 200
#: uint8 images [B, C, H, W] → features [B, F].
Network = Callable[[Tensor], Tensor]


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
class Features:
    """Features of a set of images [N, F] (float32), their mean [F] and their covariance [F, F]."""

    features: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> "Features":
        """Features with their mean and covariance."""
        mean: np.ndarray = features.mean(axis=0, dtype=np.float64)
        products = np.zeros((len(mean), len(mean)))
        # Part by part: all features in float64 would be twice as large again as they are.
        for start in range(0, len(features), ROWS):
            centred = features[start : start + ROWS] - mean
            products += centred.T @ centred
        return cls(features, mean, products / (len(features) - 1))

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """Mean and covariance by torch-fidelity's names."""
        return {"mu": self.mean, "sigma": self.covariance}


def score(
    images: ImageSet | np.ndarray,
    reference: np.ndarray,
    extractor: BuiltExtractor,
    device: torch.device,
    kid_subset: int,
    allow_singular: bool = False,
    neighbourhood: int = 3,
    cache: tuple[Path, str] | None = None,
) -> Scores:
    """Compare two sets of uint8 images [N, C, H, W].

    Args:
        images: samples, as an array or part by part.
        reference: real images, which may be mapped from disk.
        extractor: of the features.
        device: where features are computed.
        kid_subset: images a subset of KID.
        allow_singular: score fewer images than features all the same.
        neighbourhood: of precision and recall, the neighbour whose distance is the radius around an image.
        cache: folder and name under which the reference's features are stored; see `features_key`.

    Raises:
        UserError: too few images, or features that are no numbers.
    """
    for what, count in (("samples", len(images)), ("reference images", len(reference))):
        require_enough(what, count, extractor.features, kid_subset, allow_singular, neighbourhood)
    network = network_of(extractor, reference.shape[-1], device)
    ours = Features.of(features_of(images, network, extractor, device))
    make, shape = partial(features_of, reference, network, extractor, device), (len(reference), extractor.features)
    real = Features.of(make()) if cache is None else stored(cache[0] / f"{cache[1]}.features", shape, make)
    made, known = torch.from_numpy(ours.features), torch.from_numpy(real.features)
    kid = kid_features_to_metric(made, known, kid_subset_size=kid_subset, verbose=False)
    scores = Scores(
        frechet_distance(ours, real),
        frechet_distance(Features.of(ours.features[: half_of(len(images))]), real),
        kid[KEY_METRIC_KID_MEAN],
        kid[KEY_METRIC_KID_STD],
        *precision_and_recall(made.to(device), known.to(device), neighbourhood),
    )
    if not np.isfinite(astuple(scores)).all():
        raise UserError(
            f"FID: {scores.fid}, KID: {scores.kid} by {extractor.label}: its features overflow; build the extractor "
            "again (of a classifier with a lower extractor.lr)"
        )
    return scores


def frechet_distance(ours: Features, real: Features) -> float:
    """FID of two sets of features."""
    return float(fid_statistics_to_metric(ours.statistics, real.statistics, verbose=False)[KEY_METRIC_FID])


def half_of(count: int) -> int:
    """Number of images in the first half of a set; a covariance needs two or more."""
    return max(2, count // 2)


def precision_and_recall(ours: Tensor, real: Tensor, neighbourhood: int) -> tuple[float, float]:
    """Precision and recall of features [n, F] against real ones [N, F], on one device."""
    found = prc_features_to_metric(
        ours, real, prc_neighborhood=neighbourhood, prc_batch_size=TILE, save_cpu_ram=True, verbose=False
    )
    return found[KEY_METRIC_PRECISION], found[KEY_METRIC_RECALL]


def features_key(images: str, extractor: BuiltExtractor, device: torch.device) -> str:
    """Hash of all that features of images, named by their content, depend on: weights, code, device and threads."""
    weights = extractor.model_dump(include={"kind", "features", "weights_sha256"})
    conditions = [computed_on(device), torch.get_num_threads(), fingerprint(Path(__file__))]
    return settings_hash([images, weights, *conditions])


def stored(path: Path, shape: tuple[int, int], make: Callable[[], np.ndarray]) -> Features:
    """The features [N, F] that a file holds, made anew where it is missing, damaged or of another shape.

    The most recently used files next to it stay.
    """
    saved = saved_or_none(path)
    if saved is not None and saved.facts == {KEY: path.stem} and saved.tensors["features"].shape == shape:
        path.touch()
        return Features(**{name: tensor.numpy() for name, tensor in saved.tensors.items()})
    made = Features.of(make())
    arrays = {field.name: torch.from_numpy(getattr(made, field.name)) for field in fields(Features)}
    # Stages side by side may make the same features.
    write_saved(own := path.with_name(f"{os.getpid()}-{path.name}"), Saved(arrays, {KEY: path.stem}))
    os.replace(own, path)
    files = sorted(path.parent.glob("[!.]*"), key=lambda one: one.stat().st_mtime, reverse=True)
    for needless in files[REFERENCES:]:
        needless.unlink(missing_ok=True)
    return made


@torch.no_grad()
def features_of(
    images: ImageSet | np.ndarray, network: Network, extractor: BuiltExtractor, device: torch.device
) -> np.ndarray:
    """Features [N, F] (float32) of uint8 images [N, C, H, W]. Raises UserError where they are no numbers."""
    parts = []
    for some in (images if isinstance(images, ImageSet) else ImageSet.of(images)).batches():
        batch = torch.from_numpy(np.array(some)).to(device)
        if extractor.kind not in TRAINED_HERE:
            batch = batch.expand(-1, 3, -1, -1).contiguous()  # grey as RGB
        parts.append(network(batch).float().cpu())
    features = torch.cat(parts).numpy()
    if wrong := int((~np.isfinite(features).all(axis=1)).sum()):
        raise UserError(
            f"FID: the features of {wrong} of {len(images)} images are NaN or infinite by {extractor.label}; "
            "its weights are unsound, build the extractor again (of a classifier with a lower extractor.lr)"
        )
    return features


def network_of(extractor: BuiltExtractor, image_size: int, device: torch.device) -> Network:
    """Network that computes an extractor's features, on a device. Raises UserError where the weights do not fit."""
    try:
        return NETWORKS[extractor.kind](extractor, image_size, device)
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        reason = one_line(error)[:QUOTED]
        raise UserError(f"{extractor.weights}: no weights of its kind ({reason}); build the extractor again") from None


def classifier_network(extractor: BuiltExtractor, image_size: int, device: torch.device) -> Network:
    """The classifier up to its features."""
    classifier = load_classifier(Path(extractor.weights or ""), image_size)
    return lambda batch: classifier.to(device).features(batch)


def inception_network(extractor: BuiltExtractor, image_size: int, device: torch.device) -> Network:
    """Inception up to the layer that FID compares, for images of any size."""
    inception = inception_of(load_file(extractor.weights) if extractor.weights else downloaded())
    return lambda batch: inception.to(device)(batch)[0]


def dinov2_network(extractor: BuiltExtractor, image_size: int, device: torch.device) -> Network:
    """DINOv2 up to its class token, for images of any size."""
    dinov2 = dinov2_of(Path(extractor.weights or ""), f"{extractor.weights}")
    return lambda batch: dinov2.to(device)(batch)


#: By an extractor's kind, what reads its weights.
NETWORKS: dict[str, Callable[[BuiltExtractor, int, torch.device], Network]] = {
    "classifier": classifier_network,
    "rotations": classifier_network,
    "inception": inception_network,
    "dinov2": dinov2_network,
}


def downloaded() -> dict[str, Tensor]:
    """The weights that torch-fidelity publishes, downloaded once; only tensors are unpickled. Raises UserError."""
    try:
        found: dict[str, Tensor] = torch.hub.load_state_dict_from_url(
            URL_INCEPTION_V3, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )
    except Exception as error:  # of the network, the disk or the file
        raise UserError(f"extractor.weights: null: {URL_INCEPTION_V3}: {one_line(error)}") from None
    return found


def inception_of(weights: Mapping[str, Tensor]) -> FeatureExtractorInceptionV3:
    """torch-fidelity's Inception with these weights. Raises UserError where they are another network's."""
    # It reads weights from a file alone, and unpickles it: one that is written here, of tensors.
    file = io.BytesIO()
    torch.save(dict(weights), file)
    file.seek(0)
    try:
        return FeatureExtractorInceptionV3("inception-v3-compat", [LAYER], feature_extractor_weights_path=file)
    except RuntimeError as error:
        reason = one_line(error)[:QUOTED]
        raise UserError(f"extractor.weights: not those of torch-fidelity's Inception ({reason} …)") from None


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
    found = {}
    for field in fields(Scores):
        if field.name != "kid_std":  # a spread of its own
            values = [getattr(one, field.name) for one in scores]
            found[f"{field.name}_mean"] = float(np.mean(values))
            found[f"{field.name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return found
