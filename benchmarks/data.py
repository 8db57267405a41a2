"""Waits of a training step for images that are not in memory.

Images are written into a temporary file and dropped from the system's cache; then a training reads the mapped file. All
are shuffled together and each batch is gathered when it is asked for; or they are shuffled in windows; or in windows
with the next batch gathered ahead, as large sets are.
"""

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.timing import seconds
from benchmarks.training import advance, our_loop, watched
from unequal.data.prepared import tensor_of
from unequal.settings.params import Params
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import WINDOW_BYTES, BatchSource

IMAGES_AT_ONCE = 1000
#: (shuffled in windows, gathered ahead) by name.
READINGS = {"whole": (False, False), "windows": (True, False), "windows_ahead": (True, True)}


def generate(path: Path, images: int, size: int) -> None:
    """Write uint8 images [N, 3, size, size] without meaning."""
    mapped = np.lib.format.open_memmap(path, "w+", np.uint8, (images, 3, size, size))
    generator = np.random.default_rng(0)
    for start in range(0, images, IMAGES_AT_ONCE):
        part = mapped[start : start + IMAGES_AT_ONCE]
        part[:] = generator.integers(0, 256, part.shape, dtype=np.uint8)
    mapped.flush()


def forget(path: Path) -> None:
    """Drop a file from the system's cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def waiting(path: Path, reading: str, params: Params, device: torch.device, steps: int) -> dict[str, float]:
    """Measure the seconds of a step, and the share of them that passes until its batch is there."""
    images = tensor_of(np.load(path, mmap_mode="r"))
    windows, ahead = READINGS[reading]
    window = WINDOW_BYTES // images[0].nbytes if windows else None
    sampler = TimestepSampler(uniform(params.schedule.timesteps))
    source = BatchSource(images, params.training.batch_size, sampler, 0, True, device, window, ahead)
    with tempfile.TemporaryDirectory() as work:
        trainer = our_loop(params, device, Path(work), source)
        advance(trainer, 2)
        forget(path)
        with watched(BatchSource, "draw", torch.device("cpu"), clock=seconds) as waits:
            whole = seconds(lambda: advance(trainer, steps), device)
    return {"step": whole / steps, "share": sum(waits) / whole}


def measure(params: Params, device: torch.device, images: int, size: int, steps: int, rounds: int) -> dict[str, Any]:
    """Measure all ways of reading, in turns; medians over rounds."""
    data = params.data.model_copy(update={"image_size": size, "channels": 3})
    params = params.model_copy(update={"data": data})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        generate(path, images, size)
        turns = [{name: waiting(path, name, params, device, steps) for name in READINGS} for _ in range(rounds)]
    return {
        "seconds": {
            name: {what: median(turn[name][what] for turn in turns) for what in ("step", "share")} for name in READINGS
        },
        "images": images,
        "image": [3, size, size],
        "batch_size": params.training.batch_size,
        "steps": steps,
        "every_round": turns,
    }
