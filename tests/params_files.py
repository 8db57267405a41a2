"""A params file with edits, as tests of settings refuse and accept them."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

#: In the place of a value: the key is deleted.
DELETE = object()


def edited(file: Path, edits: Mapping[str, Any], folder: Path) -> Path:
    """A copy of a params file in another folder, with values replaced or deleted at dotted keys."""
    document = json.loads(content(file))
    for dotted, value in edits.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            place = place[section]
        if value is DELETE:
            del place[last]
        else:
            place[last] = value
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@cache
def content(file: Path) -> str:
    """A params file as JSON, which knows no aliases: an edit of it touches one place."""
    return json.dumps(yaml.safe_load(file.read_text(encoding="utf-8")))
