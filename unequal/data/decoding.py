"""Decoding of image files by several threads, part after part; a preparation that was stopped finds its parts again."""

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from unequal.errors import UserError
from unequal.runtime.tensor_files import Saved, saved_or_none, write_saved

#: Files and bytes of pixels of a part: a kill loses one part at most, and memory holds one.
PART_FILES, PART_BYTES = 500, 64 << 20
PIXELS, CONVERTED = "pixels", "converted"


Attempt = Callable[[int], tuple[np.ndarray | UserError, list[str]]]


def decoded(
    attempt: Attempt, order: np.ndarray, shape: tuple[int, int, int], parts: Path | None, lost: Counter[str]
) -> Iterator[np.ndarray | UserError]:
    """Decode files in an order, by as many threads as there are cores: decoders run without Python's lock.

    Args:
        attempt: index of a file → its pixels, or why it cannot be used, and what was converted with loss.
        order: indices of the files.
        shape: of an image.
        parts: folder of this order's finished parts; None: they are not stored.
        lost: counts what was converted.

    Yields:
        uint8 images, or why a file cannot be used.
    """
    size = max(1, min(PART_FILES, PART_BYTES // math.prod(shape)))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for start in range(0, len(order), size):
            file = None if parts is None else parts / f"{start:09d}.part"
            if file is not None and (saved := saved_or_none(file)) is not None:
                lost.update(saved.facts[CONVERTED])
                yield from saved.tensors[PIXELS].numpy()
                continue
            with warnings.catch_warnings():  # here too: threads that silence them disturb one another
                warnings.simplefilter("ignore")
                found = list(pool.map(attempt, order[start : start + size].tolist()))
            converted = Counter(step for _, steps in found for step in steps)
            lost.update(converted)
            pixels = [one for one, _ in found]
            whole = [one for one in pixels if isinstance(one, np.ndarray)]
            if file is not None and len(whole) == len(pixels):
                write_saved(file, Saved({PIXELS: torch.from_numpy(np.stack(whole))}, {CONVERTED: converted}))
            yield from pixels
