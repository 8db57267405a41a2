"""Refusals of pydantic in plain lines: the key, the value, and what is allowed."""

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

#: Keys by which one of several kinds of a section is chosen.
DISCRIMINATORS = ("kind", "method", "name", "density")
#: Kinds of errors: an unknown key, a section without the key that chooses its kind, a list of fixed length cut short,
#: and what a model's own check refuses.
UNKNOWN, WITHOUT_KIND, WITHOUT_ITEM, OWN = "extra_forbidden", "union_tag_not_found", "missing_item", "value_error"
#: Kind of an error → what is allowed in the place of the value; pydantic's bounds fill the braces.
ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a section of keys",
    "dict_type": "a section of keys",
    "tuple_type": "a list",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    WITHOUT_ITEM: "a list of {length}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} at most",
}
#: Python's words for values → YAML's.
IN_YAML = {"True": "true", "False": "false", "None": "null"}

Place = tuple[str, ...]


class Complaint(NamedTuple):
    """An error of pydantic's, at the key that is to be changed.

    Attributes:
        place: the keys that lead there.
        kind: pydantic's type of error.
        value: what stands there.
        facts: pydantic's, such as a bound.
        message: pydantic's own.
    """

    place: Place
    kind: str
    value: Any
    facts: dict[str, Any]
    message: str

    @classmethod
    def of(cls, error: Any, values: Any) -> "Complaint":
        """Place an error: a wrong kind at the key that chooses it, a missing item at its list, a misspelt key there."""
        kind, facts, value = error["type"], error.get("ctx", {}), error["input"]
        place = place_of(error["loc"], values, kind == "missing")
        if "discriminator" in facts:
            key = facts["discriminator"].strip("'")
            if kind == WITHOUT_KIND and (near := get_close_matches(key, value, 1)):
                key, kind = near[0], UNKNOWN
            place, value = (*place, key), facts.get("tag")
        elif kind == "missing" and isinstance(index := error["loc"][-1], int):
            place, kind, facts = place[:-1], WITHOUT_ITEM, {"length": index + 1}
        return cls(place, kind, value, facts, error["msg"].removeprefix("Value error, "))

    @property
    def allowed(self) -> str:
        """Say what may stand in the place of the value."""
        if self.kind not in ALLOWED:
            return self.message
        facts = {name: f"{fact:.10g}" if isinstance(fact, float) else fact for name, fact in self.facts.items()}
        words = ALLOWED[self.kind].format_map(facts).replace("'", "")
        return IN_YAML.get(words, words)


def complaints(error: ValidationError, model: type[BaseModel], values: Any, keys: dict[str, str]) -> list[str]:
    """A line for each place with a complaint; what explains others comes first.

    Args:
        error: what pydantic refuses.
        model: by which it has read.
        values: what it has read.
        keys: field of the model → dotted key in the file, where that is another one.
    """
    # An unknown key explains the missing one next to it, and an item of a list says more than the list.
    found = sorted(
        (Complaint.of(one, values) for one in error.errors()), key=lambda one: (one.kind != UNKNOWN, -len(one.place))
    )
    by_place: dict[Place, list[Complaint]] = {}
    for one in found:
        if not any(other[: len(one.place)] == one.place for other in by_place if len(other) > len(one.place)):
            by_place.setdefault(one.place, []).append(one)
    sections = {
        place: sections_at(model, place[:-1], values)
        for place, some in by_place.items()
        if some[0].kind in (UNKNOWN, WITHOUT_KIND)
    }
    meant = {
        place: meant_by(place, sections[place], values) for place in sections if by_place[place][0].kind == UNKNOWN
    }
    for name in filter(None, meant.values()):
        by_place.pop(name, None)
    lines = []
    for place, some in by_place.items():
        said = sentence(some, sections.get(place, []), meant.get(place))
        own = some[0].kind == OWN and isinstance(some[0].value, dict)  # a section's check, which names a key first
        below = names_of(sections_at(model, place, values)) if own else []
        between = "." if said.partition(": ")[0].partition(".")[0] in below else ": "
        lines.append(f"{'.'.join([keys.get(place[0], place[0]), *place[1:]])}{between}{said}" if place else said)
    return lines


def meant_by(place: Place, sections: Sequence[type[BaseModel]], values: Any) -> Place | None:
    """The key that an unknown one seems to be: a similar one that is not there."""
    free = [name for name in names_of(sections) if name not in at(values, place[:-1])]
    near = get_close_matches(place[-1], free, 1)
    return (*place[:-1], near[0]) if near else None


def sentence(some: Sequence[Complaint], sections: Sequence[type[BaseModel]], meant: Place | None) -> str:
    """A complaint at a key.

    Args:
        some: complaints at one place: members of a union each have a say.
        sections: those that may stand around the key, where that matters.
        meant: the key that an unknown one seems to be.
    """
    first = some[0]
    shown = "" if isinstance(first.value, dict | list) else json.dumps(first.value)
    match first.kind:
        case kind if kind == UNKNOWN:
            return (
                f"unknown key; did you mean `{meant[-1]}`?"
                if meant
                else f"unknown key; allowed here: {', '.join(names_of(sections))}"
            )
        case kind if kind == WITHOUT_KIND:
            return f"missing; allowed: {', '.join(kind for one in sections for kind in literals(one, first.place[-1]))}"
        case "missing":
            return "missing"
        case kind if kind in ALLOWED:
            # The last item that a list lacks gives its length.
            allowed = dict.fromkeys(one.allowed for one in (some[-1:] if first.kind == WITHOUT_ITEM else some))
            return "; ".join(filter(None, [shown, f"allowed: {' or '.join(allowed)}"]))
    return ": ".join(filter(None, [shown, first.message]))


def names_of(sections: Sequence[type[BaseModel]]) -> list[str]:
    """The keys of sections, each once."""
    return list(dict.fromkeys(name for one in sections for name in one.model_fields))


def place_of(location: Sequence[str | int], values: Any, missing: bool) -> Place:
    """The keys that lead to a complaint, without pydantic's names for the members of a union.

    Only where something is `missing`, the last part is a key that the values do not have.
    """
    place = list[str]()
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
    return tuple(place)


def sections_at(model: type[BaseModel], place: Place, values: Any) -> list[type[BaseModel]]:
    """The section that stands at a place within a model; all that may stand there, where their kind is missing."""
    annotation: Any = model
    for part in place:
        if get_origin(annotation) in (dict, tuple):
            # Names of a dictionary are the user's: behind each stands the same section, as behind each item of a list.
            annotation = get_args(annotation)[get_origin(annotation) is dict]
        else:
            annotation = chosen(annotation, values)[0].model_fields[part].annotation
        values = at(values, (part,))
    return chosen(annotation, values)


def at(values: Any, place: Place) -> Any:
    """The value at a place."""
    for part in place:
        values = values[int(part) if isinstance(values, list) else part]
    return values


def chosen(annotation: Any, values: Any) -> list[type[BaseModel]]:
    """The model in an annotation, as in `Mixing | None`; of several the one that the values choose, else all."""
    found = list(sections_in(annotation))
    if len(found) == 1:
        return found
    key = next(name for name in DISCRIMINATORS if all(name in one.model_fields for one in found))
    return [one for one in found if values.get(key) in literals(one, key)] or found


def literals(section: type[BaseModel], key: str) -> tuple[Any, ...]:
    """The values of a key that a section allows."""
    return get_args(section.model_fields[key].annotation)


def sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from sections_in(part)
