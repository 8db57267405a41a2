"""The conditions that stand beside scores, as text."""

from collections.abc import Mapping
from typing import Any

#: `sampling.solver` → what people call it.
SOLVERS = {"ddim": "DDIM", "heun": "Heun", "dpm_solver_2m": "DPM-Solver++ (2M)"}


def scoring_conditions(data: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, str]:
    """What scores mean nothing without, as name → text.

    Args:
        data: facts of the data set.
        scores: the conditions that stand beside the scores of any variant that was scored alike.
    """
    sampling = scores["sampling"]
    steps = sampling["steps"] if isinstance(sampling["steps"], int) else len(sampling["steps"])
    seeds = ", ".join(map(str, scores["sampling_seeds"]))
    spread = "; spreads are standard deviations over them" if len(scores["sampling_seeds"]) > 1 else ""
    singular = " (fewer samples than features: singular covariance)" if scores["singular_covariance"] else ""
    accuracy = scores.get("extractor_accuracy")  # of a classifier alone
    accurate = "" if accuracy is None else f", right about {100 * accuracy:.1f} % of held-out images"
    return {
        "data": data_condition(data),
        "reference": scores["reference"],
        "features": f"{scores['features']} of {scores['extractor']}{accurate}{singular}",
        "samples": f"{scores['samples_per_seed']} a sampling seed, from the same noise for every variant",
        "sampling seeds": f"{seeds}{spread}",
        "sampling": f"{solver_of(sampling)}, {steps} steps, {sampling['spacing']} spacing, η = {sampling['eta']:g}, "
        f"predicted images {'clipped' if sampling['clip'] else 'not clipped'}",
        "computed on": f"{scores['device']}, in fp32: {scores['fp32']}",
    }


def solver_of(sampling: Mapping[str, Any]) -> str:
    """What people call the solver of some settings of sampling, in which DDIM is not named."""
    return SOLVERS[sampling.get("solver", "ddim")]


def data_condition(data: Mapping[str, Any]) -> str:
    """The data set, in a line."""
    n_train, n_held = (last - first for first, last in (data["split"]["train"], data["split"]["holdout"]))
    size = "×".join(map(str, reversed(data["shape"])))
    return f"{data['source']}, {n_train} training and {n_held} held-out images, {size} values each"
