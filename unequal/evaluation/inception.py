"""torch-fidelity's Inception, imported without the networks of torchvision.

torch-fidelity imports torchvision for other measures, and all of that takes three times as long as torch. It unpickles
the weights that it reads: here these are read without code, and what it reads has been written by this process.
"""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "torch_fidelity")

import io
from collections.abc import Mapping

import torch
from torch import Tensor

from unequal.errors import UserError, one_line
from unequal.models.lazy_imports import defer

for package in ("torchvision", "torchvision.models", "torchvision.ops"):
    defer(package)

from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3, FeatureExtractorInceptionV3

__all__ = ["LAYER", "QUOTED", "URL_INCEPTION_V3", "FeatureExtractorInceptionV3", "downloaded", "inception_of"]
#: Layer, by torch-fidelity's name, whose 2,048 features FID compares.
LAYER = "2048"
#: Characters of a reason that may be as long as a network's list of weights.
QUOTED = 200


def downloaded() -> dict[str, Tensor]:
    """The weights that torch-fidelity publishes, downloaded once; only tensors are unpickled. Raises UserError."""
    try:
        weights: dict[str, Tensor] = torch.hub.load_state_dict_from_url(
            URL_INCEPTION_V3, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )
    except Exception as error:  # of the network, the disk or the file
        raise UserError(f"extractor.weights: null: {URL_INCEPTION_V3}: {one_line(error)}") from None
    return weights


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
