"""All that is wrong with a params file, at once: a line for each wrong value, and for each impossible combination."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from unequal.errors import UserError, UserErrors, plain
from unequal.settings.complaints import complaints
from unequal.settings.strict import Strict, numbered, read_yaml, renamed, with_kinds

M = TypeVar("M", bound=Strict)


def read_whole(model: type[M], path: Path) -> M:
    """Read and check a whole params file.

    Raises:
        UserErrors: it is not sound; a line for each problem.
        UserError: it is missing, or no YAML.
    """
    document = read_yaml(path)
    if lines := problems(model, document):
        raise UserErrors(list(numbered(path, map(plain, lines))))
    return model.model_validate_json(as_json(model, document))


def sound_part(model: type[M], path: Path) -> M:
    """The sections of an unsound params file that are sound by themselves; what reads another one fails."""
    try:
        values = json.loads(as_json(model, read_yaml(path)))
    except (TypeError, ValueError):  # of the file as a whole, which `read_whole` refuses
        values = {}
    return model.model_construct(**dict(sound_sections(model, values)))


def problems(model: type[Strict], document: dict[str, Any]) -> list[str]:
    """List what is wrong with the content of a params file, as `key: value: what is allowed`.

    pydantic reports one impossible combination of sections, and none where a value is wrong; here each validator of the
    whole file runs on the sections that are sound.
    """
    if lines := list(renamed(document)):
        return lines
    try:
        text = as_json(model, document)
    except (TypeError, ValueError) as error:
        return [str(error)]
    try:
        model.model_validate_json(text)
    except ValidationError as error:
        values = json.loads(text)
        wrong = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
        lines = complaints(error, model, values, {}) if wrong else []
        return list(dict.fromkeys([*lines, *combinations(model, values, wrong)]))
    return []


def as_json(model: type[Strict], document: dict[str, Any]) -> str:
    """The document as JSON, with the kinds that may be left out."""
    return json.dumps(with_kinds(model, document), default=str)


def combinations(model: type[Strict], values: dict[str, Any], wrong: set[str]) -> Iterator[str]:
    """Yield what the validators of a model as a whole refuse, as far as they need none of the wrong sections."""
    whole, refused, doubtful = model.model_construct(**dict(sound_sections(model, values))), 0, list[str]()
    for name, validator in model.__pydantic_decorators__.model_validators.items():
        if validator.info.mode != "after":
            continue
        try:
            getattr(whole, name)()
        except ValueError as error:
            refused += 1
            yield str(error)
        except UserError as error:  # of the library, which an earlier validator has refused in the settings' own words
            doubtful.append(str(error))
        except Exception:
            if not wrong and not refused:
                raise  # else it needs what is missing or wrong, of which there is a line
    if not refused:
        yield from doubtful


def sound_sections(model: type[Strict], values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and contents of sections that are sound by themselves."""
    for name, field in model.model_fields.items():
        if name in values:
            adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]
            with suppress(ValidationError):
                yield name, adapter.validate_json(json.dumps(values[name]), strict=True)
