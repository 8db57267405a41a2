"""Strict reading of params.yaml: every refusal is one line with the key, the value and what is allowed."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unequal.errors import UserError, plain
from unequal.settings.complaints import complaints, sections_in

PARAMS = Path("params.yaml")
#: Octal in YAML 1.1, decimal for DVC; and base 60 in YAML 1.1, a text for DVC.
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+([.eE].*)?")
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-9]{1,2})+(\.[0-9_]*)?")
#: Levels of sections and lists within one another.
DEEPEST = 100
#: Characters of a value that are shown where it may be long.
SHOWN = 40


#: Former keys, by the ends of their dotted keys, and what to write in their place; it may depend on the value.
RENAMED: dict[str, str | dict[str, str]] = {
    "sampler.kind": {
        "low_discrepancy": "density: uniform, draw: low_discrepancy",
        "stratified": "density: slots, draw: stratified",
    },
    "sampler.low_discrepancy": "draw: low_discrepancy",
    "sampler.mirrored": "draw: mirrored",
    "further_recipes": "finetune_recipes",
    "continuing": "warm_start",
}


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


class Yaml12(yaml.CSafeLoader):
    """YAML as DVC reads it: scalars of version 1.2, in which `1e-4` is a number and `yes` a word; keys stand once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own way)
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("bool", "int", "float")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        """Refuse lists or sections too deep within one another, of which the parser in C would overrun its stack."""
        depth = 0
        for event in yaml.parse(text, yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise refusal(event, f"sections or lists stand more than {DEEPEST} deep within one another")
        super().__init__(text)

    def get_single_node(self) -> yaml.Node | None:
        """Read the document. Raises YAMLError where a key stands twice in one mapping: the second would replace it."""
        root = super().get_single_node()
        left, seen = [root], set[int]()
        while left:
            node = left.pop()
            if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                keys = [(key.tag, key.value, key) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
                for (*before, _), (*after, key) in pairwise(sorted(keys, key=lambda one: one[:2])):
                    if before == after:
                        raise refusal(key, f"key {key.value[:SHOWN]!r} stands twice in one mapping")
                left += [value for _, value in node.value]
            else:
                left += node.value
        return root

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build a value, or refuse it with its line: PyYAML's own constructors fail in many ways."""
        kind, text = node.tag.replace("tag:yaml.org,2002:", "!!"), str(node.value)[:SHOWN]
        if kind in ("!!int", "!!float") and LEADING_ZERO.fullmatch(text):
            raise refusal(node, f"{text!r} is octal for some readers of YAML; write it without the leading 0")
        if kind == "!!str" and not getattr(node, "style", None) and BASE_60.fullmatch(text):
            raise refusal(node, f"{text!r} is a number of base 60 for some readers of YAML; write a plain number")
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:
            raise refusal(node, f"{text!r} is no {kind}, or too long") from None


SCALARS = {
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9_]+)",
    "float": r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+|[0-9][0-9_]*\.[0-9_]*|\.[0-9_]+|\.(inf|Inf|INF))"
    r"|\.(nan|NaN|NAN)",
}
for name, pattern in SCALARS.items():
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"({pattern})$"), list("-+.0123456789tTfF"))


def refusal(place: Any, why: str) -> yaml.YAMLError:
    """An error that names the line of a node or an event."""
    return yaml.YAMLError(f"line {place.start_mark.line + 1}: {why}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a params file. Raises UserError where it is missing, cannot be read, or is no YAML mapping."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Yaml12)
    except FileNotFoundError:
        raise UserError(f"{path}: missing; run from the folder that holds it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML: {plain(str(error))}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: holds no settings; expected a mapping of sections")
    return document


def numbered(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Begin what is wrong in a params file with its name, and with the line of the dotted key that is named first."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Yaml12)
    for line in lines:
        said = line.removeprefix(f"{path}: ")
        node, number = root, ""
        for part in said.partition(": ")[0].split("."):
            if (below := children(node).get(part)) is None:
                break
            number, node = f":{below[0]}", below[1]
        yield f"{path}{number}: {said}"


def children(node: yaml.Node | None) -> dict[str, tuple[int, yaml.Node]]:
    """Key of a mapping, or index of a list → its line, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): (key.start_mark.line + 1, value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return {str(index): (value.start_mark.line + 1, value) for index, value in enumerate(node.value)}
    return {}


def look_up(document: dict[str, Any], dotted: str, path: Path) -> Any:
    """The value at a dotted key. Raises UserError naming the keys next to it."""
    value: Any = document
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise UserError(f"{path}: {dotted}: missing; there is: {plain(there)}")
        value = value[part]
    return value


def renamed(values: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each former key in values at a dotted key."""
    if isinstance(values, list):
        values = dict(enumerate(values))
    for key, value in values.items() if isinstance(values, dict) else ():
        dotted = f"{place}.{key}".removeprefix(".")
        for old, new in RENAMED.items():
            if f".{dotted}".endswith(f".{old}"):
                text = new if isinstance(new, str) else new.get(str(value), f"density: {value}")
                yield f"{dotted}: {plain(repr(value))}: renamed; write {plain(text)}"
        yield from renamed(value, dotted)


def validate(model: type[M], values: Any, path: Path, keys: dict[str, str] | None = None) -> M:
    """Validate as JSON, where arrays may become tuples but nothing else is converted."""
    try:
        text = json.dumps(with_kinds(model, values), default=str)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    named = {(keys or {}).get(name, name): value for name, value in values.items()} if isinstance(values, dict) else {}
    for line in renamed(named):
        raise UserError(f"{path}: {line}")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        message, *others = complaints(error, model, json.loads(text), keys or {})
        raise UserError(f"{path}: {plain(message)}{f' (and {len(others)} more)' if others else ''}") from None


def with_kinds(model: type[Strict], values: Any) -> Any:
    """The values of a model, with the kind in each of its sections that may leave it out."""
    found = values if isinstance(values, dict) else {}
    kinds = {name: kind for name, field in model.model_fields.items() if (kind := default_kind(field.annotation))}
    sections = {name: {"kind": kind} | found[name] for name, kind in kinds.items() if isinstance(found.get(name), dict)}
    return (found | sections) if sections else values


def default_kind(annotation: Any) -> str | None:
    """Kind of the section in an annotation that may leave its kind out; None where there is none."""
    fields = (one.model_fields["kind"] for one in sections_in(annotation) if "kind" in one.model_fields)
    return next((field.default for field in fields if not field.is_required()), None)
