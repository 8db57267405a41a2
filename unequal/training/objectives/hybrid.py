"""IDDPM's hybrid objective (2102.09672, eq. 16): a squared error, and beside it what teaches the variance."""

from unequal.diffusion.learned_variance import VariationalBound
from unequal.diffusion.network import NetworkFunction
from unequal.diffusion.predictions import to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses
from unequal.training.objectives.single_head import SingleHead

#: λ: one term of the bound, drawn instead of the sum over all T, counts λ·T times.
BOUND_SHARE = 0.001


class Hybrid(SingleHead):
    """Weighted squared error of one half of the channels; from the other half, 0.001·T × a term of the bound.

    The bound is in bits per dimension; its gradient reaches the variance alone.
    """

    def __init__(self, prediction: str, schedule: NoiseSchedule, weight: str, gamma: float | None) -> None:
        super().__init__(prediction, schedule, weight, gamma)
        self.bound = VariationalBound(schedule)

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        x_t = self.noisy(batch)
        output, variance = net(x_t, batch.timesteps).sample.float().chunk(2, dim=1)
        predicted = to_x0(self.prediction, output.detach(), x_t, *self.schedule.at(batch.timesteps, x_t))
        term = self.bound.term(batch.x0, x_t, predicted, variance, batch.timesteps)
        errors = self.errors(output, batch)
        share = BOUND_SHARE * self.schedule.timesteps * batch.weights
        return Losses(errors.weighted + share * term, errors.terms | {"bound": term.detach().mean()})
