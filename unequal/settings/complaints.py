"""Refusals of pydantic in plain lines: the key, the value, and what is allowed."""

import json
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

#: Keys by which one of several kinds of a section is chosen.
DISCRIMINATORS = ("kind", "method", "name", "density")
#: Kind of an error → what is allowed in the place of the value; pydantic's bounds fill the braces.
ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dict_type": "a section of keys",
    "tuple_type": "a list",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
    "union_tag_not_found": "{expected_tags}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} at most",
}
#: Python's words for values → YAML's.
IN_YAML = {"True": "true", "False": "false", "None": "null"}
#: The key with which a section's own check begins.
OWN_KEY = re.compile(r"[a-z_]+(\.[a-z_]+)*: ")

Place = tuple[str, ...]


def complaints(error: ValidationError, model: type[BaseModel], values: Any, keys: dict[str, str]) -> list[str]:
    """A line for each place with an error; several at one place are members of a union, of which each has a say.

    Args:
        error: what pydantic refuses.
        model: by which it has read.
        values: what it has read.
        keys: field of the model → dotted key in the file, where that is another one.
    """
    placed: dict[Place, list[dict[str, Any]]] = {}
    for one in error.errors():
        place, sections, annotation = located(one["loc"], model, values, one["type"] == "missing")
        facts = one.get("ctx", {})
        if "discriminator" in facts:  # a wrong kind stands at the key that chooses it
            name, sections = facts["discriminator"].strip("'"), list(sections_in(annotation))
            place = (*place, name if name in DISCRIMINATORS else "kind")
        placed.setdefault(place, []).append({**one, "sections": sections, "facts": facts})
    meant = {place: likely(place, some[0], values) for place, some in placed.items()}
    lines = []
    for place, some in placed.items():
        below = any(len(other) > len(place) and other[: len(place)] == place for other in placed)
        if below or place in meant.values():
            continue  # an item of a list says more than the list, and an unknown key explains the missing one
        where = ".".join([keys.get(place[0], place[0]), *place[1:]]) if place else ""
        for text in sentence(place, some, meant[place]).split("\n"):
            own = some[0]["type"] == "value_error" and isinstance(some[0]["input"], dict) and OWN_KEY.match(text)
            lines.append(f"{where}{'.' if own else ': '}{text}" if where else text)
    return sorted(lines, key=lambda line: ": unknown key" not in line)


def located(
    location: Sequence[str | int], model: type[BaseModel], values: Any, missing: bool
) -> tuple[Place, list[type[BaseModel]], Any]:
    """Find the keys that lead to an error, without names of unions' members; the sections there, and the last type.

    Only where something is `missing`, the last part is a key that the values do not have.
    """
    place, annotation, sections = list[str](), Any, [model]
    annotation = model
    for number, part in enumerate(location, 1):
        last = missing and number == len(location)
        if isinstance(values, dict) and part not in values and not last:
            continue
        if not isinstance(values, dict | list) or (isinstance(values, list) and not isinstance(part, int)):
            continue
        place.append(str(part))
        containers = [one for one in (annotation, *get_args(annotation)) if get_origin(one) in (dict, tuple)]
        if get_origin(annotation) is dict or (containers and isinstance(values, list)):
            # Names of a dictionary are the user's: behind each stands the same section, as behind each item of a list.
            sections, annotation = [], get_args(containers[0])[get_origin(containers[0]) is dict]
        else:
            sections = chosen(annotation, values)
            fields = [one.model_fields[part] for one in sections if part in one.model_fields]
            annotation = fields[0].annotation if fields else Any
        if isinstance(values, dict):
            values = values.get(part)
        else:
            values = values[int(part)] if int(part) < len(values) else None
    return tuple(place), sections, annotation


def chosen(annotation: Any, values: Any) -> list[type[BaseModel]]:
    """The section in an annotation, as in `Mixing | None`; of several the one that the values choose, else all."""
    sections = list(sections_in(annotation))
    for key in DISCRIMINATORS if len(sections) > 1 else ():
        if all(key in one.model_fields for one in sections):
            kind = values.get(key, sections[0].model_fields[key].default)
            return [one for one in sections if kind in get_args(one.model_fields[key].annotation)] or sections
    return sections


def sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from sections_in(part)


def likely(place: Place, error: dict[str, Any], values: Any) -> Place | None:
    """The key that an unknown one seems to be: a similar one that is not there."""
    if error["type"] != "extra_forbidden":
        return None
    for part in place[:-1]:
        values = values[int(part) if isinstance(values, list) else part]
    near = get_close_matches(place[-1], [name for name in names_of(error["sections"]) if name not in values], 1)
    return (*place[:-1], near[0]) if near else None


def names_of(sections: Sequence[type[BaseModel]]) -> list[str]:
    """The keys of sections, each once."""
    return list(dict.fromkeys(name for one in sections for name in one.model_fields))


def sentence(place: Place, some: Sequence[dict[str, Any]], meant: Place | None) -> str:
    """What is wrong at a place, and what is allowed there."""
    first = some[0]
    kind, value, message = first["type"], first["input"], first["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        allowed = f"allowed here: {', '.join(names_of(first['sections']))}"
        return f"unknown key; {f'did you mean `{meant[-1]}`?' if meant else allowed}"
    if kind == "missing":
        return "missing"
    if kind not in ALLOWED:
        return message if isinstance(value, dict | list) else f"{json.dumps(value)}: {message}"
    if kind == "union_tag_not_found":
        kinds = (get_args(one.model_fields[place[-1]].annotation) for one in first["sections"])
        return f"missing; allowed: {', '.join(name for names in kinds for name in names)}"
    shown = first["facts"].get("tag", value)
    allowed = " or ".join(dict.fromkeys(allowed_by(one) for one in some if one["type"] in ALLOWED))
    return f"allowed: {allowed}" if isinstance(shown, dict | list) else f"{json.dumps(shown)}; allowed: {allowed}"


def allowed_by(error: dict[str, Any]) -> str:
    """What may stand in the place of a value."""
    facts = {name: f"{fact:.10g}" if isinstance(fact, float) else fact for name, fact in error["facts"].items()}
    words = ALLOWED[error["type"]].format_map(facts).replace("'", "")
    return IN_YAML.get(words, words)
