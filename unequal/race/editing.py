"""Sections written into a params file, with the comments of all others kept."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from unequal.errors import UserError, plain
from unequal.files import write_bytes

#: Columns of a flow mapping before it is broken.
WIDTH = 120


def yaml_of_file() -> YAML:
    """A reader and writer that keeps comments, quotes and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(type(None), lambda one, _: one.represent_scalar("tag:yaml.org,2002:null", "null"))
    return yaml


def in_a_line(value: Any) -> Any:
    """A value of one line: mappings and lists in flow style."""
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
    """A mapping with a line a key, and a comment behind some."""
    found = CommentedMap({key: in_a_line(value) for key, value in section.items()})
    for key, comment in (comments or {}).items():
        found.yaml_add_eol_comment(comment, key)
    return found


def edited(path: Path, change: Mapping[str, Any]) -> str:
    """The text of a params file in which values stand at dotted keys; mappings there are replaced, others stay.

    Raises:
        UserError: the file cannot be read.
    """
    yaml = yaml_of_file()
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except Exception as error:
        raise UserError(f"{path}: cannot be edited: {plain(str(error))}") from None
    for dotted, value in change.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = CommentedMap()
            place = place[section]
        place[last] = value
    text = StringIO()
    yaml.dump(document, text)
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Write the file at once."""
    write_bytes(path, text.encode())
