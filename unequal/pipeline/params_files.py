"""Whole params files: which model checks a file, by the folder that it lies in, and JSON schemas of the models."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from unequal.errors import UserError
from unequal.pipeline.workdirs import checkout
from unequal.settings.params.core import Core
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS, STUDIES

#: The committed schema of the pipeline's params.yaml.
SCHEMA = "params.schema.json"


def study_of(path: Path) -> str | None:
    """The study in whose folder a params file lies, or in one of its runs on other data; None: in none."""
    folder = path.absolute().parent
    parts = folder.relative_to(checkout(folder)).parts
    return parts[1] if len(parts) > 1 and parts[0] == STUDIES else None


def params_of_study(name: str) -> type[Core]:
    """What checks the params files of a study. Raises UserError where there is no such study."""
    module = f"{STUDIES}.{name}.params"
    try:
        found: type[Core] = import_module(module).Params
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UserError(f"{STUDIES}/{name}: no study; it has no params.py") from None
    return found


def read_params(path: Path = PARAMS) -> Core:
    """Read and check a whole params file: a study's where it lies in one, else the pipeline's. Raises UserError."""
    name = study_of(path)
    return Params.read(path) if name is None else params_of_study(name).read(path)


def params_models(root: Path) -> dict[Path, type[Core]]:
    """The folder of every kind of params file below a project's root → what checks it."""
    studies = sorted(gate.parents[1] for gate in root.glob(f"{STUDIES}/*/stages/check_params.py"))
    return {root: Params} | {folder: params_of_study(folder.name) for folder in studies}


def json_schema(model: type[Core]) -> dict[str, Any]:
    """JSON schema of a params.yaml, by which editors complete and check it."""
    return model.model_json_schema() | {"title": "params.yaml of unequal"}


def schema_of(kind: str) -> str:
    """The text of the JSON schema of the pipeline's params files, or of a study's. Raises UserError."""
    model = Params if kind == "pipeline" else params_of_study(kind)
    return json.dumps(json_schema(model), indent=2) + "\n"
