"""How alike the gradients of timesteps are, before a training that goes by it (2306.00354, section 4.3)."""

import numpy as np
from torch import nn

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.gradient_meter import GradientMeter
from unequal.settings.recipe import MeasuredGradients
from unequal.timesteps.clusters import FOLDS, Affinity
from unequal.timesteps.partition import equal_log_snr
from unequal.training.objectives.objective import Objective
from unequal.workspace import UNSTORED, Chunks


def affinity_of(
    net: nn.Module,
    objective: Objective,
    data: PreparedData,
    schedule: NoiseSchedule,
    chosen: MeasuredGradients,
    seed: int,
    chunks: Chunks = UNSTORED,
) -> Affinity:
    """Cosines between mean gradients over cells of equal log-SNR; cells without a timestep are left out.

    Args:
        net, objective: on one device; the network is left asking for gradients.
        data: whose training images are drawn.
        schedule: of all timesteps.
        chosen: how much is measured.
        seed: of all draws.
        chunks: where it is kept, so that it is measured once for all processes and attempts.
    """
    cells = equal_log_snr(schedule, chosen.cells, drop_empty=True)
    meter = GradientMeter(
        net.train().requires_grad_(True),
        objective,
        tensor_of(data.train),
        folds=FOLDS,
        single_images=FOLDS,
        mean_images=chosen.images,
        seed=seed,
        labels=data.train_labels,
    )

    def cosines() -> np.ndarray:
        return meter.sample(cells).moments().cosines

    (found,) = chunks.all({"cosines": cosines})
    return Affinity(cells, found)
