"""What is called otherwise than in the commit that last recorded: `python -m unequal.tools.record --verify` applies it.

Empty the tables when everything has been recorded under the new names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any


@dataclass(frozen=True)
class Renamed:
    """A key of JSON files: in those that match `files`, what stood at `old` stands at `new`, both dotted.

    `values` holds the new form of values that are told otherwise. Without `old`, the key is new and has the value of
    None there.
    """

    files: str
    old: str | None
    new: str
    values: Mapping[Any, Any] | None = None


#: Programs' stages, and files or folders below that of the dvc.yaml: old → new.
STAGES: dict[str, str] = {}
FILES: dict[str, str] = {}
#: Keys of params.yaml, dotted: old → new, in the same section.
SETTINGS: dict[str, str] = {}
KEYS: list[Renamed] = []


def new_path(path: str) -> str:
    """What a file below the folder of a dvc.yaml is called now."""
    for old, new in FILES.items():
        if path == old or path.startswith(f"{old}/"):
            return new + path.removeprefix(old)
    return path


def with_new_names(lock: dict[str, Any]) -> dict[str, Any]:
    """A lock file's content with the names that stages, their dependencies, outputs and settings have now."""
    stages = {STAGES.get(name, name): stage for name, stage in lock["stages"].items()}
    for params in (params for stage in stages.values() for params in stage.get("params", {}).values()):
        take_over_settings(params)
    for item in (item for stage in stages.values() for kind in ("deps", "outs") for item in stage.get(kind, [])):
        item["path"] = new_path(item["path"])
    return lock | {"stages": stages}


def take_over_settings(params: dict[str, Any]) -> None:
    """Have settings that a stage depends on, each a section or a dotted key within one, under their new names."""
    for old, new in SETTINGS.items():
        for key in [key for key in params if old == key or old.startswith(f"{key}.")]:
            if old == key:
                params[new] = params.pop(old)
            elif (value := take(params[key], old.removeprefix(f"{key}."))) is not Missing:
                put(params[key], new.removeprefix(f"{key}."), value)


def with_new_keys(path: str, document: Any) -> Any:
    """A JSON document, changed in place, with the keys that a file at this path has now."""
    for rename in KEYS:
        if isinstance(document, dict) and fnmatch(path, rename.files):
            value = None if rename.old is None else take(document, rename.old)
            if value is not Missing:
                values = rename.values or {}
                put(document, rename.new, values.get(value, value) if rename.values else value)
    return document


class Missing:
    """No value at a key."""


def take(document: dict[str, Any], dotted: str) -> Any:
    """Take the value at a dotted key out of a document; `Missing` where there is none."""
    *sections, last = dotted.split(".")
    for section in sections:
        document = document.get(section, {})
    return document.pop(last, Missing)


def put(document: dict[str, Any], dotted: str, value: Any) -> None:
    """Set the value at a dotted key."""
    *sections, last = dotted.split(".")
    for section in sections:
        document = document.setdefault(section, {})
    document[last] = value
