"""The strings that a schema allows, and where: what tests of names and of paths walk."""

from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]


def strings(schema: Node) -> Iterator[tuple[str, Node]]:
    """Dotted places and nodes of all strings; `*` stands for names of the user's, and nothing for the place in a list.

    A name that is a key of the user's is a string of its own, whose place ends in `*`.
    """
    yield from walked(schema, schema, "")


def walked(node: Node, schema: Node, place: str) -> Iterator[tuple[str, Node]]:
    if "$ref" in node:
        yield from walked(schema["$defs"][node["$ref"].rpartition("/")[2]], schema, place)
    if node.get("type") == "string" or "const" in node or "enum" in node:
        yield place, node
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("prefixItems", ())):
        yield from walked(one, schema, place)
    if isinstance(node.get("items"), dict):
        yield from walked(node["items"], schema, place)
    for name, one in node.get("properties", {}).items():
        yield from walked(one, schema, f"{place}.{name}".lstrip("."))
    named = node.get("patternProperties", {})
    if isinstance(node.get("additionalProperties"), dict):
        named = named | {None: node["additionalProperties"]}
    for pattern, one in named.items():
        yield (
            f"{place}.*",
            {"type": "string"} | node.get("propertyNames", {}) | ({"pattern": pattern} if pattern else {}),
        )
        yield from walked(one, schema, f"{place}.*")
