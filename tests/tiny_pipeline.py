"""Where the tiny pipeline lies that several test modules look at."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

#: File that its `data.path` names.
IMAGES = "outside/images.npz"


@dataclass(frozen=True)
class TinyPipeline:
    """A project whose pipeline has run."""

    project: Path

    def copied(self, target: Path) -> Path:
        """A copy to be changed, in which both engines find nothing to do either."""
        return shutil.copytree(self.project, target, symlinks=True)


def write_images(project: Path, seed: int = 0) -> None:
    """scikit-learn's digits as a file of the user's, in an order."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.images))
    (project / IMAGES).parent.mkdir(exist_ok=True)
    np.savez(project / IMAGES, images=(digits.images[order] * 15).astype(np.uint8), labels=digits.target[order])
