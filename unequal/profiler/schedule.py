"""The schedule by which a model was trained, as the scheduler beside it tells."""

from pathlib import Path
from typing import Any, NamedTuple

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.errors import UserError, first_line
from unequal.files import read_json
from unequal.profiler.document import Betas, Shifted

#: Where pipelines of diffusers keep theirs.
CONFIG = "scheduler/scheduler_config.json"
FLOW = "FlowMatchEulerDiscreteScheduler"
PREDICTIONS: dict[str, Prediction] = {one: one for one in ("epsilon", "v_prediction", "sample")}


class Trained(NamedTuple):
    """By which schedule a network was trained, and to predict what."""

    schedule: Betas | Shifted
    prediction: Prediction


def trained_by(folder: Path) -> Trained:
    """What the scheduler of a pipeline's folder tells. Raises UserError where there is none that is known here."""
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(f"{folder}: no {CONFIG}, which tells how the model was trained; allowed: a pipeline's folder")
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path}: no settings of a scheduler")
    return of_flow(config, path) if config.get("_class_name") == FLOW else of_betas(config, path)


def of_flow(config: dict[str, Any], path: Path) -> Trained:
    """A rectified flow. One whose shift depends on the size of an image has no grid of its own: none is taken."""
    parts = config.get("num_train_timesteps", REFERENCE_TIMESTEPS)
    if parts != REFERENCE_TIMESTEPS:
        raise UserError(f"{path}: num_train_timesteps: {parts}; a flow is told its time in {REFERENCE_TIMESTEPS} parts")
    bends = config.get("use_dynamic_shifting", False)
    shift = 1.0 if bends else float(config.get("shift", 1.0))
    return Trained(Shifted(timesteps=REFERENCE_TIMESTEPS, shift=shift), "velocity")


def of_betas(config: dict[str, Any], path: Path) -> Trained:
    """A schedule that preserves variance."""
    kind, prediction = config.get("_class_name"), config.get("prediction_type", "epsilon")
    if not {"beta_schedule", "trained_betas"} & config.keys():
        raise UserError(f"{path}: a {kind} is not read here; allowed: schedulers that have betas, or {FLOW}")
    if prediction not in PREDICTIONS:
        raise UserError(f"{path}: prediction_type: {prediction}; allowed: {', '.join(PREDICTIONS)}")
    if config.get("rescale_betas_zero_snr"):
        raise UserError(f"{path}: rescale_betas_zero_snr: the last timestep has no signal, and no loss of ε to compare")
    schedule = Betas(betas=tuple(betas(config, path)))
    schedule.tables()
    return Trained(schedule, PREDICTIONS[prediction])


def betas(config: dict[str, Any], path: Path) -> list[float]:
    """Those that are listed, to the last digit, or those of the named schedule, which diffusers knows."""
    if config.get("trained_betas") is not None:
        return [float(one) for one in config["trained_betas"]]
    # Imported here: schedulers take seconds to import, and listed betas need none.
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

    try:
        found: list[float] = DDPMScheduler.from_config(config).betas.double().tolist()
    except (NotImplementedError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{path}: betas that cannot be made: {first_line(error)}") from None
    return found
