"""The page on the library: public names have examples, which run; settings have their words in the library."""

import ast
import re
from pathlib import Path

import pytest
import torch
import yaml
from pages import ROOT, blocks

import unequal
from unequal.settings.complaints import sections_in
from unequal.settings.evaluation import Sampling
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict

PAGE = ROOT / "docs/library.md"
ROWS = re.findall(r"^\| `(\w+: \{.*?\})` \| `(.*)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
EXAMPLES = list(blocks(PAGE, "python"))
SECTIONS = PAGE.read_text(encoding="utf-8").split("## Names")[1].split("\n### ")[1:]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.id)
def test_an_example_runs(block):
    exec(compile(block.text, block.id, "exec"), {})


def names_in(section: str) -> tuple[set[str], set[str]]:
    listed = set(re.findall(r"`(\w+)`", section.split("```")[0].split("\n\n")[1]))
    tree = ast.parse(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0])
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "un"}
    return listed, used


def test_the_page_lists_the_public_names_and_shows_each_in_an_example():
    sections = [names_in(section) for section in SECTIONS]
    assert all(listed and listed <= used for listed, used in sections)
    assert set().union(*(listed for listed, _ in sections)) == set(unequal.__all__)


def test_type_checkers_see_the_public_names():
    tree = ast.parse(Path(unequal.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert [(one.asname, node.module) for node in imports for one in node.names] == list(unequal._MODULE_OF.items())
    assert set(unequal.__all__) <= set(dir(unequal))


@pytest.mark.parametrize(("setting", "code"), ROWS, ids=lambda text: text[:20])
def test_a_setting_has_its_words_in_the_library(setting, code):
    ((section, values),) = yaml.safe_load(setting).items()
    sections: list[type[Strict]] = (
        [Sampling] if section == "sampling" else [*sections_in(Recipe.model_fields[section].annotation)]
    )
    assert any(values.keys() <= model.model_fields.keys() for model in sections)
    schedule = unequal.NoiseSchedule.linear(1000)
    names = {name: getattr(unequal, name) for name in unequal.__all__}
    names |= {"schedule": schedule, "noise": torch.randn(2, 1, 4, 4), "predict": lambda x_t, t: 0 * x_t}
    assert eval(code, names) is not None
