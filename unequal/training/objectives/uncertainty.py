"""Losses over an uncertainty that is learned: of the noise (EDM2, 2312.02696, section 2.2), or of clusters (ANT)."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.network import NetworkFunction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses, Objective

#: Fourier features of the noise level, as EDM2 has them.
FEATURES = 128
#: Of the generator of their frequencies and phases, which are the same in every training.
FEATURE_SEED = 0


class Uncertainty(nn.Module):
    """u of each timestep: a linear function of Fourier features of (ln r)/4, r = σ/α; 0 before the first step."""

    features: Tensor
    #: That of the network.
    own_lr: float | None = None

    def __init__(self, schedule: NoiseSchedule) -> None:
        super().__init__()
        self.register_buffer("features", fourier_features(-schedule.snr.log() / 8), persistent=False)
        self.weight = nn.Parameter(torch.zeros(FEATURES, device=self.features.device))

    def at(self, timesteps: Tensor) -> Tensor:
        """u at timesteps [B], [B]."""
        return self.features[timesteps] @ self.weight

    @property
    def timesteps(self) -> int:
        """T."""
        return len(self.features)

    def over(self, divided: Tensor, weighted: Tensor) -> Tensor:
        """What is minimised, L/e^u + u, of L/e^u and u [B]."""
        return divided + weighted


class ClusterUncertainty(nn.Module):
    """z of each cluster of timesteps, 0 before the first step (1705.07115, as ANT, 2306.00354, has it)."""

    members: Tensor
    #: ANT's, whatever that of the network is.
    own_lr: float | None = 0.025

    def __init__(self, clusters: Partition, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("members", torch.from_numpy(clusters.members).to(device), persistent=False)
        self.weight = nn.Parameter(torch.zeros(len(clusters), device=device))

    def at(self, timesteps: Tensor) -> Tensor:
        """z at timesteps [B], [B]."""
        return self.weight[self.members[timesteps]]

    @property
    def timesteps(self) -> int:
        """T."""
        return len(self.members)

    def over(self, divided: Tensor, weighted: Tensor) -> Tensor:
        """½·(L/e^z + K·z), of L/e^z and z [B].

        Its mean over a batch with as many images of each cluster is Σ_k ½·(e^(−z_k)·L_k/K + z_k), L_k the mean of a
        cluster; at the least of that, z_k = ln(L_k/K).
        """
        return (divided + len(self.weight) * weighted) / 2


class OverUncertainty(Objective):
    """Another objective, L/e^u + u: at its least, u is ln E[L], so that every timestep's loss is divided by its mean.

    Whatever fixed weight L has, u takes it up; the network's gradient is divided by e^u. Values at different u are not
    comparable: what the log calls loss is L, and what is minimised stands beside it as `uncertain`.
    """

    def __init__(self, objective: Objective, uncertainty: Uncertainty | ClusterUncertainty) -> None:
        super().__init__()
        self.objective = objective
        self.uncertainty = uncertainty
        self.own_lr = uncertainty.own_lr

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        found = self.objective(net, batch)
        u = self.uncertainty.at(batch.timesteps)
        # A timestep's importance weighs all that is learned from it, u too.
        whole = self.uncertainty.over(found.weighted / u.exp(), batch.weights * u)
        loss = found.weighted.detach().mean()
        return Losses(whole, found.terms | {"loss": loss, "uncertain": whole.detach().mean()})

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)
        # The network's gradient is averaged over processes as it comes; this one is no part of the network.
        for parameter in self.uncertainty.parameters():
            assert parameter.grad is not None
            parameter.grad = total(parameter.grad) / total(torch.ones_like(parameter.grad[0]))

    def factors(self) -> Tensor:
        """e^(−u) [T]; the constants of clusters are left out."""
        timesteps = torch.arange(self.uncertainty.timesteps, device=self.uncertainty.weight.device)
        return torch.exp(-self.uncertainty.at(timesteps)).detach()

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()


def fourier_features(level: Tensor) -> Tensor:
    """cos(2π(f·x + φ)) of levels x [T], f ~ N(0, 1), φ ~ U(0, 1), with a length of about 1, [T, FEATURES] float32.

    EDM2 keeps the length of its weights instead, which slows u down by as much.
    """
    generator = torch.Generator().manual_seed(FEATURE_SEED)
    frequencies = torch.randn(FEATURES, generator=generator).to(level)
    phases = torch.rand(FEATURES, generator=generator).to(level)
    return ((2 / FEATURES) ** 0.5 * torch.cos(2 * torch.pi * (level[:, None] * frequencies + phases))).float()
