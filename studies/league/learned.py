"""What the trainings of a recipe have learned to put their weight on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unequal.files import read_json


def learned_by(folder: Path, blocks: Sequence[int]) -> dict[str, np.ndarray]:
    """Means over blocks of the tables [T] that a recipe's trainings have told of; none where settings tell all.

    Raises:
        UserError: a file is missing or no JSON.
    """
    told = [read_json(folder / f"block_{block}.json").get("emphasis", {}) for block in blocks]
    return {name: np.mean([one[name] for one in told], axis=0) for name in told[0]}
