"""Replicas: the whole pipeline again with another seed, in a folder of its own with the same graph."""

import os
from pathlib import Path
from typing import Any

import yaml

from unequal.pipeline.sources import sources
from unequal.runtime.files import write_bytes
from unequal.settings.strict import PARAMS, read_yaml
from unequal.settings.values import expanded

#: The folders of all replicas but the first, which is the run itself.
REPLICAS = Path("replicas")
GRAPH = Path("dvc.yaml")


def replica_folder(seed: int) -> Path:
    """Return the folder of the replica with a seed, below the folder of the run."""
    return REPLICAS / f"seed_{seed}"


def prepare_replica(number: int) -> Path:
    """Make the folder of a replica, counted from 1, or bring it up to date; earlier results stay.

    Raises:
        UserError: the params file of the run cannot be read.
    """
    document = replica_params(read_yaml(PARAMS), number)
    folder = replica_folder(document["seed"])
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / GRAPH).is_symlink():
        (folder / GRAPH).symlink_to(os.path.relpath(GRAPH, folder))
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
    if not (folder / PARAMS).exists() or (folder / PARAMS).read_bytes() != text:  # engines go by its time
        write_bytes(folder / PARAMS, text)
    return folder


def replica_params(document: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the settings of a replica: those of the run, with a seed and sampling seeds of its own.

    Paths of sources are rewritten relative to the replica's folder.
    """
    scored = document["evaluation"]
    step = max(scored["seeds"]) - min(scored["seeds"]) + 1
    own = {"seeds": [seed + number * step for seed in scored["seeds"]]}
    changed = document | {"seed": document["seed"] + number, "replicas": 1, "evaluation": scored | own}
    for source in sources(document).values():
        if source.value is not None and os.path.exists(path := expanded(source.value)):
            *sections, last = source.key.split(".")
            place = os.path.relpath(path, replica_folder(changed["seed"]))
            changed = with_value(changed, [*sections, last], place)
    return changed


def with_value(document: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    """Return a copy of a document with another value at nested keys."""
    first, *rest = keys
    return document | {first: with_value(document[first], rest, value) if rest else value}
