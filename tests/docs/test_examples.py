"""The examples of the documentation: each trains, and has five lines of this library at most."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest
from accelerate.state import AcceleratorState
from pages import ROOT

EXAMPLES = sorted((ROOT / "docs/code").glob("*.py"))
#: Libraries that examples need beyond the pipeline's.
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
def test_an_example_trains_and_trains_the_same_again(file):
    AcceleratorState._reset_state(reset_partial_state=True)
    curve = loaded(file).train()
    assert loaded(file).train() == curve
    assert mean(curve[-4:]) < mean(curve[:4])
