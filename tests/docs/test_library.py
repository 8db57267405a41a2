"""The page on the library's public names: all of them have an example, which runs."""

import ast
import re

import pytest
from pages import ROOT, Block, blocks

PAGE = ROOT / "docs/library.md"
EXAMPLES = list(blocks(PAGE, "python"))
SECTIONS = PAGE.read_text(encoding="utf-8").split("## Names")[1].split("\n### ")[1:]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.id)
def test_an_example_runs(block: Block):
    exec(compile(block.text, block.id, "exec"), {})


def names_in(section: str) -> tuple[set[str], set[str]]:
    """The names that a section lists, and those that its example takes from this library and uses."""
    listed = set(re.findall(r"`(\w+)`", section.split("```")[0].split("\n\n")[1]))
    tree = ast.parse(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0])
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    ours = {one.name for node in imports if str(node.module).startswith("unequal.") for one in node.names}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return listed, ours & used


@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.splitlines()[0])
def test_a_name_that_is_listed_has_an_example(section: str):
    listed, used = names_in(section)
    assert listed - used == set()
    assert listed


def test_all_that_examples_take_is_listed_somewhere():
    found = [names_in(section) for section in SECTIONS]
    assert set().union(*(used for _, used in found)) <= set().union(*(listed for listed, _ in found))
