"""Pictures during a training: what its averaged weights make of the same noises, at a few points on the way.

They change nothing of the training: the noise comes from generators of its own, and a copy of the network samples. A
grid takes `COUNT` × `STEPS` forward passes of the network, as much as 53 images of the training. Grids are part of the
training's saved state, since a resumed training has no longer the weights that drew them.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from unequal.data.grids import ROWS, tiled
from unequal.data.prepared import PreparedData, tensor_of, to_model_range, to_uint8
from unequal.diffusion.predictions import HEADS
from unequal.diffusion.solvers import dpm_solver_2m
from unequal.diffusion.spacing import spaced_timesteps
from unequal.models.denoiser import Denoiser, Precision
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, noise_of
from unequal.timesteps.partition import TimestepSet
from unequal.training.averaging import AveragedWeights
from unequal.training.checkpoint import strip_prefix
from unequal.training.objectives import Objective

#: Images of a grid, and timesteps at which the network is asked for them.
COUNT, STEPS = ROWS**2, 10
#: Seed of the noise: the pictures are of the noises that the first samples of this seed begin with.
SEED = 0
#: Name of the pictures in the log.
SAMPLES = "samples"
#: Beginning of their names in a checkpoint.
PREFIX = "picture."


@dataclass(frozen=True)
class Pictures:
    """Draws grids of samples during a training.

    Attributes:
        count: of grids, evenly spaced over the training; the last one at its end.
        spec: of the network.
        own: the timesteps that the network is trained for; outside of them `before` answers.
        before: a copy of the network as it was, where it is trained for some timesteps alone.
        condition: of the images, a row each; None: none.
        autoencoder: folder of that of a model of latents.
        precision: of the network's layers.
        batch_size: images that go through the network at once.
        log: called with a name, the grid, uint8 [C, H, W], and the step.
        grids: step → the grid after it, as far as they are drawn.
    """

    count: int
    spec: ModelSpec
    own: TimestepSet
    before: nn.Module | None
    condition: Tensor | None
    autoencoder: Path | None
    precision: Precision
    batch_size: int
    log: Callable[[str, np.ndarray, int], None] = field(repr=False)
    grids: dict[int, np.ndarray] = field(default_factory=dict)

    def steps(self, total: int) -> list[int]:
        """Optimizer steps after which a grid is drawn, of a training of so many."""
        return sorted({-(-total * point // self.count) for point in range(1, self.count + 1)})

    def draw(self, net: nn.Module, step: int, average: AveragedWeights, objective: Objective) -> None:
        """Draw the grid of a step and log it."""
        shown = deepcopy(net)
        average.copy_to(shown)
        self.grids[step] = tiled(self.sampled(shown, objective))
        self.log(SAMPLES, self.grids[step], step)

    def sampled(self, net: nn.Module, objective: Objective) -> np.ndarray:
        """Images of a network, uint8 [COUNT, C, H, W]; where training diverges, any."""
        heads = best_heads(objective) if self.spec.prediction == "mixed" else None
        denoiser = Denoiser.of(net, self.spec, heads).accelerated(self.precision)
        other = denoiser
        if self.before is not None:
            other = Denoiser.of(deepcopy(self.before).to(denoiser.device), self.spec, heads).accelerated(self.precision)
        schedule, own = denoiser.schedule, set(range(self.spec.timesteps)[self.own.slice])
        timesteps = spaced_timesteps(STEPS, schedule, "edm")
        decode = None
        if self.autoencoder is not None:
            from unequal.models.autoencoder import load_autoencoder  # its imports take seconds

            decode = load_autoencoder(self.autoencoder, denoiser.device, self.batch_size).decode
        parts = list[Tensor]()
        for ids in torch.arange(COUNT).split(self.batch_size):
            condition = None if self.condition is None else self.condition[ids].to(denoiser.device)

            def predict(x: Tensor, t: int, condition: Tensor | None = condition) -> Tensor:
                asked = (denoiser if t in own else other).conditioned(condition)
                x0 = asked.x0(x, torch.full((len(x),), t, device=x.device))
                return x0 if self.autoencoder is not None else x0.clamp(-1, 1)

            noise = noise_of(self.spec.space.shape, ids.tolist(), SEED, Stream.SAMPLE_START, device=denoiser.device)
            x0 = dpm_solver_2m(noise, timesteps, schedule, predict)
            parts.append(to_uint8((x0 if decode is None else decode(x0)).nan_to_num()).cpu())
        return torch.cat(parts).numpy()

    def state_dict(self) -> dict[str, Tensor]:
        return {f"{PREFIX}{step}": torch.from_numpy(grid) for step, grid in self.grids.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        self.grids.update({int(step): grid.numpy() for step, grid in strip_prefix(PREFIX, tensors).items()})


def condition_of(spec: ModelSpec, data: PreparedData) -> Tensor | None:
    """Condition of the pictures, [COUNT, …]: of the held-out images, or of training images where there are none.

    Labels that do not belong to an image are drawn, as for samples.
    """
    images, labels = data.holdout, data.labels_of("holdout")
    if not len(images):
        images, labels = data.train, data.labels_of("train")
    index, belong = torch.arange(COUNT) % len(images), spec.conditioning.takes_labels_of_images
    known = to_model_range(tensor_of(images)[index])
    return spec.conditioning.of_samples(
        range(COUNT), SEED, known, labels[index] if belong and labels is not None else None
    )


def best_heads(objective: Objective) -> Tensor:
    """Weights [T, 3] of the head that has had the smallest errors of x0 around each timestep; v where none was asked.

    How heads are combined in the end is settled after the training.
    """
    tables = objective.statistics()
    errors, images = tables["errors"].sum(0), tables["images"].sum(0)
    best = np.where(images > 0, errors.argmin(1), HEADS.index("v_prediction"))
    return torch.eye(len(HEADS))[torch.from_numpy(best[tables["bins"]])]
