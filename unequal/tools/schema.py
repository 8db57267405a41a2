"""Write the JSON schemas by which editors complete and check params.yaml, the pipeline's and each study's own."""

from pathlib import Path
from typing import Any

from unequal.files import write_json
from unequal.settings.params.core import Core
from unequal.tools.params import params_models

SCHEMA = "params.schema.json"


def json_schema(model: type[Core]) -> dict[str, Any]:
    """JSON schema of a params.yaml, by which editors complete and check it."""
    return model.model_json_schema() | {"title": "params.yaml of unequal"}


if __name__ == "__main__":
    for folder, model in params_models(Path()).items():
        write_json(folder / SCHEMA, json_schema(model))
