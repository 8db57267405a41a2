"""Strict reading of params.yaml: every refusal is one line with the key, the value and what is allowed."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unequal.errors import UserError, plain

PARAMS = Path("params.yaml")
#: A study is a folder in here, with a params.yaml and a dvc.yaml of its own.
STUDIES = "studies"
#: Keys by which one of several kinds of a section is chosen.
DISCRIMINATORS = ("kind", "method", "name")
#: Numbers that YAML takes for text; no two parts may take the same digits, else long ones take quadratic time.
EXPONENT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)e[-+]?\d+", re.IGNORECASE)
#: Characters of a value that are shown where it may be long.
SHOWN = 40
#: Sections and lists within one another; PyYAML's parser in C overruns its stack at some ten thousand.
DEEPEST = 100
#: Characters of all values, those behind an alias counted as often as it stands: nine lines can hold a billion words.
LONGEST = 10_000_000


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


#: PyYAML's parser in C, ten times as fast as the other; it may have been built without.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SoundYaml(Loader):
    """YAML in which a key stands once in a mapping, as a second one would silently replace the first, and no bombs."""

    def get_single_data(self) -> Any:
        """The document. Raises YAMLError, with a line, where a key stands twice or aliases repeat too much."""
        node = self.get_single_node()
        if node is None:
            return None
        check_length(node, {})
        return self.construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build a value, or refuse it with its line: PyYAML's own constructors fail in many ways."""
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:
            kind = node.tag.replace("tag:yaml.org,2002:", "!!")
            shown = str(node.value)[:SHOWN]
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {shown!r} is no {kind}, or too long") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a params file. Raises UserError where it is missing, cannot be read, or is no YAML mapping."""
    try:
        text = path.read_text(encoding="utf-8")
        refuse_deep(text)
        document = yaml.load(text, SoundYaml)
    except FileNotFoundError:
        raise UserError(f"{path}: missing; run from the folder that holds it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML: {plain(str(error))}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: holds no settings; expected a mapping of sections")
    return document


def refuse_deep(text: str) -> None:
    """Raise YAMLError where sections or lists stand too deep within one another."""
    depth = 0
    for event in yaml.parse(text, Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise yaml.YAMLError(f"line {line}: more than {DEEPEST} sections or lists within one another")


def check_length(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Characters of a value with all that its aliases repeat. Raises YAMLError for too many, and for a repeated key.

    Args:
        node: of the value.
        known: lengths of other nodes, this one's added: each is looked at once, however often it is repeated.
    """
    if node in known:
        return known[node]
    known[node] = 1  # for what holds itself, which is refused later
    parts = node.value
    if isinstance(node, yaml.MappingNode):
        check_keys([key for key, _ in node.value])
        parts = [part for pair in node.value for part in pair]
    known[node] += len(parts) if isinstance(parts, str) else sum(check_length(part, known) for part in parts)
    if known[node] > LONGEST:
        line = node.start_mark.line + 1
        raise yaml.YAMLError(f"line {line}: more than {LONGEST:,} characters, with all that aliases repeat")
    return known[node]


def check_keys(keys: Sequence[yaml.Node]) -> None:
    """Raise YAMLError where one of a mapping's keys stands there twice."""
    seen = set[str]()
    for key in keys:
        if not isinstance(key, yaml.ScalarNode):
            continue  # no text: refused later
        if key.value in seen:
            line = key.start_mark.line + 1
            raise yaml.YAMLError(f"line {line}: key {key.value[:SHOWN]!r} stands twice in one mapping")
        seen.add(key.value)


def look_up(document: dict[str, Any], dotted: str, path: Path) -> Any:
    """The value at a dotted key. Raises UserError naming the keys that exist beside it."""
    value: Any = document
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise UserError(f"{path}: {dotted}: missing; there is: {plain(there)}")
        value = value[part]
    return value


def validate(model: type[M], values: Any, path: Path, keys: dict[str, str] | None = None) -> M:
    """Validate as JSON, where arrays may become tuples but nothing else is converted."""
    try:
        text = json.dumps(with_kinds(model, values), default=str)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        message = one_line(error, model, json.loads(text), keys or {})
        raise UserError(f"{path}: {plain(message)}") from None


def with_kinds(model: type[Strict], values: Any) -> Any:
    """The values of a model, with the kind in each of its sections that may leave it out."""
    found = values if isinstance(values, dict) else {}
    kinds = {name: kind for name, field in model.model_fields.items() if (kind := default_kind(field.annotation))}
    sections = {name: {"kind": kind} | found[name] for name, kind in kinds.items() if isinstance(found.get(name), dict)}
    return (found | sections) if sections else values


def default_kind(annotation: Any) -> str | None:
    """That of the section in an annotation which needs not tell its kind; None where there is none."""
    fields = (one.model_fields["kind"] for one in sections_in(annotation) if "kind" in one.model_fields)
    return next((field.default for field in fields if not field.is_required()), None)


def one_line(error: ValidationError, model: type[Strict], values: Any, keys: dict[str, str]) -> str:
    """The first complaint as `key: value: what is allowed`."""
    complaints = [(place_of(one["loc"], values, one["type"] == "missing"), one) for one in error.errors()]
    # An unknown key explains the missing one beside it, and an item of a list says more than the list.
    place, first = min(complaints, key=lambda one: (one[1]["type"] != "extra_forbidden", -len(one[0])))
    same = [one["msg"] for where, one in complaints if where == place]
    value = first["input"]
    message = " or ".join([same[0], *(one.removeprefix("Input should be ") for one in same[1:])])
    message = message.removeprefix("Value error, ")
    shown = "" if isinstance(value, dict | list) else f"{json.dumps(value)}: "
    if first["type"] == "extra_forbidden":
        shown, message = "", f"unknown key; allowed here: {', '.join(model_at(model, place[:-1], values).model_fields)}"
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        message += f" (YAML reads {value} as text; write it with a point and a sign, as in 1.0e-4 or 1.0e+4)"
    if place and place[0] in keys:
        place[0] = keys[place[0]]
    others = len({tuple(where) for where, _ in complaints}) - 1
    more = f" (and {others} more)" if others else ""
    return f"{'.'.join(place) + ': ' if place else ''}{shown}{message}{more}"


def place_of(location: Sequence[str | int], values: Any, missing: bool) -> list[str]:
    """The keys that lead to a complaint, without pydantic's names for the members of a union.

    Only where something is `missing`, the last part is a key that the values do not have.
    """
    place = []
    for position, part in enumerate(location, 1):
        if isinstance(values, dict):
            if part not in values and not (missing and position == len(location)):
                continue
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int):
            values = values[part] if part < len(values) else None
        else:
            continue
        place.append(str(part))
    return place


def model_at(model: type[Strict], place: Sequence[str], values: Any) -> type[Strict]:
    """The section that stands at a place within a model and describes the values there."""
    annotation: Any = model
    for part in place:
        if get_origin(annotation) in (dict, tuple):
            # Names of a dictionary are the user's: behind each stands the same section, as behind each item of a list.
            annotation = get_args(annotation)[get_origin(annotation) is dict]
        else:
            annotation = section_of(annotation, values).model_fields[part].annotation
        values = values[int(part) if isinstance(values, list) else part]
    return section_of(annotation, values)


def section_of(annotation: Any, values: Any) -> type[Strict]:
    """The model in an annotation: as it is, as in `Mixing | None`, or the one of several that the values choose."""
    found = list(sections_in(annotation))
    if len(found) == 1:
        return found[0]
    choice = next(name for name in DISCRIMINATORS if all(name in one.model_fields for one in found))
    return next(one for one in found if values[choice] in get_args(one.model_fields[choice].annotation))


def sections_in(annotation: Any) -> Iterator[type[Strict]]:
    """The models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    for part in get_args(annotation):
        yield from sections_in(part)
