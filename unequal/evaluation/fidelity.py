"""FID and KID by torch-fidelity, with Inception's features or those of the pipeline's classifier."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch_fidelity
from pydantic import PositiveInt
from torch import Tensor
from torch.utils.data import Dataset
from torch_fidelity.feature_extractor_base import FeatureExtractorBase

from unequal.errors import UserError
from unequal.evaluation.classifier import Classifier, load_classifier
from unequal.files import content_hash, read_json, require
from unequal.settings.strict import Strict, validate

FACTS, CLASSIFIER, INCEPTION = "extractor.json", "classifier.safetensors", "inception.pth"
LAYER = "features"


class Extractor(Strict):
    """Which features are compared, and the file of weights beside extractor.json; None: torch-fidelity's own."""

    kind: Literal["classifier", "inception"]
    features: PositiveInt
    weights: str | None
    weights_sha256: str | None

    @classmethod
    def load(cls, folder: Path) -> "Extractor":
        """From the folder that `build_extractor` makes. Raises UserError where something in it has changed."""
        extractor = validate(cls, read_json(folder / FACTS), folder / FACTS)
        if extractor.weights is None:
            return extractor
        path = folder / extractor.weights
        if content_hash(require(path)) != extractor.weights_sha256:
            raise UserError(f"{path}: altered or cut short since the extractor was built; build it again")
        return extractor.model_copy(update={"weights": str(path)})

    @property
    def label(self) -> str:
        """Name and version, as it stands beside every figure."""
        return f"{self.kind}-{(self.weights_sha256 or 'torch-fidelity')[:12]}"


@dataclass(frozen=True)
class Scores:
    """Distances between two sets of images; smaller is closer."""

    fid: float
    kid: float
    kid_std: float


class ClassifierFeatures(FeatureExtractorBase):
    """The classifier, as torch-fidelity calls it."""

    def __init__(self, name: str, features_list: list[str], feature_extractor_weights_path: str, **_: Any) -> None:
        super().__init__(name, features_list)
        self.weights = Path(feature_extractor_weights_path)
        self.net: Classifier | None = None

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        """The one layer there is."""
        return (LAYER,)

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        """The same for every metric."""
        return LAYER

    @staticmethod
    def can_be_compiled() -> bool:
        """Too small to gain by it."""
        return False

    @staticmethod
    def get_dummy_input_for_compile() -> Tensor:
        """Asked for by the base class, used by compilation only."""
        return torch.zeros(1, 1, 8, 8, dtype=torch.uint8)

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Features of uint8 images [B, C, H, W]."""
        if self.net is None:
            self.net = load_classifier(self.weights, images.shape[-1]).to(images.device)
        return (self.net.features(images).float(),)


torch_fidelity.register_feature_extractor("unequal-classifier", ClassifierFeatures)


class Images(Dataset[Tensor]):
    """uint8 images [N, C, H, W] as torch-fidelity wants them: bare tensors, in RGB for Inception."""

    def __init__(self, images: np.ndarray, rgb: bool) -> None:
        self.images, self.rgb = images, rgb

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image = torch.from_numpy(np.array(self.images[index]))
        return image.expand(3, -1, -1) if self.rgb else image


def score(
    images: np.ndarray,
    reference: np.ndarray,
    extractor: Extractor,
    device: torch.device,
    kid_subset: int,
    allow_singular: bool = False,
    cache: tuple[Path, str] | None = None,
) -> Scores:
    """Compare two sets of uint8 images [N, C, H, W].

    Args:
        images, reference: samples and real images.
        extractor: of the features.
        device: where features are computed.
        kid_subset: images a subset of KID.
        allow_singular: score fewer images than features all the same.
        cache: folder and name under which the reference's features are kept; the name must tell
            apart data and weights, since torch-fidelity knows neither.

    Raises:
        UserError: too few images.
    """
    for what, count in (("samples", len(images)), ("reference images", len(reference))):
        require_enough(what, count, extractor.features, kid_subset, allow_singular)
    classifier = extractor.kind == "classifier"
    caching: dict[str, Any] = {"cache": False}
    if cache is not None:
        caching = {"cache": True, "cache_root": str(cache[0]), "input2_cache_name": cache[1]}
    metrics = torch_fidelity.calculate_metrics(
        input1=Images(images, rgb=not classifier),
        input2=Images(reference, rgb=not classifier),
        feature_extractor="unequal-classifier" if classifier else "inception-v3-compat",
        feature_extractor_weights_path=extractor.weights,
        fid=True,
        kid=True,
        kid_subset_size=kid_subset,
        cuda=device.type == "cuda",
        save_cpu_ram=True,
        verbose=False,
        **caching,
    )
    return Scores(
        metrics["frechet_inception_distance"],
        metrics["kernel_inception_distance_mean"],
        metrics["kernel_inception_distance_std"],
    )


def require_enough(what: str, count: int, features: int, kid_subset: int, allow_singular: bool) -> None:
    """Raise UserError where FID's covariance would be singular, or a subset of KID larger than the set."""
    if count < features and not allow_singular:
        raise UserError(
            f"FID: {count} {what} for {features} features make the covariance singular; "
            "use more, or set evaluation.allow_singular: true"
        )
    if count < kid_subset:
        raise UserError(f"KID: {count} {what}, fewer than evaluation.kid_subset {kid_subset}")


def spread(scores: list[Scores]) -> dict[str, float]:
    """Mean and standard deviation of each score over sampling seeds."""
    table = [asdict(one) for one in scores]
    means = {f"{name}_mean": float(np.mean([row[name] for row in table])) for name in ("fid", "kid")}
    several = len(table) > 1
    return means | {
        f"{name}_sd": float(np.std([row[name] for row in table], ddof=1)) if several else 0.0 for name in ("fid", "kid")
    }
