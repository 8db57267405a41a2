"""unequal: train diffusion models knowing that timesteps are not equal.

The public names stand here, as type checkers read them. A name is imported from its module at its first use:
`import unequal` costs nothing, and only names that need more than torch and NumPy ask for it.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unequal.diffusion.schedule import Flow as Flow
    from unequal.diffusion.schedule import NoiseSchedule as NoiseSchedule
    from unequal.diffusion.schedule import VariancePreserving as VariancePreserving
    from unequal.diffusion.solvers import ddim as ddim
    from unequal.diffusion.solvers import dpm_solver_2m as dpm_solver_2m
    from unequal.diffusion.solvers import heun as heun
    from unequal.diffusion.spacing import sampling_timesteps as sampling_timesteps
    from unequal.diffusion.spacing import spaced_timesteps as spaced_timesteps
    from unequal.evaluation.loss_profile import LossProfile as LossProfile
    from unequal.evaluation.loss_profile import relative_change as relative_change
    from unequal.evaluation.validation import Validated as Validated
    from unequal.evaluation.validation import Validation as Validation
    from unequal.evaluation.validation_callback import ValidationCallback as ValidationCallback
    from unequal.models.denoiser import Denoiser as Denoiser
    from unequal.sampling.ensemble import Ensemble as Ensemble
    from unequal.sampling.experts import Experts as Experts
    from unequal.timesteps.batches import Drawn as Drawn
    from unequal.timesteps.batches import Timesteps as Timesteps
    from unequal.timesteps.boundary import Boundary as Boundary
    from unequal.timesteps.densities import asymmetric as asymmetric
    from unequal.timesteps.densities import beta as beta
    from unequal.timesteps.densities import cauchy as cauchy
    from unequal.timesteps.densities import cosmap as cosmap
    from unequal.timesteps.densities import curriculum as curriculum
    from unequal.timesteps.densities import gaussian_target as gaussian_target
    from unequal.timesteps.densities import laplace as laplace
    from unequal.timesteps.densities import log_normal as log_normal
    from unequal.timesteps.densities import logit_normal as logit_normal
    from unequal.timesteps.densities import masses as masses
    from unequal.timesteps.densities import mirror as mirror
    from unequal.timesteps.densities import mode as mode
    from unequal.timesteps.densities import noise_rate_target as noise_rate_target
    from unequal.timesteps.densities import uniform_log_snr as uniform_log_snr
    from unequal.timesteps.densities import uniform_time as uniform_time
    from unequal.timesteps.draws import Independent as Independent
    from unequal.timesteps.draws import LowDiscrepancy as LowDiscrepancy
    from unequal.timesteps.draws import Mirrored as Mirrored
    from unequal.timesteps.draws import Stratified as Stratified
    from unequal.timesteps.draws import equal_over as equal_over
    from unequal.timesteps.groups import timestep_groups as timestep_groups
    from unequal.timesteps.learning import EasyToHardSampler as EasyToHardSampler
    from unequal.timesteps.learning import LossSecondMomentSampler as LossSecondMomentSampler
    from unequal.timesteps.partition import Partition as Partition
    from unequal.timesteps.partition import TimestepRange as TimestepRange
    from unequal.timesteps.partition import equal_log_snr as equal_log_snr
    from unequal.timesteps.partition import equal_sums as equal_sums
    from unequal.timesteps.samplers import ChangingSampler as ChangingSampler
    from unequal.timesteps.samplers import TimestepSampler as TimestepSampler
    from unequal.timesteps.samplers import WeightedSampler as WeightedSampler
    from unequal.timesteps.samplers import normalised as normalised
    from unequal.timesteps.samplers import tilt as tilt
    from unequal.timesteps.samplers import uniform as uniform
    from unequal.timesteps.samplers import within as within
    from unequal.timesteps.weights import WEIGHTS as WEIGHTS
    from unequal.timesteps.weights import loss_weights as loss_weights

#: Public name → its module, as the imports above say.
_MODULE_OF = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("unequal.")
    for alias in node.names
}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'unequal' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    """Names of the module, public ones that are not imported yet included."""
    return sorted({*globals(), *__all__})
