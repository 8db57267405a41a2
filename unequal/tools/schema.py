"""Write params.schema.json, by which editors complete and check params.yaml."""

from pathlib import Path

from unequal.files import write_json
from unequal.settings.params import json_schema

SCHEMA = Path("params.schema.json")

if __name__ == "__main__":
    write_json(SCHEMA, json_schema())
