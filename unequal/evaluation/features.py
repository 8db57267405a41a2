"""Features of sets of images that may exceed memory, batch by batch."""

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.evaluation.sets import BATCH, GPU_BATCH, ImageSet
from unequal.runtime.progress import progress
from unequal.settings.evaluation import TRAINED_HERE
from unequal.timesteps.batches import to_host

if TYPE_CHECKING:
    from unequal.evaluation.fidelity import BuiltExtractor

#: uint8 images [B, C, H, W] → features [B, F].
Network = Callable[[Tensor], Tensor]


def features_of(
    images: ImageSet | np.ndarray,
    network: Network,
    extractor: "BuiltExtractor",
    device: torch.device,
    folder: Path | None = None,
    shown: bool = False,
) -> np.ndarray:
    """Compute features [N, F] (float32) of uint8 images [N, C, H, W].

    Args:
        folder: for a file without a name from which they are mapped; None: they are in memory.
        shown: with their progress.

    Raises:
        UserError: they are no numbers, or too large for a distance between them.
    """
    features, end = array_of((len(images), extractor.features), folder), 0
    parts = images if isinstance(images, ImageSet) else ImageSet.of(images)
    with progress(len(images), "images", label="features", shown=shown) as bar:
        for some in batch_by_batch(parts, network, extractor, device):
            end += len(some)
            features[end - len(some) : end] = some
            bar.update(len(some))
    if wrong := int((~np.isfinite(np.einsum("nf,nf->n", features, features))).sum()):
        raise UserError(
            f"FID: the features of {wrong} of {len(images)} images are NaN, infinite or too large by "
            f"{extractor.label}; its weights are unsound, build the extractor again (of a classifier with a lower "
            "extractor.lr)"
        )
    return features


@torch.no_grad()
def batch_by_batch(
    images: ImageSet, network: Network, extractor: "BuiltExtractor", device: torch.device
) -> Iterator[np.ndarray]:
    """Yield features [B, F]; a GPU begins the next batch before the last one is fetched."""
    on_gpu, pending = device.type == "cuda", None
    for some in chain(images.batches(GPU_BATCH if on_gpu else BATCH), [None]):
        following = None
        if some is not None:
            batch = torch.from_numpy(np.array(some))
            batch = batch.pin_memory().to(device, non_blocking=True) if on_gpu else batch
            if extractor.kind not in TRAINED_HERE:
                batch = batch.expand(-1, 3, -1, -1).contiguous()  # grey as RGB
            # On its way before the next batch is launched: a copy that is asked for later waits for that batch too.
            following = to_host(network(batch).float())
        if pending is not None:
            features, event = pending
            if event is not None:
                event.synchronize()
            yield features.numpy()
        pending = following


def array_of(shape: tuple[int, int], folder: Path | None) -> np.ndarray:
    """Return an array of float32, in memory or in a file of a folder that is gone with the array."""
    if folder is None:
        return np.empty(shape, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        # A disk that is full is an error here, and no signal at a later access.
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape)
