"""Settings and code on the pages are sound: what is shown can be written so."""

import ast
import importlib
from typing import Any

import yaml
from graph import model_of_file
from pages import ROOT, each_block

from unequal.settings.strict import read_yaml


@each_block("yaml")
def test_settings_can_be_written_so(block, tmp_path, monkeypatch):
    assert block.title, "name the file that the block belongs to"
    file = ROOT / block.title
    changes = yaml.safe_load(block.text)
    document = merged(read_yaml(file), changes)
    if file.parent == ROOT / "profiles/slurm":
        assert changes.keys() <= {*read_yaml(file), "set-resources"}
        return
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    model_of_file(file).read(path)


def merged(settings: Any, changes: Any) -> Any:
    """Settings with these changes; values, lists and sections of another kind take the place of what was there."""
    both = isinstance(settings, dict) and isinstance(changes, dict)
    if not both or any(changes.get(key) not in (None, settings.get(key)) for key in ("kind", "method")):
        return changes
    settings.update({key: merged(settings.get(key), value) for key, value in changes.items()})
    return settings


@each_block("python")
def test_code_imports_what_there_is(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
