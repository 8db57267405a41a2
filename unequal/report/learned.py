"""What a study's trainings have learned to put their weight on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unequal.files import read_json


def learned_by(files: Sequence[Path]) -> dict[str, np.ndarray]:
    """Means over trainings of the tables [T] that their files tell of; none where settings tell all.

    Raises:
        UserError: a file is missing or no JSON.
    """
    told = [read_json(file).get("emphasis", {}) for file in files]
    return {name: np.mean([one[name] for one in told], axis=0) for name in told[0]}
