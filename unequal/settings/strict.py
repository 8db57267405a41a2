"""Strict reading of params.yaml: every refusal is one line with the key, the value and what is allowed."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unequal.errors import UserError

PARAMS = Path("params.yaml")


class Strict(BaseModel):
    """A section of params.yaml: no unknown keys, no converted types, no NaN, no defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=Strict)


def key(path: str) -> Any:
    """A field of StageSettings that stands at `path` in params.yaml, e.g. `recipes.{recipe}`."""
    return Field(json_schema_extra={"key": path})


class StageSettings(Strict):
    """The keys of params.yaml that one stage reads, and no others.

    A field stands at the key of its own name, or at the one given by `key()`, whose braces are
    filled with the stage's command-line options.
    """

    @classmethod
    def keys(cls, **options: object) -> dict[str, str]:
        """Field name → dotted key in params.yaml."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        paths = {name: extra["key"] if isinstance(extra, dict) else name for name, extra in extras.items()}
        return {name: str(path).format(**options) for name, path in paths.items()}

    @classmethod
    def read(cls, path: Path = PARAMS, **options: object) -> Self:
        """Read exactly `keys(**options)` from a params file. Raises UserError."""
        document = read_yaml(path)
        keys = cls.keys(**options)
        values = {name: look_up(document, dotted, path) for name, dotted in keys.items()}
        return validate(cls, values, path, keys)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a params file. Raises UserError where it is missing or no YAML mapping."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: missing; run from the folder that holds it") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: holds no settings; expected a mapping of sections")
    return document


def look_up(document: dict[str, Any], dotted: str, path: Path) -> Any:
    """The value at a dotted key. Raises UserError naming the keys that exist beside it."""
    value: Any = document
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise UserError(f"{path}: {dotted}: missing; there is: {there}")
        value = value[part]
    return value


def validate(model: type[M], values: Any, path: Path, keys: dict[str, str] | None = None) -> M:
    """Validate as JSON, where arrays may become tuples but nothing else is converted."""
    try:
        return model.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise UserError(f"{path}: {one_line(error, model, keys or {})}") from None


def one_line(error: ValidationError, model: type[Strict], keys: dict[str, str]) -> str:
    """The first complaint as `key: value: what is allowed`."""
    # An unknown key explains the missing one beside it: it comes first.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    value, message = first["input"], first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(value, dict | list) else f"{json.dumps(value)}: "
    if first["type"] == "extra_forbidden":
        shown, message = "", f"unknown key; allowed here: {', '.join(model_at(model, place[:-1]).model_fields)}"
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+e[-+]?\d+", value, re.IGNORECASE):
        message += f" (YAML reads {value} as text; write it with a point: 1.0e-4)"
    if place and place[0] in keys:
        place[0] = keys[place[0]]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{'.'.join(place) + ': ' if place else ''}{shown}{message}{more}"


def model_at(model: type[Strict], place: Sequence[str]) -> type[Strict]:
    """The section that stands at a place within a model."""
    for part in place:
        annotation = model.model_fields[part].annotation if part in model.model_fields else model
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, Strict))
    return model
