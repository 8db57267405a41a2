"""What training a model on has done: the losses of all slots on the same draws before and after, and pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.spacing import spaced_timesteps
from unequal.files import rounded
from unequal.measures.loss_profile import relative_change
from unequal.measures.profiling import Draws, profile
from unequal.randomness import torch_seed
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Sampling
from unequal.settings.profile import Profile
from unequal.timesteps.partition import Partition


class Looking:
    """Measures models by the same held-out draws and from the same noise.

    Args:
        data: held-out images that nothing is chosen by.
        profile, sampling: settings.
        count: pictures a model.
        seed, block: of draws and noise; blocks have their own.
        device: where models are asked.
    """

    def __init__(
        self,
        data: PreparedData,
        profile: Profile,
        sampling: Sampling,
        count: int,
        seed: int,
        block: int,
        device: torch.device,
    ) -> None:
        self.data, self.profile, self.sampling, self.count = data, profile, sampling, count
        self.seed, self.device = torch_seed(seed, block), device

    def at(self, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        """Losses of ε of a model [T, n], and pictures [count, C, H, W] uint8."""
        model = Ensemble.load(folder, self.device)
        return self.losses(model), self.pictures(model)

    def losses(self, model: Ensemble) -> np.ndarray:
        """Of held-out draws."""
        images, labels = tensor_of(self.data.holdout_report), self.data.holdout_report_labels
        chosen, timesteps = self.profile, model.schedule.timesteps
        draws = Draws.of(images, timesteps, chosen.images, self.seed, self.device, labels)
        return profile(model, draws, chosen.batch_size).epsilon

    def pictures(self, model: Ensemble) -> np.ndarray:
        """The first few."""
        chosen = self.sampling
        timesteps = spaced_timesteps(chosen.steps, model.schedule, chosen.spacing)
        made = model.images(
            range(self.count), timesteps, seed=self.seed, eta=chosen.eta, clip=chosen.clip, solver=chosen.solver
        )
        return made.numpy()


def changes(before: np.ndarray, after: np.ndarray, slots: Partition) -> dict[str, Any]:
    """Relative changes of the summed losses [T, n] of each slot and of all, with paired standard errors over draws."""
    by_slot = [relative_change(before[one.slice], after[one.slice]) for one in slots]
    whole, error = relative_change(before, after)
    return {
        "slots": [rounded(change) for change, _ in by_slot],
        "slots_stderr": [rounded(stderr) for _, stderr in by_slot],
        "all": rounded(whole),
        "all_stderr": rounded(error),
    }
