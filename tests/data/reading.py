"""Settings of small data sets, and all images of a source."""

from typing import Any

import numpy as np

from unequal.data.source import Source
from unequal.settings.data import Data


def settings(**changes: Any) -> Data:
    """Settings of the digits, with other values."""
    default = {"source": "digits", "path": None, "image_size": 8, "channels": 1, "fit": "exact", "holdout": 0.1}
    return Data(**{**default, **changes})


def every_image(source: Source) -> np.ndarray:
    """All images, uint8 [n, H, W, C] or [n, H, W]."""
    return np.stack([source[index] for index in range(len(source))])
