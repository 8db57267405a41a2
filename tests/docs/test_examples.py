"""The examples of the documentation: each trains, and has five lines of this library at most."""

import ast
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest
from accelerate.state import AcceleratorState
from pages import ROOT

EXAMPLES = sorted((ROOT / "docs/code").glob("*.py"))
MARK = "  # unequal"
#: What examples need that is not there with the pipeline.
FURTHER = {"lora": ("peft", "transformers")}
each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def loaded(file: Path) -> ModuleType:
    """An example as a module; skipped where it needs what is not installed."""
    missing = [name for name in FURTHER.get(file.stem, ()) if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@each_example
def test_an_example_trains_and_trains_the_same_again(file: Path):
    AcceleratorState._reset_state(reset_partial_state=True)
    curve = loaded(file).train()
    assert loaded(file).train() == curve
    assert mean(curve[-4:]) < mean(curve[:4])


@each_example
def test_an_example_has_five_lines_of_this_library(file: Path):
    """All that name something of it are marked, but for imports, and what is drawn or tabulated by it."""
    text = file.read_text(encoding="utf-8")
    marked = [line for line in text.splitlines() if line.endswith(MARK)]
    assert 3 <= len(marked) <= 5
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports if str(node.module).startswith("unequal.") for alias in node.names} | {
        "timesteps"
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    lines = {node.lineno for node in calls if ast.unparse(node.func).split(".")[0] in names}
    assert [text.splitlines()[line - 1] for line in sorted(lines) if MARK not in text.splitlines()[line - 1]] == []
