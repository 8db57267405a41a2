"""Write the JSON schemas by which editors complete and check params.yaml, the pipeline's and those of studies."""

from pathlib import Path

from unequal.files import write_json
from unequal.settings.params import Params, StudyParams, json_schema

SCHEMAS: dict[Path, type[StudyParams]] = {
    Path("params.schema.json"): Params,
    Path("studies/params.schema.json"): StudyParams,
}

if __name__ == "__main__":
    for path, model in SCHEMAS.items():
        write_json(path, json_schema(model))
