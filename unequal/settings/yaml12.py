"""YAML as DVC reads it, version 1.2, strictly: keys stand once, and every refusal has its line."""

import re
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

from unequal.errors import UserError, plain

#: Octal in YAML 1.1, decimal for DVC; and base 60 in YAML 1.1, a text for DVC.
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+([.eE].*)?")
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-9]{1,2})+(\.[0-9_]*)?")
#: Levels of sections and lists within one another, and values of a whole file.
DEEPEST, LARGEST = 100, 200_000
#: Characters of a value that are shown where it may be long.
SHOWN = 40


class Yaml12(yaml.CSafeLoader):
    """YAML as DVC reads it: scalars of version 1.2, in which `1e-4` is a number and `yes` a word; keys stand once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own way)
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("bool", "int", "float")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        """Refuse what is too deep, of which the parser in C would overrun its stack, or too large with its aliases."""
        sizes, around = dict[str, int](), [("", 0)]
        for event in yaml.parse(text, yaml.CSafeLoader):
            anchor, size = getattr(event, "anchor", None) or "", 1
            if isinstance(event, yaml.CollectionStartEvent):
                around.append((anchor, 0))
            elif isinstance(event, yaml.AliasEvent):
                size = sizes.get(anchor, 1)
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, size = around.pop()
                sizes[anchor] = size
            around[-1] = around[-1][0], around[-1][1] + size
            if len(around) > DEEPEST:
                raise refusal(event, f"sections or lists stand more than {DEEPEST} deep within one another")
            if around[-1][1] > LARGEST:
                raise refusal(event, f"there are more than {LARGEST} values, those that aliases repeat included")
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
                for (*before, _), (*after, key) in pairwise(sorted(keys, key=itemgetter(0, 1))):
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
