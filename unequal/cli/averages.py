"""Reconstruct a trained model's average of another width from averages stored during training (EDM2, appendix C)."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from torch import Tensor

from unequal.errors import UserError
from unequal.models.folder import AVERAGES, load_removals, save_model
from unequal.models.pruned import load_any_model
from unequal.runtime.files import appearing, refuse_existing
from unequal.runtime.tensor_files import read_saved
from unequal.training.averaging import KEPT_WIDTHS, PowerProfile, combination, exponent_of, relative_error
from unequal.training.checkpoint import strip_prefix

#: Largest root-mean-square error of an average's profile, relative to the profile.
MOST_MISSED = 0.1


def combined(files: Iterable[Path], weights: np.ndarray) -> dict[str, Tensor]:
    """Sum of averages of all widths in files, times weights [averages], by parameter. Raises UserError for damage."""
    total: dict[str, Tensor] = {}
    shares = iter(weights.tolist())
    for path in files:
        tensors = read_saved(path, "make the model again").tensors
        for width in KEPT_WIDTHS:
            share = next(shares)
            for name, value in strip_prefix(f"width.{width}.", tensors).items():
                total[name] = share * value.double() + total.get(name, 0)
    return total


def step_of(path: Path) -> int:
    """Step in the file name of a stored average. Raises UserError where there is none."""
    if not re.fullmatch(r"[0-9]{1,18}", path.stem):
        raise UserError(f"{path}: no step in its name; allowed: the names that training gives, as 5000.safetensors")
    return int(path.stem)


def average(model: Path, width: float, target: Path) -> float:
    """Write a model of another relative width's average (see `unequal.training.averaging`) into a new folder.

    Return the error of the average's profile, relative to the profile.

    Raises:
        UserError: there are no averages, one is not named by its step, the width cannot be made from them, or the model
            has three heads.
    """
    refuse_existing(target)
    net, record = load_any_model(model)
    if record.spec.prediction == "mixed":
        raise UserError(f"{model}: has three heads, which were combined by errors of its own average; train it anew")
    files = dict(sorted((step_of(path), path) for path in (model / AVERAGES).glob("*.safetensors")))
    if not files:
        raise UserError(f"{model}: keeps no averages; set keep in training.average (kind power), and train it again")
    profiles = [PowerProfile(step, exponent_of(kept)) for step in files for kept in KEPT_WIDTHS]
    target_profile = PowerProfile(record.steps, exponent_of(width))
    weights = combination(profiles, target_profile)
    if (share := relative_error(profiles, target_profile, weights)) > MOST_MISSED:
        raise UserError(
            f"{model}: {len(files)} stored snapshot(s) miss {share:.0%} of an average of width {width:g}; "
            f"at most {MOST_MISSED:.0%}; store more, or take a width nearer to {' and '.join(map(str, KEPT_WIDTHS))}"
        )
    net.load_state_dict(net.state_dict() | combined(files.values(), weights))
    with appearing(target) as place:
        save_model(place, net, record, load_removals(model))
    return share
