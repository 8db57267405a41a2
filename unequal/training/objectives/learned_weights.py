"""States of learned weights: running means of bins, and uncertainties of the noise or of clusters of timesteps.

`unequal.training.objectives.objective` applies them.
"""

import torch
from torch import Tensor, nn

from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import Partition

#: Loss of an untrained network, about, in the space of ε, v or x0: images and noise are of order 1.
UNTRAINED = 1.0
#: Fourier features of the noise level, as EDM2 has them.
FEATURES = 128
#: Seed of their frequencies and phases, which are the same in every training.
FEATURE_SEED = 0


class RunningMeans(nn.Module):
    """Means of losses in bins of timesteps, a loss counting half after `half_life` further images of any bin."""

    sums: Tensor
    counts: Tensor

    def __init__(self, bins: Partition, losses: int, half_life: int, device: torch.device) -> None:
        """
        Args:
            bins: of the timesteps.
            losses: per image; each has means of its own.
            half_life: in images.
            device: of the training.
        """
        super().__init__()
        self.bins = torch.from_numpy(bins.members).to(device)
        self.half_life = half_life
        # Before the first image of a bin, its mean is what an untrained network loses.
        start = torch.ones(len(bins), 1, dtype=torch.float64, device=device)
        self.register_buffer("sums", UNTRAINED * start.repeat(1, losses))
        self.register_buffer("counts", start)

    def at(self, timesteps: Tensor) -> Tensor:
        """Means at timesteps [n], [losses, n]."""
        return (self.sums / self.counts).float()[self.bins[timesteps]].T

    def update(self, images: Tensor, losses: Tensor) -> None:
        """Take in a step: its images [bins, 1], and the sums of their losses [bins, losses]."""
        kept = 0.5 ** (images.sum() / self.half_life)
        self.sums.mul_(kept).add_(losses)
        self.counts.mul_(kept).add_(images)


class Uncertainty(nn.Module):
    """u of each timestep (EDM2, 2312.02696, section 2.2): linear in Fourier features of (ln r)/4, r = σ/α; first 0."""

    features: Tensor
    #: Learning rate; None: that of the network.
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

    def minimised(self, divided: Tensor, weighted: Tensor) -> Tensor:
        """The minimised loss L/e^u + u, from L/e^u and u [B]."""
        return divided + weighted


class ClusterUncertainty(nn.Module):
    """z of each cluster of timesteps, 0 before the first step (1705.07115, as ANT, 2306.00354, has it)."""

    members: Tensor
    #: ANT's learning rate, whatever that of the network is.
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

    def minimised(self, divided: Tensor, weighted: Tensor) -> Tensor:
        """The minimised loss ½·(L/e^z + K·z), from L/e^z and z [B].

        Its mean over a batch with as many images of each cluster is Σ_k ½·(e^(−z_k)·L_k/K + z_k), L_k the mean of a
        cluster; at the least of that, z_k = ln(L_k/K).
        """
        return (divided + len(self.weight) * weighted) / 2


def fourier_features(level: Tensor) -> Tensor:
    """cos(2π(f·x + φ)) of levels x [T], f ~ N(0, 1), φ ~ U(0, 1), with a length of about 1, [T, FEATURES] float32.

    EDM2 keeps the length of its weights instead, which slows u down by as much.
    """
    generator = torch.Generator().manual_seed(FEATURE_SEED)
    frequencies = torch.randn(FEATURES, generator=generator).to(level)
    phases = torch.rand(FEATURES, generator=generator).to(level)
    return ((2 / FEATURES) ** 0.5 * torch.cos(2 * torch.pi * (level[:, None] * frequencies + phases))).float()
