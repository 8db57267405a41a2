"""What the replicas of a pipeline have come to: one figure a training, for every endpoint and model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unequal.artifacts.figures import EndpointFigures, FidFigures, ReplicaFigures, read_figures
from unequal.errors import UserError

#: Endpoint → the field that it stands at in the figures of a score, or of a profile.
OF_SCORES, OF_PROFILES = {"fid": "fid_mean"}, {name: name for name in EndpointFigures.model_fields}


class Replicas(NamedTuple):
    """Seeds, that of the run itself first, and endpoint → model → its values, in the order of the seeds."""

    seeds: Sequence[int]
    endpoints: Mapping[str, Mapping[str, Sequence[float]]]


def outcomes(
    folders: Sequence[Path], variants: Sequence[str], models: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """Endpoint → model → its values, in the order of the folders.

    Args:
        folders: of the replicas.
        variants: scored ones.
        models: profiled ones.

    Raises:
        UserError: a file is missing or damaged.
    """
    scores = {name: [read_figures(at / f"results/fid/{name}.json", FidFigures) for at in folders] for name in variants}
    profiles = {
        name: [read_figures(at / f"results/metrics/profile_{name}.json", EndpointFigures) for at in folders]
        for name in models
    }
    return by_endpoint(OF_SCORES, scores) | by_endpoint(OF_PROFILES, profiles)


def by_endpoint(
    fields: Mapping[str, str], figures: Mapping[str, Sequence[Mapping[str, float]]]
) -> dict[str, dict[str, list[float]]]:
    """Some fields of all models' figures."""
    return {
        endpoint: {name: [float(one[field]) for one in found] for name, found in figures.items()}
        for endpoint, field in fields.items()
    }


def read_replicas(path: Path) -> Replicas:
    """Read results/replicas.json. Raises UserError where it is missing, damaged, or lacks figures of a seed."""
    found = read_figures(path, ReplicaFigures)
    for endpoint, models in found["endpoints"].items():
        for name, values in models.items():
            if len(values) != len(found["seeds"]):
                raise UserError(
                    f"{path}: {endpoint} of '{name}' has {len(values)} values for {len(found['seeds'])} seeds; "
                    "make it again"
                )
    return Replicas(found["seeds"], found["endpoints"])
