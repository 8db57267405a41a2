"""Edits of sections of a params file that preserve the comments of all other sections."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from unequal.errors import UserError, needs, plain

needs(__name__, "pipeline", "ruamel")

from ruamel.yaml import YAML  # noqa: E402
from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: E402

#: Largest width of a mapping on one line, in columns.
WIDTH = 120


def yaml_of_file(width: int = WIDTH) -> YAML:
    """Reader and writer of YAML that preserves comments, quotes and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, width
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(type(None), lambda one, _: one.represent_scalar("tag:yaml.org,2002:null", "null"))
    return yaml


def in_a_line(value: Any) -> Any:
    """Convert a value to one line: mappings and lists in flow style."""
    if isinstance(value, Mapping):
        found = CommentedMap({key: in_a_line(one) for key, one in value.items()})
        found.fa.set_flow_style()
        return found
    if isinstance(value, list | tuple):
        items = CommentedSeq(in_a_line(one) for one in value)
        items.fa.set_flow_style()
        return items
    return value


def in_lines(section: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> CommentedMap:
    """Convert a section to a mapping with one line per key, some with a comment at the end."""
    found = CommentedMap({key: in_a_line(value) for key, value in section.items()})
    for key, comment in (comments or {}).items():
        found.yaml_add_eol_comment(comment, key)
    return found


def change(document: Any, values: Mapping[str, Any]) -> None:
    """Set a document's values at dotted keys; mappings there are replaced as a whole."""
    for dotted, value in values.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = CommentedMap()
            place = place[section]
        place[last] = value


def text_of(document: Any, yaml: YAML) -> str:
    """Text of a document."""
    text = StringIO()
    yaml.dump(document, text)
    return text.getvalue()


def edited(path: Path, values: Mapping[str, Any]) -> str:
    """Text of a params file after its values at dotted keys are set; mappings there are replaced as a whole.

    Raises:
        UserError: the file cannot be read.
    """
    yaml = yaml_of_file()
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except Exception as error:
        raise UserError(f"{path}: cannot be edited: {plain(str(error))}") from None
    change(document, values)
    return text_of(document, yaml)
