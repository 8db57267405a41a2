"""torch-fidelity's formulas and its Inception, imported without the networks of torchvision.

torch-fidelity imports torchvision for other measures than these, and all of that takes three times as long as torch.
"""

# ruff: noqa: E402

from unequal.models.lazy_imports import defer

for package in ("torchvision", "torchvision.models", "torchvision.ops"):
    defer(package)

from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3, FeatureExtractorInceptionV3
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_statistics_to_metric
from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, KEY_METRIC_KID_STD, kid_features_to_metric
from torch_fidelity.metric_prc import KEY_METRIC_PRECISION, KEY_METRIC_RECALL, prc_features_to_metric

__all__ = [
    "KEY_METRIC_FID",
    "KEY_METRIC_KID_MEAN",
    "KEY_METRIC_KID_STD",
    "KEY_METRIC_PRECISION",
    "KEY_METRIC_RECALL",
    "URL_INCEPTION_V3",
    "FeatureExtractorInceptionV3",
    "fid_statistics_to_metric",
    "kid_features_to_metric",
    "prc_features_to_metric",
]
