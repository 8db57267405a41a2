"""Whole params files: the gate of the graph next to a file reads it; and JSON schemas of their models."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from unequal.errors import UserError
from unequal.pipeline.gate import Check, Gate, checked
from unequal.settings.core import Core
from unequal.settings.params import Params
from unequal.settings.strict import PARAMS, read_yaml

#: The committed schema of the pipeline's params.yaml.
SCHEMA = "params.schema.json"
#: The stage of every graph that checks params.yaml as a whole, and the gate of experiments.
GATE, EXPERIMENT_GATE = "check_params", "unequal.experiments.stages.check_params"


def read_params(path: Path = PARAMS) -> Core:
    """Read a whole params file, and check its settings.

    Raises:
        UserError: the file is missing or not sound.
    """
    gate = gate_for(path)
    return (Params if gate is None else gate.model).read(path)


def check_params(path: Path = PARAMS, *further: Check) -> Core:
    """Read a whole params file, and check all that the gate of its graph does, and more.

    Raises what `unequal.pipeline.gate.checked` raises.
    """
    gate = gate_for(path)
    # The pipeline's own gate is no part of the library; it has the checks of an experiment's.
    checks = (gate or gate_of(EXPERIMENT_GATE)).checks
    return checked(path, Params if gate is None else gate.model, (*checks, *further))


def gate_for(path: Path) -> Gate | None:
    """The gate that the dvc.yaml in a params file's folder names; without one, that of experiments for such a file."""
    graph = path.with_name("dvc.yaml")
    gate = read_yaml(graph)["stages"].get(GATE) if graph.exists() else None
    if gate is not None:
        words = gate["cmd"].split()
        return gate_of(words[words.index("-m") + 1])
    return gate_of(EXPERIMENT_GATE) if "experiment" in read_yaml(path) else None


def gate_of(module: str) -> Gate:
    """The gate that a module holds."""
    gate: Gate = import_module(module).main
    return gate


def json_schema(model: type[Core]) -> dict[str, Any]:
    """JSON schema of a params.yaml, by which editors complete and check it."""
    return untitled(model.model_json_schema()) | {"title": "params.yaml of unequal"}


def untitled(schema: Any) -> Any:
    """Leave out pydantic's titles, which repeat keys and names of classes."""
    if isinstance(schema, list):
        return [untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: untitled(part) for name, part in schema.items() if name != "title" or not isinstance(part, str)}


def schema_of(kind: str) -> str:
    """The text of the JSON schema of params files: `pipeline`, or `compare` for experiments. Raises UserError."""
    if kind not in ("pipeline", "compare"):
        raise UserError(f"'{kind}': no kind of params file; allowed: pipeline, compare")
    model = Params if kind == "pipeline" else gate_of(EXPERIMENT_GATE).model
    return json.dumps(json_schema(model), indent=1) + "\n"
