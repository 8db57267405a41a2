"""Sections of params.yaml, read strictly: every refusal is one line with the key, the value and what is allowed."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unequal.errors import UserError, UserErrors, plain
from unequal.settings.complaints import complaints
from unequal.settings.yaml12 import Yaml12, read_yaml

PARAMS = Path("params.yaml")


class Strict(BaseModel):
    """A section of params.yaml: no unknown keys, no converted types, no NaN."""

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


def look_up(document: dict[str, Any], dotted: str, path: Path) -> Any:
    """The value at a dotted key. Raises UserError naming the keys next to it."""
    value: Any = document
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise UserError(f"{path}: {dotted}: missing; there is: {plain(there)}")
        value = value[part]
    return value


def validate(model: type[M], values: Any, path: Path, keys: dict[str, str] | None = None) -> M:
    """Validate values of a file. Raises UserError, one line for the first of what is wrong."""
    try:
        return checked(model, values, keys)
    except UserErrors as errors:
        first, *others = errors.lines
        raise UserError(f"{path}: {first}{f' (and {len(others)} more)' if others else ''}") from None


def read_whole(model: type[M], path: Path) -> M:
    """Read and check a whole params file.

    Raises:
        UserErrors: it is not sound; a line for each problem. Where a value is wrong, combinations are not checked.
        UserError: it is missing, or no YAML.
    """
    document = read_yaml(path)
    try:
        return checked(model, document)
    except UserErrors as errors:
        raise UserErrors(list(numbered(path, errors.lines))) from None


def checked(model: type[M], values: Any, keys: dict[str, str] | None = None) -> M:
    """Validate as JSON, where arrays may become tuples but nothing else is converted. Raises UserErrors."""
    try:
        text = json.dumps(values, default=str)
    except (TypeError, ValueError) as error:
        raise UserErrors([plain(str(error))]) from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        lines = complaints(error, model, json.loads(text), keys or {})
        raise UserErrors([plain(line) for line in lines]) from None


def numbered(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Begin what is wrong in a params file with its name, and with the line of the dotted key that is named first."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Yaml12)
    for line in lines:
        text = line.removeprefix(f"{path}: ")
        node, number = root, ""
        for part in text.partition(": ")[0].split("."):
            if (below := children(node).get(part)) is None:
                break
            number, node = f":{below[0]}", below[1]
        yield f"{path}{number}: {text}"


def children(node: yaml.Node | None) -> dict[str, tuple[int, yaml.Node]]:
    """Key of a mapping, or index of a list → its line, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): (key.start_mark.line + 1, value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return {str(index): (value.start_mark.line + 1, value) for index, value in enumerate(node.value)}
    return {}
