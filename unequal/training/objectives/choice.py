"""The objective of a model with one head: by what it predicts, what it learns of the variance, and what it is told."""

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.spec import ModelSpec
from unequal.settings.loss_weights import BINS, AnyLossWeight, LearnedClusterUncertainty, LearnedUncertainty, LossWeight
from unequal.timesteps.clusters import Affinity, clusters_alike
from unequal.timesteps.partition import equal_log_snr
from unequal.training.objectives.conditioned import conditioned
from unequal.training.objectives.hybrid import Hybrid
from unequal.training.objectives.objective import Objective
from unequal.training.objectives.running_means import OverRunningMean
from unequal.training.objectives.single_head import SingleHead
from unequal.training.objectives.uncertainty import ClusterUncertainty, OverUncertainty, Uncertainty

UNWEIGHTED = LossWeight(kind="none")


def objective_for(
    spec: ModelSpec,
    schedule: NoiseSchedule,
    weight: AnyLossWeight = UNWEIGHTED,
    scale: float = 1.0,
    affinity: Affinity | None = None,
) -> Objective:
    """The loss that trains a model.

    Args:
        spec: of a model with one head.
        schedule: its own, on the training device.
        weight: of timesteps, by a formula (see `unequal.timesteps.weights`) or by what they have lost so far.
        scale: of a weight by a formula.
        affinity: of timesteps' gradients, where the weight goes by it.

    Raises:
        UserError: clusters that cannot be made.
    """
    kind = Hybrid if spec.variance == "learned" else SingleHead
    if not isinstance(weight, LossWeight) or weight.half_life_images is None:
        return tabled(kind(spec.prediction, schedule, "none", None), spec, weight, scale, affinity)
    plain = conditioned(kind(spec.prediction, schedule, "none", None), spec.condition)
    bins = equal_log_snr(schedule, weight.bins or BINS, drop_empty=True)
    return OverRunningMean(plain, bins, weight.half_life_images, schedule.alpha.device)


def tabled(
    head: SingleHead, spec: ModelSpec, weight: AnyLossWeight, scale: float, affinity: Affinity | None
) -> Objective:
    """The loss of one head by a weight that its table tells, over its uncertainty if that is learned."""
    head.weights = (scale * weight.table(spec.prediction, head.schedule.snr)).float()
    plain = conditioned(head, spec.condition)
    if isinstance(weight, LearnedUncertainty):
        return OverUncertainty(plain, Uncertainty(head.schedule))
    if isinstance(weight, LearnedClusterUncertainty):
        clusters = clusters_alike(weight.alike_in, head.schedule, weight.clusters, affinity)
        return OverUncertainty(plain, ClusterUncertainty(clusters, head.schedule.alpha.device))
    return plain
